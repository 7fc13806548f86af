/* SPDX-License-Identifier: Apache-2.0 */
/* flash_sweep.h - part of flash_template.h: an item's tiles of keys, one after the other, and all
 * of its results. */

/* What a sweep over the tiles does: computes outputs, or weights. */
enum sweep { ATTEND, WEIGH };

/* The weights of a group with a tile, when maximum and denominator are final. */
static void weigh_group(const struct attn_flash_scratch *w, const struct block *block,
                        const struct tile *tile, struct group *group)
{
    const struct attn_tensor *out = &group->job->operands.weights;
    if (!score_group(w, block, tile, group))
        return;
    for (int r = 0; r < group->count; r++) {
        const struct row *row = &group->rows[r];
        int64_t at =
            attn_row_start(out, group->b, row->h, row->i) + (tile->j0 + row->lo) * out->stride[3];
        normalise_row(group, row, w->max[group->r0 + r], w->sum[group->r0 + r]);
        narrow(out, at, out->stride[3], row->hi - row->lo, row->s + row->lo, 1.0f);
    }
}

static void sweep_tiles(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block, enum sweep sweep)
{
    for (int64_t j0 = block->lo / job->key_block * job->key_block; j0 < block->hi;
         j0 += job->key_block) {
        int64_t first = block->lo - j0, end = block->hi - j0;
        struct tile tile = {.j0 = j0,
                            .lo = first > 0 ? first : 0,
                            .hi = end < job->key_block ? end : job->key_block};
        if (!narrow_tile(job, block, &tile))
            continue;
        take_keys(job, w, block, &tile, sweep == ATTEND);
        struct group group = {.job = job, .b = block->b, .j0 = j0};
        struct ahead ahead;
        if (!block->direct) {
            ahead = next_tile(job, block, &tile);
            group.ahead = &ahead;
        }
        if (sweep == ATTEND)
            attend_groups(w, block, &tile, &group);
        for (int64_t r0 = 0; sweep == WEIGH && take_rows(block, &group, r0); r0 += FLASH_MR)
            weigh_group(w, block, &tile, &group);
    }
}

/* Weights are not kept: a second sweep computes them again. Cells that it does not reach are 0. */
static void store_weights(const struct attn_flash *job, const struct attn_flash_scratch *w,
                          const struct block *block)
{
    const struct attn_tensor *weights = &job->operands.weights;
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t h = row_head(job, block, r), i = row_query(job, block, r);
        int64_t at = attn_row_start(weights, block->b, h, i), step = weights->stride[3];
        if (row_waits(job, block->b, i))
            continue;
        if (weights->dtype == ATTN_F32)
            for (int64_t j = 0; j < job->sk; j++)
                ((float *)weights->data)[at + j * step] = 0.0f;
        else
            for (int64_t j = 0; j < job->sk; j++)
                ((uint16_t *)weights->data)[at + j * step] = 0;
    }
    sweep_tiles(job, w, block, WEIGH);
}

/* Stores all results of the block. */
static void store_rows(const struct attn_flash *job, const struct attn_flash_scratch *w,
                       const struct block *block)
{
    for (int64_t r = 0; r < block->rows; r++) {
        const bool stored = w->stage[r / FLASH_MR] == STORED; /* by the last tile */
        if ((stored && !job->operands.lse.data) ||
            row_waits(job, block->b, row_query(job, block, r)))
            continue;
        if (!stored)
            store_row(job, w, block, r);
        if (job->operands.lse.data)
            store_lse(job, w, block, r);
    }
    if (job->operands.weights.data)
        store_weights(job, w, block);
}
