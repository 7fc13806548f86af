/* SPDX-License-Identifier: Apache-2.0 */
/* flash_join.h - part of flash_template.h: the weights of a group of rows, times V, join its
 * output. The last tile of a group stores its sums straight to out, divided by the denominator. */
/* How far the output of a group of rows has come: w->o holds nothing yet, or sums, or out has them.
 */
enum stage { FRESH, BEGUN, STORED };

/* After the weights of a group: its denominators, and dropout. */
static void end_weights(const struct attn_flash_scratch *w, const struct tile *tile,
                        const struct group *group, struct softmax *softmax)
{
    const struct attn_flash *job = group->job;
    end_softmax(group, w->sum + group->r0, softmax);
    for (int r = 0; r < group->count && job->flags & ATTN_FLAG_DROPOUT; r++) {
        const struct row *row = &group->rows[r];
        const struct attn_keys keys = {tile->j0 + row->lo, tile->j0 + row->hi};
        attn_dropout_row(job, group->b, row->h, row->i, keys, row->s + row->lo);
    }
}

/* Whether a group meets keys whose V is not finite. */
static bool meets_bad(const struct block *block, const struct tile *tile, const struct group *group)
{
    return block->careful || (group->lo < tile->bad_hi && tile->bad_lo < group->hi);
}

/* Whether this tile is the last one of a group, and out can take the sums as they are. */
static bool ends_group(const struct attn_flash_scratch *w, const struct block *block,
                       const struct tile *tile, const struct group *group)
{
    const struct attn_flash *job = group->job;
    if (block->direct || job->splits > 1 || job->operands.mask.data || job->operands.gate.data ||
        job->sparse || job->operands.out.stride[3] != 1 || job->operands.out.dtype != ATTN_F32 ||
        job->dv % VF_LANES)
        return false;
    for (int r = 0; r < group->count; r++)
        if (w->hi[group->r0 + r] > tile->j0 + tile->hi)
            return false;
    return true;
}

/* Sets where the sums of a group go, and their factor. */
static void aim_product(const struct attn_flash_scratch *w, const struct group *group, bool last,
                        struct product *product)
{
    const struct attn_tensor *out = &group->job->operands.out;
    for (int r = 0; r < group->count; r++) {
        const struct row *row = &group->rows[r];
        float sum = w->sum[group->r0 + r];
        product->to[r] = last ? (float *)out->data + attn_row_start(out, group->b, row->h, row->i)
                              : product->o + r * product->width;
        product->by[r] = !last ? 1.0f : sum == 0.0f ? 0.0f : 1.0f / sum;
    }
}

/* The weights of a group, times V, join its output. */
static void join_group(const struct attn_flash_scratch *w, const struct block *block,
                       const struct tile *tile, const struct group *group,
                       const struct softmax *softmax)
{
    unsigned char *stage = &w->stage[group->r0 / FLASH_MR];
    struct product product;
    product.p = w->s;
    product.v = tile->v;
    product.v_key = tile->v_key;
    product.v_panel = tile->v_panel;
    product.lo = group->lo;
    product.hi = group->hi;
    product.o = w->o + group->r0 * block->width;
    product.width = block->width;
    product.fresh = *stage == FRESH;
    product.rescale = softmax->lag;
    product.meanwhile = group->meanwhile;
    bool last = ends_group(w, block, tile, group);
    aim_product(w, group, last, &product);
    join_values(w, block, tile, group, meets_bad(block, tile, group), &product);
    *stage = last ? STORED : BEGUN;
}
