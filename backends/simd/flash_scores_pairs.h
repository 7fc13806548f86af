/* SPDX-License-Identifier: Apache-2.0 */
/* flash_scores_pairs.h - part of flash_template.h: raw scores of a group of rows with a tile of
 * keys, for products of pairs. The functions are those of flash_scores_floats.h. */

static void take_queries(const struct attn_flash *job, const struct attn_flash_scratch *w,
                         const struct block *block)
{
    if (!queries_in_place(job))
        copy_queries(job, w, block);
}

static void take_keys(const struct attn_flash *job, const struct attn_flash_scratch *w,
                      const struct block *block, struct tile *tile, bool values)
{
    pack_k(job, w, block, tile);
    if (values)
        pack_v(job, w, block, tile);
}

static void raw_scores(const struct attn_flash_scratch *w, const struct block *block,
                       const struct tile *tile, struct group *group, struct span *span)
{
    span->dk = pairs(group->job->dk);
    next_rows(group->job, w, block, tile, group);
    queries(group->job, w, block, group->r0, group->count, span->q);
    score_product(group->count, span);
}
