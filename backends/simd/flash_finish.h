/* SPDX-License-Identifier: Apache-2.0 */
/* flash_finish.h - part of flash_template.h: raw scores become final ones. Scale, softcap, bias,
 * ALiBi and masks. */

/* Whether the product adds the bias itself, in panels that all rows see. */
static bool bias_rides(const struct attn_flash *job)
{
    return !FLASH_PAIRS && job->operands.bias.dtype == ATTN_F32 &&
           job->operands.bias.stride[3] == 1;
}

/* Whether scores are final within the intervals of their rows as the product leaves them. */
static bool scores_are_plain(const struct attn_flash *job)
{
    return !job->late && job->score != ATTN_SCORE_ADDITIVE &&
           job->score != ATTN_SCORE_DISENTANGLED && !(job->flags & ATTN_FLAG_SOFTCAP) &&
           (!job->operands.bias.data || bias_rides(job)) && !job->operands.alibi.data &&
           !job->operands.mask.data;
}

/* Cells [j, j + VF_LANES) of a strided row whose cell 0 has index `at`. Cells from `end` on are not
 * read and become 0. */
FLASH_INLINE vf load_cells(const uint32_t type, const void *data, int64_t at, int64_t stride,
                           int64_t j, int64_t end)
{
    if (stride == 1)
        return load_first_as(type, data, at + j, end - j);
    float lanes[VF_LANES] __attribute__((aligned(64)));
    for (int64_t n = 0; n < VF_LANES; n++)
        lanes[n] = j + n < end ? attn_element_read(type, data, at + (j + n) * stride) : 0.0f;
    return vf_load(lanes);
}

/* `s` in the cells that a boolean mask allows, else -inf. Cells from `end` on are not read and are
 * forbidden. */
FLASH_INLINE vf mask_cells(const uint8_t *mask, int64_t stride, int64_t j, int64_t end, vf s)
{
    const vf forbidden = vf_set1(-INFINITY);
    if (stride == 1)
        return vf_select_bytes(mask + j, end - j, s, forbidden);
    uint8_t lanes[VF_LANES];
    for (int64_t n = 0; n < VF_LANES; n++)
        lanes[n] = j + n < end ? mask[(j + n) * stride] : 0;
    return vf_select_bytes(lanes, VF_LANES, s, forbidden);
}

/* What a row of scores meets beside its mask. Copied, so that the loops reload nothing. */
struct extras {
    bool late, capped;
    float factor, cap2;           /* struct attn_flash */
    const void *bias;             /* NULL: none */
    int64_t bias_at, bias_stride; /* of the first key of the tile */
    bool alibi;
    float slope;         /* times -log2(e) */
    int64_t diagonal;    /* key of the tile at distance 0 */
    const uint8_t *mask; /* NULL: none */
    int64_t mask_stride;
};

static bool has_extras(const struct attn_flash *job)
{
    return job->late || job->flags & ATTN_FLAG_SOFTCAP || job->operands.bias.data ||
           job->operands.alibi.data || job->operands.mask.data;
}

static struct extras row_extras(const struct group *group, const struct row *row)
{
    const struct attn_flash *job = group->job;
    const struct attn_operands *x = &job->operands;
    struct extras extras = {.late = job->late,
                            .capped = job->flags & ATTN_FLAG_SOFTCAP,
                            .factor = job->factor,
                            .cap2 = job->cap2,
                            .bias = x->bias.data,
                            .alibi = x->alibi.data != NULL};
    if (x->bias.data) {
        extras.bias_stride = x->bias.stride[3];
        extras.bias_at =
            attn_row_start(&x->bias, group->b, row->h, row->i) + group->j0 * extras.bias_stride;
    }
    if (x->alibi.data) {
        extras.slope = -of_head(&x->alibi, row->h) * LOG2_E;
        extras.diagonal = row->i + attn_keys_offset(job->problem, &x->len, group->b) - group->j0;
    }
    if (x->mask.data) {
        extras.mask_stride = x->mask.stride[3];
        extras.mask = (const uint8_t *)x->mask.data +
                      attn_row_start(&x->mask, group->b, row->h, row->i) +
                      group->j0 * extras.mask_stride;
    }
    return extras;
}

