/* SPDX-License-Identifier: Apache-2.0 */
/* decay_blocks.h - part of decay_template.h: ATTN_DECAY_STEPS steps as products of matrices. The
 * state is read and written once for all of them.
 *
 *   out[t] = sum over c of (q[t,c] decays up to t) state[c] + sum over i <= t of w(t,i) v[i]
 *   w(t,i) = sum over c of q[t,c] k[i,c] D(i,t,c)
 *   state[c] = state[c] all decays + sum over i of (k[i,c] decays after i) v[i]
 *
 * Decays are multiplied up and never divided, so nothing overflows, and as many roundings reach a
 * term as in the recurrence: 2 (t - i) + Dk + 2 with the scale (README.md). What differs is where
 * underflows are lost: before a product with the state or with v, which makes the loss larger.
 * With numbers below 2^10, or a state below 2^20 at the beginning, it stays below what OP.md
 * allows. `small` says so. It also says that all are finite, for 0 * inf is NaN in the recurrence.
 */

/* Weights of a step i, in whole vectors. */
enum { DECAY_WEIGHTS = 16 };

/* Largest sums of squares of q, k and v of a block, and of the first state. */
#define DECAY_MOST       0x1p20f
#define DECAY_MOST_STATE 0x1p40f

/* w(t,i) of one step i for all t from i on. */
FLASH_INLINE void weigh_step(const int i, const int inclusive, const struct decay_room *r)
{
    vf sum[DECAY_WEIGHTS];
#pragma GCC unroll 16
    for (int t = 0; t < DECAY_WEIGHTS; t++)
        sum[t] = vf_set1(0);
    for (int64_t c = 0; c < r->width; c += VF_LANES) {
        vf k = vf_load(r->k + i * r->rows + c);
        const vf own = vf_mul(vf_load(r->q + i * r->rows + c), k);
        sum[i] = vf_fma(own, vf_load(r->bonus + c), sum[i]);
#pragma GCC unroll 16
        for (int t = i + 1; t < ATTN_DECAY_STEPS; t++) {
            if (inclusive || t > i + 1)
                k = vf_mul(k, vf_load(r->decay + (inclusive ? t : t - 1) * r->rows + c));
            sum[t] = vf_fma(k, vf_load(r->q + t * r->rows + c), sum[t]);
        }
    }
#pragma GCC unroll 2
    for (int t = 0; t < DECAY_WEIGHTS; t += VF_LANES)
        vf_store(r->weights + i * DECAY_WEIGHTS + t, vf_sums(sum + t));
}

FLASH_INLINE void weigh_steps(const int inclusive, const struct decay_room *r)
{
#pragma GCC unroll 16
    for (int i = 0; i < ATTN_DECAY_STEPS; i++)
        weigh_step(i, inclusive, r);
}

/* q takes the decays from the first step on, k those after its own; r->faded is the product of all.
 */
FLASH_INLINE void fade_steps(const int inclusive, const struct decay_room *r)
{
    for (int64_t c = 0; c < r->width; c += VF_LANES) {
        vf before = vf_set1(1), after = vf_set1(1);
        for (int64_t t = 0; t < ATTN_DECAY_STEPS; t++) {
            const vf faded = vf_mul(before, vf_load(r->decay + t * r->rows + c));
            float *q = r->q + t * r->rows + c;
            vf_store(q, vf_mul(vf_load(q), inclusive ? faded : before));
            before = faded;
        }
        vf_store(r->faded + c, before);
        for (int64_t i = ATTN_DECAY_STEPS - 1; i >= 0; i--) {
            float *k = r->k + i * r->rows + c;
            vf_store(k, vf_mul(vf_load(k), after));
            after = vf_mul(after, vf_load(r->decay + i * r->rows + c));
        }
    }
}

/* A whole block of steps, and the state after it. The first product is that with the state: its
 * sums are the longest. */
FLASH_INLINE void multiply_steps(const int inclusive, const struct decay_room *r, int64_t dk,
                                 int64_t count)
{
    struct matrix_product x = {.a = r->q,
                               .a_row = r->rows,
                               .a_step = 1,
                               .b = r->state,
                               .b_row = r->columns,
                               .c = r->out,
                               .c_row = r->columns,
                               .rows = ATTN_DECAY_STEPS,
                               .columns = count,
                               .depth = dk,
                               .fresh = true};
    weigh_steps(inclusive, r);
    fade_steps(inclusive, r);
    matrix_multiply(&x);
    x.fresh = false;
    x.b = r->v;
    x.depth = ATTN_DECAY_STEPS;
    x.a = r->weights;
    x.a_row = 1;
    x.a_step = DECAY_WEIGHTS;
    matrix_multiply_causal(&x, 0);
    x.a = r->k;
    x.a_step = r->rows;
    x.c = r->state;
    x.rows = dk;
    x.fade = r->faded;
    matrix_multiply(&x);
}
