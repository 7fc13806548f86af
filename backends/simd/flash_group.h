/* SPDX-License-Identifier: Apache-2.0 */
/* flash_group.h - part of flash_template.h: the scores of a group of rows with a tile of keys. */

/* Sets the keys of the tile that a row may see; lo == hi == 0: none. */
FLASH_INLINE void clip_row(const struct attn_flash_scratch *w, const struct tile *tile, int64_t r,
                           const struct group *group, struct row *row)
{
    struct attn_keys keys = {w->lo[r] > tile->j0 + tile->lo ? w->lo[r] : tile->j0 + tile->lo,
                             w->hi[r] < tile->j0 + tile->hi ? w->hi[r] : tile->j0 + tile->hi};
    row->gaps = false;
    if (group->job->sparse) {
        const struct attn_sight sight = row_sight(group->job, group->b, row->h, row->i);
        keys = clip_sight(group->job, group->b, &sight, tile->j0 + tile->lo, tile->j0 + tile->hi,
                          &row->gaps);
    }
    if (group->job->operands.mask.dtype)
        keys = attn_keys_trim(keys, &group->job->operands.mask, group->b, row->h, row->i);
    row->lo = keys.first < keys.end ? keys.first - tile->j0 : 0;
    row->hi = keys.first < keys.end ? keys.end - tile->j0 : 0;
}

/* Sets the panels of keys that all rows may see, which are [lo, hi). If all rows end alike, the
 * last panel may be a part of one. */
static void find_clean(struct group *group, int64_t lo, int64_t hi)
{
    const int64_t from = group->from >= lo ? group->from : attn_round_up(lo, FLASH_NR);
    const bool ends_alike = FLASH_FORBIDS && hi == group->hi && !group->job->operands.bias.data;
    const int64_t to = ends_alike || group->to <= hi ? group->to : hi / FLASH_NR * FLASH_NR;
    if (from < to) {
        group->clean_from = from;
        group->clean_to = to;
    }
}

/* Sets the rows of a group and the keys that each may see of a tile. Returns false if no row sees
 * any key. */
static bool start_group(const struct attn_flash_scratch *w, const struct block *block,
                        const struct tile *tile, struct group *group)
{
    const struct attn_flash *job = group->job;
    int64_t h, i, common_lo = 0, common_hi = tile->hi;
    bool gaps = false;
    find_row(job, block, group->r0, &h, &i);
    group->lo = tile->hi;
    group->hi = 0;
    for (int r = 0; r < group->count; r++) {
        struct row *row = &group->rows[r];
        row->h = block->g * job->group + h;
        row->i = i;
        row->s = w->s + r * LD;
        clip_row(w, tile, group->r0 + r, group, row);
        if (row->lo < row->hi) {
            group->lo = row->lo < group->lo ? row->lo : group->lo;
            group->hi = row->hi > group->hi ? row->hi : group->hi;
        }
        gaps = gaps || row->gaps;
        common_lo = row->lo > common_lo ? row->lo : common_lo;
        common_hi = row->hi < common_hi ? row->hi : common_hi;
        next_row(job, &h, &i);
    }
    group->from = group->lo / VF_LANES * VF_LANES;
    group->to = attn_round_up(group->hi, VF_LANES);
    group->clean_from = group->clean_to = group->from;
    if (!block->direct && !gaps && scores_are_plain(job))
        find_clean(group, common_lo, common_hi);
    return group->lo < group->hi;
}

/* Final scores of a group with a tile. Returns false if no row sees any key. */
static bool score_group(const struct attn_flash_scratch *w, const struct block *block,
                        const struct tile *tile, struct group *group)
{
    if (!start_group(w, block, tile, group))
        return false;
    const struct attn_flash *job = group->job;
    const bool unfinished = group->clean_from > group->from || group->clean_to < group->to;
    struct span span = {.k = w->k,
                        .from = group->from,
                        .to = group->to,
                        .s = w->s,
                        .top = group->top,
                        .clean_from = group->clean_from,
                        .clean_to = group->clean_to,
                        .forbidden = group->clean_to > group->hi ? group->clean_to - group->hi : 0,
                        .ahead = group->ahead,
                        .meanwhile = group->meanwhile};
    for (int r = 0; r < group->count; r++) {
        struct row *row = &group->rows[r];
        if (row->lo >= row->hi)
            row->lo = row->hi = group->from;
        if (job->operands.bias.data && bias_rides(job))
            span.bias[r] = (const float *)job->operands.bias.data +
                           attn_row_start(&job->operands.bias, group->b, row->h, row->i) + tile->j0;
        vf_store(group->top + r * VF_LANES, vf_set1(-INFINITY));
    }
    raw_scores(w, block, tile, group, &span);
    for (int r = 0; r < group->count && unfinished; r++) {
        float *top = group->top + r * VF_LANES;
        vf_store(top, finish_scores(group, &group->rows[r], vf_load(top)));
    }
    return true;
}
