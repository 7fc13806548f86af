/* SPDX-License-Identifier: Apache-2.0 */
/* flash_scores_floats.h - part of flash_template.h: scores whose queries are projected before they
 * meet the keys. Bilinear: q^T M takes the place of q, and the rest is a dot product. Additive:
 * W_q q takes the place of q and W_k k, computed tile by tile, that of k; then
 * s = w_v . tanh(W_q q + W_k k), one panel of keys and one row at a time, so that nothing of the
 * size sq x sk x dh exists. All projections run in the micro-kernel of the dot product. */

static bool projects_queries(const struct attn_flash *job)
{
    return job->score == ATTN_SCORE_BILINEAR || job->score == ATTN_SCORE_ADDITIVE;
}

/* A rows x columns matrix of some strides, from index `at` on. */
struct matrix {
    int64_t at, row_stride, column_stride, rows, columns;
};

FLASH_INLINE void pack_matrix_as(const uint32_t type, const void *data, const struct matrix *x,
                                 int64_t unit, float factor, float *to)
{
    for (int64_t r0 = 0; r0 < x->rows; r0 += unit)
        for (int64_t c = 0; c < x->columns; c++)
            for (int64_t r = r0; r < r0 + unit; r++) {
                int64_t at = x->at + r * x->row_stride + c * x->column_stride;
                *to++ = r < x->rows ? attn_element(type, data, at) * factor : 0.0f;
            }
}

/* The same as panels [rows/unit][columns][unit], multiplied by a factor; zeros in the rows that
 * fill the last panel. */
static void pack_matrix(const struct attn_view *from, struct matrix x, int64_t unit, float factor,
                        float *to)
{
    if (from->dtype == ATTN_F32)
        pack_matrix_as(ATTN_F32, from->data, &x, unit, factor, to);
    else if (from->dtype == ATTN_F16)
        pack_matrix_as(ATTN_F16, from->data, &x, unit, factor, to);
    else
        pack_matrix_as(ATTN_BF16, from->data, &x, unit, factor, to);
}

/* Score parameters of the block's heads, which are one head or share one set. They carry the
 * factors of the score and of tanh_log2. */
static void pack_params(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block)
{
    int64_t h = block->g * job->group;
    if (job->score == ATTN_SCORE_BILINEAR) {
        const int64_t *m = job->m.stride;
        pack_matrix(&job->m, (struct matrix){h * m[0], m[2], m[1], job->dk, job->dq}, FLASH_NR,
                    job->factor, w->p_q);
        return;
    }
    const int64_t *w_q = job->w_q.stride, *w_k = job->w_k.stride, *w_v = job->w_v.stride;
    const float twice = (float)ATTN_FLASH_TANH;
    pack_matrix(&job->w_q, (struct matrix){h * w_q[0], w_q[1], w_q[2], job->dh, job->dq}, FLASH_NR,
                twice, w->p_q);
    pack_matrix(&job->w_k, (struct matrix){h * w_k[0], w_k[1], w_k[2], job->dh, job->dk}, 1, twice,
                w->p_k);
    pack_matrix(&job->w_v, (struct matrix){h * w_v[0], w_v[1], 0, job->dh, 1}, 1, job->factor,
                w->w_v);
}

/* Rows of the block, projected, where rows as they are would lie. Done in as many columns at a time
 * as a row of scores has room for. */
static void project_queries(const struct attn_flash *job, const struct attn_flash_scratch *w,
                            const struct block *block)
{
    int64_t stride = block->direct ? direct_query_stride(job) : query_stride(job->dp);
    for (int64_t r0 = 0; r0 < block->rows; r0 += FLASH_MR) {
        int count = (int)(block->rows - r0 < FLASH_MR ? block->rows - r0 : FLASH_MR);
        struct span span = {.dk = job->dq, .s = w->s};
        raw_queries(job, block, r0, count, w->x, span.q);
        for (int64_t c0 = 0; c0 < job->dp; c0 += ATTN_FLASH_MOST_KEYS) {
            int64_t left = job->dp - c0;
            int64_t columns = left < ATTN_FLASH_MOST_KEYS ? left : ATTN_FLASH_MOST_KEYS;
            span.k = w->p_q + c0 * job->dq;
            span.to = attn_round_up(columns, VF_LANES);
            score_product(count, &span);
            for (int r = 0; r < count; r++)
                memcpy(w->q + (r0 + r) * stride + c0, w->s + r * LD,
                       (size_t)span.to * sizeof *w->q);
        }
    }
}

/* W_k k for the packed keys of a tile, as [dh][LD]. */
static void project_keys(const struct attn_flash *job, const struct attn_flash_scratch *w,
                         const struct tile *tile)
{
    struct span span = {.k = w->k,
                        .dk = job->dk,
                        .from = tile->lo / VF_LANES * VF_LANES,
                        .to = attn_round_up(tile->hi, VF_LANES)};
    for (int64_t u = 0; u < job->dh; u += FLASH_MR) {
        int count = (int)(job->dh - u < FLASH_MR ? job->dh - u : FLASH_MR);
        for (int r = 0; r < count; r++)
            span.q[r] = w->p_k + (u + r) * job->dk;
        span.s = w->hidden + u * LD;
        score_product(count, &span);
    }
}

/* Squared distances of `count` rows from the keys of a span. */
FLASH_APART void score_distance(int count, const struct span *x)
{
    score_rows(count, DISTANCE, x);
}

/* s[0..nv) of one row against as many hidden keys. */
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

/* Scores of the `count` rows of a span, whose k is not used, two vectors of keys at a time. */
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

/* Rows of the block as its products take them. */
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

/* The same of keys, with their values or without. */
static void take_keys(const struct attn_flash *job, const struct attn_flash_scratch *w,
                      const struct block *block, struct tile *tile, bool values)
{
    if (!block->direct)
        pack_k(job, w, block, tile);
    if (job->score == ATTN_SCORE_ADDITIVE)
        project_keys(job, w, tile);
    if (!block->direct && values)
        pack_v(job, w, block, tile);
}

/* Scores of a group against a span, as they are before masks and extras. */
static void raw_scores(const struct attn_flash_scratch *w, const struct block *block,
                       const struct tile *tile, struct group *group, struct span *span)
{
    const struct attn_flash *job = group->job;
    span->dk = job->dk;
    if (block->direct) {
        direct_scores(job, w, block, tile, group->r0, group->count, group->lo, group->hi);
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
}

/* value_product where V may hold NaN or Inf: weights of -0.0, the mark of cells that take no part,
 * are skipped instead of multiplied. */
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

/* Weights of a group times V. */
static void join_values(const struct attn_flash_scratch *w, const struct block *block,
                        const struct tile *tile, const struct group *group, bool careful,
                        struct product *product)
{
    if (block->direct)
        direct_values(group->job, w, block, tile, group->count, product);
    else if (careful)
        value_product_careful(group->count, product);
    else
        value_product(group->count, product);
}

/* Scores of a group to weights, relative to `shift`, and their sums. */
static void weigh_scores(const struct group *group, bool mark, const float *shift, float *sum)
{
    weigh_floats(group, mark, shift, sum);
}
