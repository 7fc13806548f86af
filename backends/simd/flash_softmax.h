/* SPDX-License-Identifier: Apache-2.0 */
/* flash_softmax.h - part of flash_template.h: the online softmax of a group of rows. Maxima,
 * weights as floats, denominators. */

/* The factor that brings scores in memory to the log2 domain. */
FLASH_INLINE float score_unit(const struct attn_flash *job)
{
    return FLASH_PAIRS ? job->unit : 1.0f;
}

FLASH_INLINE vf in_log2(vf x, float unit)
{
    return FLASH_PAIRS ? vf_mul(x, vf_set1(unit)) : x;
}

/* What a tile changes in the rows of a group. */
struct softmax {
    float shift[FLASH_MR]; /* the new maxima; 0 instead of -inf, because -inf - -inf is NaN */
    float added[FLASH_MR]; /* sums of the tile's weights */
    /* First the old maxima minus the new ones, then 2 to that: the factor of everything that was
     * accumulated before. */
    float lag[(FLASH_MR + VF_LANES - 1) / VF_LANES * VF_LANES] __attribute__((aligned(64)));
};

/* Before the weights: updates the maxima of the rows. */
static void start_softmax(const struct group *group, float *max, struct softmax *x)
{
    memset(x->lag, 0, sizeof x->lag);
    for (int r = 0; r < group->count && weighs_alone(group->job); r++)
        x->shift[r] = 0.0f; /* as the maximum */
    for (int r = 0; r < group->count && !weighs_alone(group->job); r++) {
        float top = vf_largest(vf_load(group->top + r * VF_LANES)) * score_unit(group->job);
        top = max[r] > top ? max[r] : top;
        x->shift[r] = top == -INFINITY ? 0.0f : top;
        x->lag[r] = max[r] - x->shift[r];
        max[r] = top;
    }
}

/* Weights of [from, to) of `mr` rows from r0 on, relative to the maxima in shift. They replace the
 * scores. Sets the sums of the rows. With `mark`, forbidden cells become -0.0 instead of 0. A lane
 * sums fixed places of the tile, so the result does not depend on from and to. */
FLASH_INLINE void weigh_rows(const int mr, const bool mark, const struct group *group, int r0,
                             const float *shift, float *sum)
{
    float *scores = group->rows[0].s + r0 * LD;
    const float unit = score_unit(group->job);
    const int64_t to = group->to;
    vf by[FLASH_MR], sums[FLASH_MR];
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
        by[r] = vf_set1(shift[r0 + r]);
        sums[r] = vf_set1(0.0f);
    }
    for (int64_t j = group->from; j < to; j += VF_LANES)
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            vf s = vf_load(scores + r * LD + j);
            vf p = exp2_negative(vf_sub(in_log2(s, unit), by[r]));
            sums[r] = vf_add(sums[r], p);
            if (mark)
                p = vf_select_equal(s, vf_set1(-INFINITY), vf_set1(-0.0f), p);
            vf_store(scores + r * LD + j, p);
        }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
        sum[r0 + r] = vf_sum(sums[r]);
}

/* The weights of a group as floats. */
static void weigh_floats(const struct group *group, bool mark, const float *shift, float *sum)
{
    const int count = group->count;
    int r = 0;
    if (weighs_alone(group->job)) {
        for (; r < count; r++) {
            weigh_row(group, mark, group->rows[0].s + r * LD);
            sum[r] = 0.0f;
        }
        return;
    }
    for (; r + 2 <= count && !mark; r += 2)
        weigh_rows(2, false, group, r, shift, sum);
    for (; r < count && !mark; r++)
        weigh_rows(1, false, group, r, shift, sum);
    for (; r < count; r++)
        weigh_rows(1, true, group, r, shift, sum);
}

/* After the weights: updates the denominators of the rows. */
static void end_softmax(const struct group *group, float *sum, struct softmax *x)
{
    for (int r = 0; r < group->count; r += VF_LANES)
        vf_store(x->lag + r, exp2_negative(vf_load(x->lag + r)));
    for (int r = 0; r < group->count; r++)
        sum[r] = sum[r] * x->lag[r] + x->added[r];
}

/* The final weights of a row, in the place of its scores. Forbidden cells become 0, even if the row
 * is NaN. */
static void normalise_row(const struct group *group, const struct row *row, float max, float sum)
{
    const float unit = score_unit(group->job);
    if (weighs_alone(group->job)) {
        weigh_row(group, false, row->s);
        return;
    }
    vf by = vf_set1(1.0f / sum), shift = vf_set1(max), forbidden = vf_set1(-INFINITY);
    for (int64_t j = group->from; j < group->to; j += VF_LANES) {
        vf s = vf_load(row->s + j);
        vf p = vf_mul(exp2_negative(vf_sub(in_log2(s, unit), shift)), by);
        vf_store(row->s + j, vf_select_equal(s, forbidden, vf_set1(0.0f), p));
    }
}
