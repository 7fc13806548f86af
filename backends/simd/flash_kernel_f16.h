/* SPDX-License-Identifier: Apache-2.0 */
/* flash_kernel_f16.h - part of flash_template.h: the micro-kernels of the two products, sums in f16
 * and then in f32.
 *
 * Each half of a lane sums at most FLASH_CHAIN products in a register, mr x nv vectors of them.
 * Then it is widened and joins a sum of f32 in the first-level cache. At the end the two sums of a
 * lane are added. Chains begin at multiples of FLASH_CHAIN pairs, so the result of a row does not
 * depend on where its group's keys begin. */
#define FLASH_CHAIN 16 /* longer chains are faster and lose more bits: NOTES.md */

/* f32 sums of a vector of pairs: first of its low 16 halves, then of its high 16. */
typedef float pair_sums[2 * VF_LANES];

/* The operands of a sum over pairs: MR rows and some vectors of columns. */
struct chains {
    const float *a[FLASH_MR]; /* pair c at c */
    const float *b;           /* pair c at c * step */
    int64_t step;
};

/* sums[r][n] += a[r] b[n] over the pairs [from, to), one chain. */
FLASH_INLINE void join_chain(const int mr, const int nv, const struct chains *x, int64_t from,
                             int64_t to, pair_sums sums[FLASH_MR][FLASH_NV])
{
    vh part[FLASH_MR][FLASH_NV];
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            part[r][n] = (vh)vf_set1(0.0f);
    for (int64_t c = from; c < to; c++) {
        vf right[FLASH_NV];
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            right[n] = vf_load(x->b + c * x->step + n * VF_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            vf left = vf_set1(x->a[r][c]);
#pragma GCC unroll 4
            for (int n = 0; n < nv; n++)
                part[r][n] = vh_join(left, right[n], part[r][n]);
        }
    }
    uint16_t halves[FLASH_MR][FLASH_NV][2 * VF_LANES] __attribute__((aligned(64)));
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            vh_store(halves[r][n], part[r][n]);
    /* Through memory, and the compiler must not see it: else it extracts halves of registers, on
     * the units that multiply. */
    __asm__ volatile("" : : "r"(halves) : "memory");
    for (int r = 0; r < mr; r++)
        for (int n = 0; n < nv; n++)
            for (int m = 0; m < 2 * VF_LANES; m += VF_LANES) {
                float *sum = sums[r][n] + m;
                vf_store(sum, vf_add(vf_load(sum), vf_load_f16(halves[r][n] + m, VF_LANES)));
            }
}

/* sums[r][n] = a[r] b[n] over the pairs [from, to). */
FLASH_INLINE void join_chains(const int mr, const int nv, const struct chains *x, int64_t from,
                              int64_t to, pair_sums sums[FLASH_MR][FLASH_NV])
{
    for (int r = 0; r < mr; r++)
        for (int n = 0; n < nv; n++)
            for (int half = 0; half < 2; half++)
                vf_store(sums[r][n] + half * VF_LANES, vf_set1(0.0f));
    for (int64_t c = from, end; c < to; c = end) {
        end = c / FLASH_CHAIN * FLASH_CHAIN + FLASH_CHAIN;
        end = end < to ? end : to;
        join_chain(mr, nv, x, c, end, sums);
    }
}

FLASH_INLINE vf total(const pair_sums sums)
{
    return vf_add_neighbours(vf_load(sums), vf_load(sums + VF_LANES));
}

#define FLASH_FORBIDS 0 /* flash_kernel_f32.h */

/* s[r][0..nv) = sum over c of q[r][c] k[c][0..nv). */
FLASH_INLINE void score_tile(const int mr, const int nv, const enum pairing pairing,
                             const struct span *x, const float *k, float *s, float *top)
{
    pair_sums sums[FLASH_MR][FLASH_NV] __attribute__((aligned(64)));
    struct chains chains = {.b = k, .step = FLASH_NR};
    (void)pairing; /* always DOT */
    for (int r = 0; r < mr; r++)
        chains.a[r] = x->q[r];
    join_chains(mr, nv, &chains, 0, x->dk, sums);
    for (int r = 0; r < mr; r++) {
        vf most = vf_set1(-INFINITY);
        for (int n = 0; n < nv; n++) {
            vf score = total(sums[r][n]);
            vf_store(s + r * LD + n * VF_LANES, score);
            most = vf_max(score, most);
        }
        if (top)
            vf_store(top + r * VF_LANES, vf_max(most, vf_load(top + r * VF_LANES)));
    }
}

/* `nv` vectors of columns, from `column` on, for `mr` rows. */
FLASH_INLINE void value_tile(const int mr, const int nv, const struct product *x, int64_t column)
{
    pair_sums sums[FLASH_MR][FLASH_NV] __attribute__((aligned(64)));
    struct chains chains = {.b = x->v + column / FLASH_NR * x->v_panel + column % FLASH_NR,
                            .step = x->v_key};
    for (int r = 0; r < mr; r++)
        chains.a[r] = x->p + r * LD;
    join_chains(mr, nv, &chains, x->lo, x->hi, sums);
    for (int r = 0; r < mr; r++) {
        const float *o = x->o + r * x->width + column;
        const vf by = vf_set1(x->by[r]), rescale = vf_set1(x->rescale[r]);
        for (int n = 0; n < nv; n++) {
            vf sum = total(sums[r][n]);
            if (!x->fresh)
                sum = vf_fma(rescale, vf_load(o + n * VF_LANES), sum);
            vf_storeu(x->to[r] + column + n * VF_LANES, vf_mul(by, sum));
        }
    }
}
