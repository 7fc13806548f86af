/* SPDX-License-Identifier: Apache-2.0 */
/* flash_weights_pairs.h - part of flash_template.h: what flash_weights_floats.h does, for products
 * of pairs. Weights are stored as FLASH_TYPE.
 *
 * A row of weights takes the place of its row of scores and is half as long. It is written from its
 * first key on, so each score is read before a weight overwrites it. Sums are those of the weights
 * before rounding, so lse is that of the scores. */
/* The row of weights in the place of a row of scores. */
FLASH_INLINE uint16_t *weights_of(float *scores)
{
    return (uint16_t *)(void *)scores;
}

/* Weights of [from, to) of a row, 2^(s * unit - shift), stored in place. Returns their sum. shift
 * is the rounded product of the largest score and unit. Here the product is rounded as well, so the
 * weight of the largest score is exactly 1. A lane sums fixed places of the tile, so the result
 * does not depend on from and to. */
FLASH_INLINE float weigh_pairs(float *s, int64_t from, int64_t to, float shift, float unit)
{
    const vf top = vf_set1(shift);
    vf sum = vf_set1(0.0f);
    int64_t j = from;
    for (; j + 2 * VF_LANES <= to; j += 2 * VF_LANES) {
        vf p = exp2_brief(vf_sub(in_log2(vf_load(s + j), unit), top));
        vf q = exp2_brief(vf_sub(in_log2(vf_load(s + j + VF_LANES), unit), top));
        sum = vf_add(vf_add(sum, p), q);
        vf_store_pairs(weights_of(s) + j, p, q);
    }
    if (j < to) {
        vf p = exp2_brief(vf_sub(in_log2(vf_load(s + j), unit), top));
        sum = vf_add(sum, p);
        store_as(FLASH_TYPE, weights_of(s), j, p);
    }
    return vf_sum(sum);
}

/* Narrows weights [from, to) of `count` rows that are still floats. */
static void narrow_weights(int count, float *weights, int64_t from, int64_t to)
{
    for (int r = 0; r < count; r++) {
        float *p = weights + r * LD;
        for (int64_t j = from; j < to; j += VF_LANES)
            store_as(FLASH_TYPE, weights_of(p), j, vf_load(p + j));
    }
}

/* Whether weights stay floats at first, because of marks or dropout. */
static bool narrowed_late(const struct group *group, bool mark)
{
    return mark || group->job->flags & ATTN_FLAG_DROPOUT;
}

static void weigh_scores(const struct group *group, bool mark, const float *shift, float *sum)
{
    float *s = group->rows[0].s;
    const float unit = score_unit(group->job);
    if (narrowed_late(group, mark)) {
        weigh_floats(group, mark, shift, sum);
        return;
    }
    for (int r = 0; r < group->count; r++)
        sum[r] = weigh_pairs(s + r * LD, group->from, group->to, shift[r], unit);
}

/* value_product for a V that may hold NaN or Inf, over keys instead of pairs. Weights are floats: a
 * narrowed weight could be 0 where it meets an infinity. A weight of -0.0 marks a cell that takes
 * no part: it is skipped. */
FLASH_APART void value_product_careful(int count, const struct product *x)
{
    for (int r = 0; r < count; r++) {
        float *o = x->o + r * x->width;
        const float *p = x->p + r * LD;
        const uint16_t *v = (const uint16_t *)(const void *)x->v;
        for (int64_t c = 0; c < x->width; c++)
            o[c] = x->fresh ? 0.0f : o[c] * x->rescale[r];
        for (int64_t j = x->lo; j < x->hi; j++)
            for (int64_t c = 0; c < x->width && (p[j] != 0.0f || !signbit(p[j])); c++) {
                int64_t pair = c / FLASH_NR * x->v_panel + c % FLASH_NR + j / 2 * x->v_key;
                o[c] += p[j] * attn_element_read(FLASH_TYPE, v, 2 * pair + j % 2);
            }
        for (int64_t c = 0; c < x->width; c++)
            x->to[r][c] = o[c] * x->by[r];
    }
}

/* Marks the cells of [lo, hi) around the weights of a group: a step of the product may be longer
 * than a vector, and these cells take no part. */
static void clear_around(const struct group *group, int64_t lo, int64_t hi)
{
    for (int r = 0; r < group->count; r++) {
        uint16_t *p = weights_of(group->rows[r].s);
        for (int64_t j = lo; j < group->from; j++)
            p[j] = 0x8000;
        for (int64_t j = group->to; j < hi; j++)
            p[j] = 0x8000;
    }
}

static void join_values(const struct attn_flash_scratch *w, const struct block *block,
                        const struct tile *tile, const struct group *group, bool careful,
                        struct product *product)
{
    (void)block;
    (void)tile;
    if (careful) {
        value_product_careful(group->count, product);
        return;
    }
    product->lo = product->lo / FLASH_STEP * pairs(FLASH_STEP);
    product->hi = pairs(product->hi);
    if (group->job->flags & ATTN_FLAG_DROPOUT)
        narrow_weights(group->count, w->s, group->from, group->to);
    clear_around(group, 2 * product->lo, 2 * product->hi);
    value_product(group->count, product);
}
