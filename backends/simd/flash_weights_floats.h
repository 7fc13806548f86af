/* SPDX-License-Identifier: Apache-2.0 */
/* flash_weights_floats.h - part of flash_template.h: scores of a group become weights, and weights
 * times V join its output, for products of floats. */

/* Weights of a group, relative to `shift`, in the place of their scores, and their sums. With
 * `mark`, forbidden cells become -0.0. */
static void weigh_scores(const struct group *group, bool mark, const float *shift, float *sum)
{
    weigh_floats(group, mark, shift, sum);
}

/* value_product for a V that may hold NaN or Inf. A weight of -0.0 marks a cell that takes no part:
 * it is skipped. */
FLASH_APART void value_product_careful(int count, const struct product *x)
{
    for (int r = 0; r < count; r++) {
        float *o = x->o + r * x->width;
        for (int64_t c = 0; c < x->width; c++)
            o[c] = x->fresh ? 0.0f : o[c] * x->rescale[r];
        for (int64_t j = x->lo; j < x->hi; j++) {
            float weight = x->p[r * LD + j];
            if (weight == 0.0f && signbit(weight))
                continue;
            for (int64_t c = 0; c < x->width; c++)
                o[c] += weight * x->v[c / FLASH_NR * x->v_panel + c % FLASH_NR + j * x->v_key];
        }
        for (int64_t c = 0; c < x->width; c++)
            x->to[r][c] = o[c] * x->by[r];
    }
}

/* Weights of a group times V. `careful`: V is not finite there, and weights are marked. */
static void join_values(const struct attn_flash_scratch *w, const struct block *block,
                        const struct tile *tile, const struct group *group, bool careful,
                        struct product *product)
{
    if (block->direct)
        direct_values(w, block, tile, group, product);
    else if (careful)
        value_product_careful(group->count, product);
    else
        value_product(group->count, product);
}
