/* SPDX-License-Identifier: Apache-2.0 */
/* flash_pairs_weights.h - part of flash_f32_template.h, for instances whose products take pairs of
 * bf16: scores to weights that are stored as bf16, and their product with a V that may not be
 * finite.
 *
 * A row of weights takes the place of its row of scores, half as long: who goes through it from its
 * first key on has read a score before a weight is written over it. Sums are taken of the weights
 * before they are rounded, so that lse is that of the scores.
 *
 * Error bound, checked over every argument by test_simd_exp and declared by the plan:
 *   |exp2_brief(x) / 2^x - 1| <= ATTN_PAIRS_E_EXP for -126 <= x <= 0; within 2^-126 below, and 0
 *   for -inf */

/* 2^x for x <= 0, as exp2_negative, to a degree that is enough for a result of 8 bits. */
FLASH_INLINE vf exp2_brief(vf x)
{
    vf n = vf_round(x);
    vf f = vf_sub(x, n);
    vf y = vf_set1(PAIRS_C3);
    y = vf_fma(y, f, vf_set1(PAIRS_C2));
    y = vf_fma(y, f, vf_set1(PAIRS_C1));
    y = vf_fma(y, f, vf_set1(1.0f));
    return vf_times_power(y, n);
}

/* The bf16 in the place of a row of scores. */
FLASH_INLINE uint16_t *weights_of(float *scores)
{
    return (uint16_t *)(void *)scores;
}

/* Weights of [from, to) of `mr` rows that are LD apart, 2^((s - shift) * by), as bf16 in place, and
 * their sums. A lane's sum stands for fixed places in the tile, so that nothing depends on `from`
 * and `to`. */
FLASH_INLINE void weigh_pairs(const int mr, float *scores, int64_t from, int64_t to,
                              const float *shift, vf by, float *sum)
{
    vf top[FLASH_MR], sums[FLASH_MR];
    int64_t j = from;
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
        top[r] = vf_set1(shift[r]);
        sums[r] = vf_set1(0.0f);
    }
    for (; j + 2 * VF_LANES <= to; j += 2 * VF_LANES)
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            float *s = scores + r * LD;
            vf p = exp2_brief(vf_mul(vf_sub(vf_load(s + j), top[r]), by));
            vf q = exp2_brief(vf_mul(vf_sub(vf_load(s + j + VF_LANES), top[r]), by));
            sums[r] = vf_add(vf_add(sums[r], p), q);
            vf_store_pairs(weights_of(s) + j, p, q);
        }
    for (int r = 0; r < mr && j < to; r++) {
        float *s = scores + r * LD;
        vf p = exp2_brief(vf_mul(vf_sub(vf_load(s + j), top[r]), by));
        sums[r] = vf_add(sums[r], p);
        vf_store_bf16(weights_of(s) + j, p);
    }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
        sum[r] = vf_sum(sums[r]);
}

/* Weights [from, to) of `count` rows that are floats yet. */
static void narrow_weights(int count, float *weights, int64_t from, int64_t to)
{
    for (int r = 0; r < count; r++) {
        float *p = weights + r * LD;
        for (int64_t j = from; j < to; j += VF_LANES)
            vf_store_bf16(weights_of(p) + j, vf_load(p + j));
    }
}

/* value_product where V may hold NaN or Inf: weights of -0.0, the mark of pairs that take no part,
 * are skipped instead of multiplied. */
FLASH_APART void value_product_careful(int count, const struct product *x)
{
    for (int r = 0; r < count; r++) {
        float *o = x->o + r * x->width;
        const uint16_t *p = (const uint16_t *)(const void *)(x->p + r * LD);
        const uint16_t *v = (const uint16_t *)(const void *)x->v;
        for (int64_t c = 0; c < x->width; c++)
            o[c] = x->fresh ? 0.0f : o[c] * x->rescale[r];
        for (int64_t j = 2 * x->lo; j < 2 * x->hi; j++)
            for (int64_t c = 0; c < x->width && p[j] != 0x8000; c++) {
                int64_t pair = c / FLASH_NR * x->v_panel + c % FLASH_NR + j / 2 * x->v_key;
                o[c] += attn_from_bf16(p[j]) * attn_from_bf16(v[2 * pair + j % 2]);
            }
        for (int64_t c = 0; c < x->width; c++)
            x->to[r][c] = o[c] * x->by[r];
    }
}
