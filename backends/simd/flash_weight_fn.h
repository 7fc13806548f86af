/* SPDX-License-Identifier: Apache-2.0 */
/* flash_weight_fn.h - part of flash_template.h: weights that depend on their score alone
 * (ATTN_FLAG_WEIGHT), in place of the online softmax. Their rows keep the maximum 0 and the
 * denominator 1, so that nothing is rescaled, and the steps after the weights stay as they are.
 *
 * Scores lie in the log2 domain. -inf gives 0, +inf the limit, NaN gives NaN. Error bounds, which
 * test_simd_exp checks over all scores up to 100 and the plan declares:
 *   sigmoid  ATTN_FLASH_E_SIGMOID, relative, where the sigmoid is at least 2^-125
 *   relu2    ATTN_FLASH_E_RELU2, relative
 *   laplace  ATTN_FLASH_A_LAPLACE, absolute */
#define LN_2 0.693147180559945309

/* 1 / (1 + 2^-x): exp of a number that is not positive, so that small weights keep their digits. */
FLASH_INLINE vf sigmoid_log2(vf x)
{
    const vf one = vf_set1(1.0f), zero = vf_set1(0.0f);
    vf e = exp2_negative(vf_sub(zero, vf_abs(x)));
    vf part = vf_div(one, vf_add(one, e));
    return vf_mul(part, vf_select_equal(vf_min(x, zero), zero, one, e));
}

FLASH_INLINE vf relu2_log2(vf x)
{
    vf s = vf_mul(vf_max(vf_set1(0.0f), x), vf_set1((float)LN_2)); /* NaN stays NaN */
    return vf_mul(s, s);
}

/* (1 + erf(y)) / 2 with y = sqrt(2 pi) (s - sqrt(1/2)). erf by Abramowitz and Stegun 7.1.26, whose
 * error is at most 1.5e-7: 1 - (a1 t + ... + a5 t^5) exp(-y^2), t = 1 / (1 + p |y|). */
FLASH_INLINE vf laplace_log2(vf x)
{
    static const float a[] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f,
                              0.254829592f};
    const vf one = vf_set1(1.0f), zero = vf_set1(0.0f);
    vf y = vf_fma(x, vf_set1((float)(LN_2 * 2.50662827463100050)), vf_set1(-1.77245385090551603f));
    vf t = vf_div(one, vf_fma(vf_abs(y), vf_set1(0.3275911f), one)), sum = vf_set1(a[0]);
#pragma GCC unroll 4
    for (int n = 1; n < 5; n++)
        sum = vf_fma(sum, t, vf_set1(a[n]));
    vf half = vf_mul(vf_mul(vf_set1(0.5f), t),
                     vf_mul(sum, exp2_negative(vf_mul(vf_mul(y, y), vf_set1(-LOG2_E)))));
    return vf_select_equal(vf_min(y, zero), zero, vf_sub(one, half), half);
}

/* Weights in the place of the scores of a row. With `mark`, forbidden cells become -0.0. */
FLASH_INLINE void weigh_row_as(const int64_t weight_fn, const bool mark, const struct group *group,
                               float *scores)
{
    const vf forbidden = vf_set1(-INFINITY);
    for (int64_t j = group->from; j < group->to; j += VF_LANES) {
        vf s = vf_load(scores + j);
        vf p = weight_fn == ATTN_WEIGHT_SIGMOID ? sigmoid_log2(s)
               : weight_fn == ATTN_WEIGHT_RELU2 ? relu2_log2(s)
                                                : laplace_log2(s);
        if (mark)
            p = vf_select_equal(s, forbidden, vf_set1(-0.0f), p);
        vf_store(scores + j, p);
    }
}

static void weigh_row(const struct group *group, bool mark, float *scores)
{
    const int64_t weight_fn = group->job->problem->weight_fn;
    if (weight_fn == ATTN_WEIGHT_SIGMOID)
        weigh_row_as(ATTN_WEIGHT_SIGMOID, mark, group, scores);
    else if (weight_fn == ATTN_WEIGHT_RELU2)
        weigh_row_as(ATTN_WEIGHT_RELU2, mark, group, scores);
    else
        weigh_row_as(ATTN_WEIGHT_LAPLACE, mark, group, scores);
}

/* Has the job other weights than those of a softmax? */
FLASH_INLINE bool weighs_alone(const struct attn_flash *job)
{
    return job->flags & ATTN_FLAG_WEIGHT;
}
