/* SPDX-License-Identifier: Apache-2.0 */
/* flash_finish.h - part of flash_template.h: raw scores become final ones. Scale, softcap, bias,
 * ALiBi and masks. */

/* Whether raw scores are final within the intervals of their rows. */
static bool scores_are_plain(const struct attn_flash *job)
{
    return !job->late && job->score != ATTN_SCORE_ADDITIVE &&
           job->score != ATTN_SCORE_DISENTANGLED && !(job->flags & ATTN_FLAG_SOFTCAP) &&
           !job->operands.bias.data && !job->operands.alibi.data && !job->operands.mask.data;
}

static void scale_scores(const struct group *group, const struct row *row)
{
    for (int64_t j = group->from; j < group->to; j += VF_LANES)
        vf_store(row->s + j, vf_mul(vf_set1(group->job->factor), vf_load(row->s + j)));
}

/* Softcap. The factor has divided the raw score by the cap. */
static void cap_scores(const struct group *group, const struct row *row)
{
    for (int64_t j = group->from; j < group->to; j += VF_LANES)
        vf_store(row->s + j, vf_mul(vf_set1(group->job->cap2), tanh_log2(vf_load(row->s + j))));
}

/* Cells [j, j + VF_LANES) of a strided row whose cell 0 has index `at`. Cells outside [lo, hi) are
 * not read and become 0. */
FLASH_INLINE vf load_cells(const uint32_t type, const void *data, int64_t at, int64_t stride,
                           int64_t j, int64_t lo, int64_t hi)
{
    if (stride == 1 && j >= lo && j + VF_LANES <= hi)
        return load_as(type, data, at + j);
    float lanes[VF_LANES] __attribute__((aligned(64)));
    for (int64_t n = 0; n < VF_LANES; n++)
        lanes[n] =
            j + n >= lo && j + n < hi ? attn_element_read(type, data, at + (j + n) * stride) : 0.0f;
    return vf_loadu(lanes);
}

/* The additive bias. -inf forbids the cell, even if its score is +inf. */
FLASH_INLINE void add_bias_as(const uint32_t type, const struct group *group, const struct row *row)
{
    const struct attn_tensor *bias = &group->job->operands.bias;
    int64_t stride = bias->stride[3];
    int64_t at = attn_row_start(bias, group->b, row->h, row->i) + group->j0 * stride;
    vf forbidden = vf_set1(-INFINITY);
    for (int64_t j = row->lo / VF_LANES * VF_LANES; j < row->hi; j += VF_LANES) {
        vf x = load_cells(type, bias->data, at, stride, j, row->lo, row->hi);
        vf s = vf_fma(x, vf_set1(LOG2_E), vf_load(row->s + j));
        vf_store(row->s + j, vf_select_equal(x, forbidden, forbidden, s));
    }
}

static void add_bias(const struct group *group, const struct row *row)
{
    uint32_t type = group->job->operands.bias.dtype;
    if (type == ATTN_F32)
        add_bias_as(ATTN_F32, group, row);
    else if (type == ATTN_F16)
        add_bias_as(ATTN_F16, group, row);
    else
        add_bias_as(ATTN_BF16, group, row);
}

/* ALiBi: adds -slope * |i + off - j|, with the same rule for -inf. */
static void add_alibi(const struct group *group, const struct row *row)
{
    const struct attn_flash *job = group->job;
    float slope = of_head(&job->operands.alibi, row->h);
    vf by = vf_set1(-slope * LOG2_E), forbidden = vf_set1(-INFINITY);
    int64_t diagonal =
        row->i + attn_keys_offset(job->problem, &job->operands.len, group->b) - group->j0;
    for (int64_t j = row->lo / VF_LANES * VF_LANES; j < row->hi; j += VF_LANES) {
        vf distance = vf_abs(vf_sub(vf_set1((float)(diagonal - j)), vf_lane_numbers()));
        vf x = vf_mul(by, distance);
        vf s = vf_fma(by, distance, vf_load(row->s + j));
        vf_store(row->s + j, vf_select_equal(x, forbidden, forbidden, s));
    }
}

/* The boolean mask, within the interval of the row. */
static void mask_scores(const struct group *group, const struct row *row)
{
    const struct attn_flash *job = group->job;
    int64_t stride = job->operands.mask.stride[3];
    const uint8_t *mask = (const uint8_t *)job->operands.mask.data +
                          attn_row_start(&job->operands.mask, group->b, row->h, row->i) +
                          group->j0 * stride;
    vf forbidden = vf_set1(-INFINITY);
    int64_t j = row->lo;
    if (stride == 1)
        for (; j + VF_LANES <= row->hi; j += VF_LANES)
            vf_storeu(row->s + j, vf_select_bytes(mask + j, vf_loadu(row->s + j), forbidden));
    for (; j < row->hi; j++)
        row->s[j] = mask[j * stride] ? row->s[j] : -INFINITY;
}

/* The scores of a row in [from, to). Forbidden cells become -inf. */
static void finish_scores(const struct group *group, const struct row *row)
{
    const struct attn_flash *job = group->job;
    if (job->late)
        scale_scores(group, row);
    if (job->flags & ATTN_FLAG_SOFTCAP)
        cap_scores(group, row);
    if (job->operands.bias.data)
        add_bias(group, row);
    if (job->operands.alibi.data)
        add_alibi(group, row);
    if (job->operands.mask.data)
        mask_scores(group, row);
    if (row->gaps)
        mask_gaps(group, row);
    for (int64_t j = group->from; j < row->lo; j++)
        row->s[j] = -INFINITY;
    for (int64_t j = row->hi; j < group->to; j++)
        row->s[j] = -INFINITY;
}
