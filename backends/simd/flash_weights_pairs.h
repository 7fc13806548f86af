/* SPDX-License-Identifier: Apache-2.0 */
/* flash_weights_pairs.h - part of flash_template.h, for instances whose products take pairs of
 * FLASH_TYPE: scores to weights that are stored as such, and their product with a V that may not be
 * finite.
 *
 * A row of weights takes the place of its row of scores, half as long: who goes through it from its
 * first key on has read a score before a weight is written over it. Sums are taken of the weights
 * before they are rounded, so that lse is that of the scores.
 *
 * Error bound, checked over every argument by test_simd_exp and declared by the plan:
 *   |exp2_brief(x) / 2^x - 1| <= ATTN_PAIRS_E_EXP for -126 <= x <= 0; within 2^-126 below, and
 * 0 for -inf */

/* What is stored in the place of a row of scores. */
FLASH_INLINE uint16_t *weights_of(float *scores)
{
    return (uint16_t *)(void *)scores;
}

/* Weights of [from, to) of a row, 2^(s * unit - shift), stored in place; returns their sum. Two
 * roundings make that of the row's largest score, of which shift is the rounded product, exactly 1.
 * A lane's sum stands for fixed places in the tile, so that nothing depends on `from` and `to`. */
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

/* Weights [from, to) of `count` rows that are floats yet. */
static void narrow_weights(int count, float *weights, int64_t from, int64_t to)
{
    for (int r = 0; r < count; r++) {
        float *p = weights + r * LD;
        for (int64_t j = from; j < to; j += VF_LANES)
            store_as(FLASH_TYPE, weights_of(p), j, vf_load(p + j));
    }
}

/* Whether weights of a group are floats until their product: a mark or dropout comes first. */
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

/* value_product where V may hold NaN or Inf, over keys instead of pairs: weights are floats yet,
 * lest one that is not 0 meet an infinity as 0, and those of -0.0, the mark of cells that take no
 * part, are skipped instead of multiplied. */
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

/* Cells of [lo, hi) around the weights of a group, where a step of the product is longer than a
 * vector, take no part. */
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
