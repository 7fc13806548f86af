/* SPDX-License-Identifier: Apache-2.0 */
/* flash_intervals.h - part of flash_template.h: the range of keys of each row of an item. */

/* The keys that row r may see, within the part of the block. */
static void find_interval(const struct attn_flash *job, const struct block *block, int64_t r,
                          int64_t *lo, int64_t *hi)
{
    const struct attn_keys keys =
        attn_keys_seen(job->problem, &job->operands.len, block->b, row_query(job, block, r));
    *lo = keys.first;
    *hi = keys.end;
    if (job->sparse) {
        const struct attn_sight sight =
            row_sight(job, block->b, row_head(job, block, r), row_query(job, block, r));
        const struct attn_keys hull = find_hull(job, block->b, &sight);
        *lo = hull.first;
        *hi = hull.end;
    }
    if (job->splits == 1)
        return;
    int64_t first = block->part * job->part_keys, end = first + job->part_keys;
    *lo = *lo > first ? *lo : first;
    *hi = *hi < end ? *hi : end;
    if (*lo >= *hi)
        *lo = *hi = 0;
}

/* Adds the window of a row to that of the block. */
static void add_window(const struct attn_flash *job, int64_t r, struct block *block)
{
    const struct attn_keys near =
        row_sight(job, block->b, row_head(job, block, r), row_query(job, block, r)).near;
    if (near.first >= near.end)
        return;
    block->near_lo = near.first < block->near_lo ? near.first : block->near_lo;
    block->near_hi = near.end > block->near_hi ? near.end : block->near_hi;
}

/* Do all rows of a batch see the same keys? */
static bool rows_see_alike(const struct attn_flash *job)
{
    return !job->sparse && !(job->flags & (ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW)) &&
           job->operands.len.rank < 2;
}

/* Sets the intervals of all rows, and their union. */
static void find_intervals(const struct attn_flash *job, const struct attn_flash_scratch *w,
                           struct block *block)
{
    block->lo = block->near_lo = job->sk;
    block->hi = block->near_hi = 0;
    for (int64_t r = 0; r < block->rows; r++) {
        if (job->sparse)
            add_window(job, r, block);
        if (r > 0 && rows_see_alike(job)) {
            w->lo[r] = w->lo[0];
            w->hi[r] = w->hi[0];
            continue;
        }
        find_interval(job, block, r, &w->lo[r], &w->hi[r]);
        if (w->lo[r] < w->hi[r]) {
            block->lo = w->lo[r] < block->lo ? w->lo[r] : block->lo;
            block->hi = w->hi[r] > block->hi ? w->hi[r] : block->hi;
        }
    }
}
