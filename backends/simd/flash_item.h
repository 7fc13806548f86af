/* SPDX-License-Identifier: Apache-2.0 */
/* flash_item.h - part of flash_template.h: one item, from its rows to its results. */

/* Rows start with maximum -inf and denominator 0. A sink counts as a first key with v = 0, in the
 * first part. Without a softmax the maximum is 0, and the parts' denominators add up to 1. */
static void start_rows(const struct attn_flash *job, const struct attn_flash_scratch *w,
                       const struct block *block)
{
    memset(w->stage, FRESH, (size_t)(block->rows + FLASH_MR - 1) / FLASH_MR);
    for (int64_t r = 0; r < block->rows; r++) {
        w->max[r] = weighs_alone(job) ? 0.0f : -INFINITY;
        w->sum[r] = weighs_alone(job) && block->part == 0 ? 1.0f : 0.0f;
        if (job->operands.sink.data && block->part == 0) {
            w->max[r] = of_head(&job->operands.sink, row_head(job, block, r)) * LOG2_E;
            if (w->max[r] != -INFINITY)
                w->sum[r] = isfinite(w->max[r]) ? 1.0f : NAN;
        }
    }
    if (block->direct || job->splits > 1) {
        memset(w->o, 0, (size_t)(block->rows * block->width) * sizeof *w->o);
        memset(w->stage, BEGUN, (size_t)(block->rows + FLASH_MR - 1) / FLASH_MR);
    }
}

/* Does this pass compute any row of the block? */
static bool has_rows(const struct attn_flash *job, const struct block *block)
{
    for (int64_t r = 0; r < block->rows; r += job->group)
        if (!row_waits(job, block->b, row_query(job, block, r)))
            return true;
    return !row_waits(job, block->b, row_query(job, block, block->rows - 1));
}

/* See struct attn_flash_isa. */
static void run_item(const struct attn_flash *job, const struct attn_flash_scratch *scratch,
                     const struct attn_flash_item *item, const struct attn_flash_item *next)
{
    struct block block = make_block(job, item);
    const struct attn_flash_scratch own = part_scratch(job, scratch, item->head, item->part);
    const struct attn_flash_scratch *w = job->splits > 1 ? &own : scratch;
    block.next = next;
    if (!has_rows(job, &block))
        return;
    find_intervals(job, w, &block);
    start_rows(job, w, &block);
    take_queries(job, w, &block);
    sweep_tiles(job, w, &block, ATTEND);
#if !FLASH_PAIRS
    /* V in place is not searched for NaN and Inf. They show here, and the item is computed again.
     */
    if (block.direct && !direct_finite(w, &block)) {
        block.careful = true;
        start_rows(job, w, &block);
        sweep_tiles(job, w, &block, ATTEND);
    }
#endif
    if (job->splits == 1)
        store_rows(job, w, &block);
}
