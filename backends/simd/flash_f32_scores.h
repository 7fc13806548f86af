/* SPDX-License-Identifier: Apache-2.0 */
/* flash_f32_scores.h - part of flash_f32_template.h: scores whose queries are projected before they
 * meet the keys. Bilinear: q^T M takes the place of q, and the rest is a dot product. Additive:
 * W_q q takes the place of q and W_k k, computed tile by tile, that of k; then
 * s = w_v . tanh(W_q q + W_k k), one panel of keys and one row at a time, so that nothing of the
 * size sq x sk x dh exists. All projections run in the micro-kernel of the dot product. */

static bool projects_queries(const struct attn_flash *job)
{
    return job->score == ATTN_SCORE_BILINEAR || job->score == ATTN_SCORE_ADDITIVE;
}

/* A rows x columns matrix as panels [rows/unit][columns][unit], multiplied by a factor; zeros in
 * the rows that fill the last panel. */
static void pack_matrix(const float *from, int64_t row_stride, int64_t column_stride, int64_t rows,
                        int64_t columns, int64_t unit, float factor, float *to)
{
    for (int64_t r0 = 0; r0 < rows; r0 += unit)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t r = r0; r < r0 + unit; r++)
                *to++ = r < rows ? from[r * row_stride + c * column_stride] * factor : 0.0f;
}

/* Score parameters of the block's heads, which are one head or share one set. They carry the
 * factors of the score and of tanh_log2. */
static void pack_params(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block)
{
    int64_t h = block->g * job->group;
    if (job->score == ATTN_SCORE_BILINEAR) {
        const int64_t *m = job->m.stride;
        pack_matrix((const float *)job->m.data + h * m[0], m[2], m[1], job->dk, job->dq, FLASH_NR,
                    job->factor, w->p_q);
        return;
    }
    const int64_t *w_q = job->w_q.stride, *w_k = job->w_k.stride, *w_v = job->w_v.stride;
    const float twice = (float)ATTN_FLASH_TANH;
    pack_matrix((const float *)job->w_q.data + h * w_q[0], w_q[1], w_q[2], job->dh, job->dq,
                FLASH_NR, twice, w->p_q);
    pack_matrix((const float *)job->w_k.data + h * w_k[0], w_k[1], w_k[2], job->dh, job->dk,
                FLASH_MR, twice, w->p_k);
    pack_matrix((const float *)job->w_v.data + h * w_v[0], w_v[1], 0, job->dh, 1, 1, job->factor,
                w->w_v);
}

/* Rows of the block, projected, in the layout that pack_q or direct_queries gives rows as they are.
 * Done in as many columns at a time as a row of scores has room for. */
static void project_queries(const struct attn_flash *job, const struct attn_flash_scratch *w,
                            const struct block *block)
{
    int64_t row_step = block->direct ? direct_query_stride(job) : 1;
    int64_t column_step = block->direct ? 1 : FLASH_MR;
    for (int64_t r0 = 0; r0 < block->rows; r0 += FLASH_MR) {
        int count = (int)(block->rows - r0 < FLASH_MR ? block->rows - r0 : FLASH_MR);
        float *to = w->q + r0 * (block->direct ? row_step : job->dp);
        pack_q_rows(job, block, r0, count, 1.0f, w->x);
        for (int64_t c0 = 0; c0 < job->dp; c0 += ATTN_FLASH_MOST_KEYS) {
            int64_t left = job->dp - c0;
            int64_t columns = left < ATTN_FLASH_MOST_KEYS ? left : ATTN_FLASH_MOST_KEYS;
            score_product(count, w->x, w->p_q + c0 * job->dq, job->dq, 0,
                          (columns + FLASH_NR - 1) / FLASH_NR, w->s);
            for (int64_t c = 0; c < columns; c++)
                for (int r = 0; r < count; r++)
                    to[(c0 + c) * column_step + r * row_step] = w->s[r * LD + c];
        }
        if (block->direct)
            for (int r = 0; r < count; r++)
                for (int64_t c = job->dp; c < row_step; c++)
                    to[c + r * row_step] = 0.0f;
    }
}

/* W_k k for the packed keys of a tile. */
FLASH_APART void project_keys(const struct attn_flash *job, const struct attn_flash_scratch *w,
                              const struct tile *tile)
{
    int64_t dh6 = attn_round_up(job->dh, FLASH_MR);
    for (int64_t p = tile->lo / FLASH_NR; p * FLASH_NR < tile->hi; p++)
        for (int64_t u = 0; u < dh6; u += FLASH_MR)
            score_tile(FLASH_MR, DOT, w->p_k + u * job->dk, w->k + p * job->dk * FLASH_NR, job->dk,
                       w->hidden + (p * dh6 + u) * FLASH_NR, FLASH_NR);
}

/* s[0..NR) of one row against one panel of hidden keys. */
FLASH_INLINE void additive_panel(const float *q, const float *hidden, const float *w_v, int64_t dh,
                                 float *s)
{
    vf sum[FLASH_NV];
    for (int n = 0; n < FLASH_NV; n++)
        sum[n] = vf_set1(0.0f);
    for (int64_t u = 0; u < dh; u++) {
        vf query = vf_set1(q[u * FLASH_MR]), weight = vf_set1(w_v[u]);
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++) {
            vf x = vf_add(query, vf_load(hidden + u * FLASH_NR + n * VF_LANES));
            sum[n] = vf_fma(weight, tanh_log2(x), sum[n]);
        }
    }
    for (int n = 0; n < FLASH_NV; n++)
        vf_store(s + n * VF_LANES, sum[n]);
}

/* Scores of `count` rows from r0 on against panels [panel_lo, panel_hi), of each row only the
 * panels that it may see. */
FLASH_APART void additive_scores(const struct attn_flash *job, const struct attn_flash_scratch *w,
                                 const struct row *rows, int64_t r0, int count, int64_t panel_lo,
                                 int64_t panel_hi)
{
    int64_t dh6 = attn_round_up(job->dh, FLASH_MR);
    for (int64_t p = panel_lo; p < panel_hi; p++)
        for (int r = 0; r < count; r++)
            if (rows[r].lo < (p + 1) * FLASH_NR && p * FLASH_NR < rows[r].hi)
                additive_panel(w->q + r0 * job->dp + r, w->hidden + p * dh6 * FLASH_NR, w->w_v,
                               job->dh, rows[r].s + p * FLASH_NR);
}
