/* SPDX-License-Identifier: Apache-2.0 */
/* flash_sparse.h - part of flash_template.h: windows with global tokens and steps. The keys of a
 * row have gaps then. A tile that no row needs is left out, and a row masks the gaps within a tile.
 * Global rows that have operands of their own are computed in a pass of their own. To each pass the
 * rows of the other one see no key, and it stores nothing for them. */

/* Does another pass compute query i? */
static bool row_waits(const struct attn_flash *job, int64_t b, int64_t i)
{
    return job->rows != ATTN_ROWS_ALL &&
           attn_token_is_global(&job->operands.global, b, i) != (job->rows == ATTN_ROWS_GLOBAL);
}

/* What a row sees in this pass. */
static struct attn_sight row_sight(const struct attn_flash *job, int64_t b, int64_t h, int64_t i)
{
    const struct attn_operands *o = &job->operands;
    if (row_waits(job, b, i))
        return (struct attn_sight){.step = 1};
    return attn_sight_of(job->problem, &o->len, &o->dilation, &o->global, b, h, i);
}

/* Global tokens of a batch in the tile of keys that begins at j0: *count of them from the returned
 * one on, in ascending order. */
static const int32_t *tile_tokens(const struct attn_flash *job, int64_t b, int64_t j0,
                                  int64_t *count)
{
    const int64_t tiles = attn_flash_tiles(job);
    const int32_t *before = job->tokens_before + b * (tiles + 1) + j0 / job->key_block;
    *count = before[1] - before[0];
    return job->tokens + b * job->sk + before[0];
}

/* The keys of a row within [from, end), which lies in one tile, and whether some between the first
 * and the last one are not seen. */
static struct attn_keys clip_sight(const struct attn_flash *job, int64_t b,
                                   const struct attn_sight *sight, int64_t from, int64_t end,
                                   bool *gaps)
{
    const int64_t missed = from > sight->near.first ? from - sight->near.first : 0;
    const int64_t first =
        sight->near.first + (missed + sight->step - 1) / sight->step * sight->step;
    struct attn_keys keys = {attn_clamp(first, from, end), attn_clamp(sight->near.end, from, end)};
    keys.end = keys.end > keys.first ? keys.end : keys.first;
    const struct attn_keys near = keys;
    int64_t count = 0, seen = near.end - near.first;
    const int32_t *token = NULL;
    if (sight->global)
        token = tile_tokens(job, b, from / job->key_block * job->key_block, &count);
    for (int64_t n = 0; n < count; n++) {
        const int64_t j = token[n];
        if (j < from || j >= end || j >= sight->all.end || (j >= near.first && j < near.end))
            continue;
        keys.first = keys.first >= keys.end || j < keys.first ? j : keys.first;
        keys.end = j >= keys.end ? j + 1 : keys.end;
        seen++;
    }
    *gaps = keys.end - keys.first > (sight->step == 1 ? seen : 1);
    return keys;
}

/* The smallest range that has all keys of row r. */
static struct attn_keys find_hull(const struct attn_flash *job, int64_t b,
                                  const struct attn_sight *sight)
{
    struct attn_keys keys = sight->near;
    const int32_t *token = sight->global ? job->tokens + b * job->sk : NULL;
    int64_t count = token ? job->tokens_before[(b + 1) * (attn_flash_tiles(job) + 1) - 1] : 0;
    while (count > 0 && token[count - 1] >= sight->all.end)
        count--;
    if (count > 0 && keys.first >= keys.end)
        keys = (struct attn_keys){token[0], token[0] + 1};
    if (count > 0) {
        keys.first = token[0] < keys.first ? token[0] : keys.first;
        keys.end = token[count - 1] >= keys.end ? token[count - 1] + 1 : keys.end;
    }
    return keys;
}

/* Narrows a tile to the keys that some row needs. False: none does. */
static bool narrow_tile(const struct attn_flash *job, const struct block *block, struct tile *tile)
{
    int64_t lo = block->near_lo - tile->j0, hi = block->near_hi - tile->j0, count = 0;
    const int32_t *token = NULL;
    if (!job->sparse)
        return true;
    lo = attn_clamp(lo, tile->lo, tile->hi);
    hi = attn_clamp(hi, lo, tile->hi);
    if (job->operands.global.dtype)
        token = tile_tokens(job, block->b, tile->j0, &count);
    for (int64_t n = 0; n < count; n++) {
        const int64_t j = token[n] - tile->j0;
        const bool none = lo >= hi;
        if (j < tile->lo || j >= tile->hi)
            continue;
        lo = none || j < lo ? j : lo;
        hi = none || j >= hi ? j + 1 : hi;
    }
    tile->lo = lo;
    tile->hi = hi;
    return lo < hi;
}

/* Keys of a tile that a row does not see, between those that it sees. */
static void mask_gaps(const struct group *group, const struct row *row)
{
    const struct attn_sight sight = row_sight(group->job, group->b, row->h, row->i);
    const int64_t j0 = group->j0, near = sight.near.end - j0;
    for (int64_t j = row->lo; j < row->hi; j++) {
        const int64_t next = attn_sight_next(&sight, j0 + j) - j0;
        for (; j < next && j < row->hi; j++)
            row->s[j] = -INFINITY;
        if (sight.step == 1 && j >= sight.near.first - j0 && j < near)
            j = near - 1; /* the rest of the window is seen */
    }
}