/* Final scores of [j, j + VF_LANES), of which the row sees some. A bias of -inf, or an ALiBi of
 * it, forbids the cell even if its score is +inf. */
FLASH_INLINE vf finish_vector(const uint32_t type, const struct extras *x, const struct row *row,
                              int64_t j, vf s)
{
    const vf forbidden = vf_set1(-INFINITY);
    if (x->late)
        s = vf_mul(vf_set1(x->factor), s);
    if (x->capped) /* the factor has divided the raw score by the cap */
        s = vf_mul(vf_set1(x->cap2), tanh_log2(s));
    if (x->bias) {
        vf bias = load_cells(type, x->bias, x->bias_at, x->bias_stride, j, row->hi);
        s = vf_select_equal(bias, forbidden, forbidden, vf_fma(bias, vf_set1(LOG2_E), s));
    }
    if (x->alibi) { /* -slope * |i + off - j| */
        vf by = vf_set1(x->slope);
        vf far = vf_abs(vf_sub(vf_set1((float)(x->diagonal - j)), vf_lane_numbers()));
        s = vf_select_equal(vf_mul(by, far), forbidden, forbidden, vf_fma(by, far, s));
    }
    if (x->mask)
        s = mask_cells(x->mask, x->mask_stride, j, row->hi, s);
    return s;
}

/* Forbids the keys of a vector that are outside of [lo, hi), which is not empty. */
FLASH_INLINE vf clip_vector(int64_t j, int64_t lo, int64_t hi, vf s)
{
    const vf key = vf_add(vf_set1((float)j), vf_lane_numbers());
    const vf near = vf_min(vf_max(key, vf_set1((float)lo)), vf_set1((float)(hi - 1)));
    return vf_select_equal(key, near, s, vf_set1(-INFINITY));
}

/* Finishes the scores of a row in [from, to). Returns top raised to them, NaN ignored. `extras`
 * NULL: nothing but the interval of the row changes them. */
FLASH_INLINE vf finish_as(const uint32_t type, const struct extras *extras, const struct row *row,
                          int64_t from, int64_t to, vf top)
{
    const struct extras x = extras ? *extras : (struct extras){0};
    for (int64_t j = from; j < to; j += VF_LANES) {
        const bool seen = j < row->hi && j + VF_LANES > row->lo;
        const bool whole = j >= row->lo && j + VF_LANES <= row->hi;
        vf s = seen ? vf_load(row->s + j) : vf_set1(-INFINITY);
        if (seen && extras)
            s = finish_vector(type, &x, row, j, s);
        if (seen && !whole)
            s = clip_vector(j, row->lo, row->hi, s);
        if (extras || !whole)
            vf_store(row->s + j, s);
        top = vf_max(s, top);
    }
    return top;
}

static vf finish_span(const struct extras *x, uint32_t type, const struct row *row, int64_t from,
                      int64_t to, vf top)
{
    if (!x)
        return finish_as(ATTN_F32, NULL, row, from, to, top);
    if (!x->bias || type == ATTN_F32)
        return finish_as(ATTN_F32, x, row, from, to, top);
    if (type == ATTN_F16)
        return finish_as(ATTN_F16, x, row, from, to, top);
    return finish_as(ATTN_BF16, x, row, from, to, top);
}

/* The scores of a row in [from, to) become final, but for the panels that are clean; forbidden
 * cells become -inf. Returns the maxima of these scores and of `top`, lane by lane. NaN is ignored
 * and shows in the sum of the weights. */
static vf finish_scores(const struct group *group, const struct row *row, vf top)
{
    struct extras extras;
    const struct extras *x = NULL;
    const uint32_t type = group->job->operands.bias.dtype;
    if (has_extras(group->job)) {
        extras = row_extras(group, row);
        x = &extras;
    }
    if (group->clean_from < group->clean_to) {
        top = finish_span(x, type, row, group->from, group->clean_from, top);
        return finish_span(x, type, row, group->clean_to, group->to, top);
    }
    const vf raised = finish_span(x, type, row, group->from, group->to, top);
    if (!row->gaps)
        return raised;
    mask_gaps(group, row);
    for (int64_t j = group->from; j < group->to; j += VF_LANES)
        top = vf_max(vf_load(row->s + j), top);
    return top;
}
