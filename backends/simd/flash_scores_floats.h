/* SPDX-License-Identifier: Apache-2.0 */
/* flash_scores_floats.h - part of flash_template.h: raw scores of a group of rows with a tile of
 * keys, for products of floats. */

/* Squared distances of `count` rows from the keys of a span. */
FLASH_APART void score_distance(int count, const struct span *x)
{
    score_rows(count, DISTANCE, x);
}

/* Scores of one row with nv vectors of projected keys. */
FLASH_INLINE void additive_tile(const int nv, const float *q, const float *hidden, const float *w_v,
                                int64_t dh, float *s)
{
    vf sum[2] = {vf_set1(0.0f), vf_set1(0.0f)};
    for (int64_t u = 0; u < dh; u++) {
        vf query = vf_set1(q[u]), weight = vf_set1(w_v[u]);
#pragma GCC unroll 2
        for (int n = 0; n < nv; n++) {
            vf x = vf_add(query, vf_load(hidden + u * LD + n * VF_LANES));
            sum[n] = vf_fma(weight, tanh_log2(x), sum[n]);
        }
    }
    for (int n = 0; n < nv; n++)
        vf_store(s + n * VF_LANES, sum[n]);
}

/* Scores of `count` rows, two vectors of keys at a time. The k of the span is not used. */
FLASH_APART void additive_scores(const struct attn_flash *job, const struct attn_flash_scratch *w,
                                 const struct span *x, int count)
{
    for (int64_t j = x->from; j < x->to; j += 2 * VF_LANES)
        for (int r = 0; r < count; r++)
            if (j + VF_LANES < x->to)
                additive_tile(2, x->q[r], w->hidden + j, w->w_v, job->dh, x->s + r * LD + j);
            else
                additive_tile(1, x->q[r], w->hidden + j, w->w_v, job->dh, x->s + r * LD + j);
}

/* Rows of the block as its products read them. */
static void take_queries(const struct attn_flash *job, const struct attn_flash_scratch *w,
                         const struct block *block)
{
    if (projects_queries(job)) {
        pack_params(job, w, block);
        project_queries(job, w, block);
    } else if (block->direct)
        direct_queries(job, w, block);
    else if (!queries_in_place(job))
        copy_queries(job, w, block);
}

/* The keys of a tile as the products read them, with their values or without. */
static void take_keys(const struct attn_flash *job, const struct attn_flash_scratch *w,
                      const struct block *block, struct tile *tile, bool values)
{
    if (!block->direct)
        pack_k(job, w, block, tile);
    if (job->score == ATTN_SCORE_ADDITIVE)
        project_keys(job, w, tile);
    if (has_places(job))
        take_places(job, w, block, tile);
    if (!block->direct && values)
        pack_v(job, w, block, tile);
}

/* Scores of a group with the keys of a span, before masks and extras. */
static void raw_scores(const struct attn_flash_scratch *w, const struct block *block,
                       const struct tile *tile, struct group *group, struct span *span)
{
    const struct attn_flash *job = group->job;
    span->dk = job->dk;
    if (block->direct) {
        direct_scores(w, block, tile, group);
        for (int r = 0; r < group->count; r++)
            span->q[r] = w->q + (group->r0 + r) * direct_query_stride(job);
        if (has_places(job))
            add_places(w, block, tile, group, span);
        return;
    }
    next_rows(job, w, block, tile, group);
    queries(job, w, block, group->r0, group->count, span->q);
    if (job->score == ATTN_SCORE_ADDITIVE)
        additive_scores(job, w, span, group->count);
    else if (job->score == ATTN_SCORE_GAUSSIAN)
        score_distance(group->count, span);
    else
        score_product(group->count, span);
    if (has_places(job))
        add_places(w, block, tile, group, span);
}
