/* SPDX-License-Identifier: Apache-2.0 */
/* flash_project.h - part of flash_template.h: projections of queries and keys, for scores that have
 * parameters.
 *   bilinear   q^T M replaces q. The rest is a dot product.
 *   additive   W_q q replaces q, and W_k k, computed tile by tile, replaces k. Then
 *              s = w_v . tanh(W_q q + W_k k) for one panel of keys and one row at a time, so that
 *              nothing of the size sq x sk x dh exists.
 * All projections run in the micro-kernel of the dot product. */

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
                *to++ = r < x->rows ? attn_element_read(type, data, at) * factor : 0.0f;
            }
}

/* A matrix as panels [rows/unit][columns][unit], multiplied by a factor. Zeros fill the last
 * panel. */
static void pack_matrix(const struct attn_tensor *from, struct matrix x, int64_t unit, float factor,
                        float *to)
{
    if (from->dtype == ATTN_F32)
        pack_matrix_as(ATTN_F32, from->data, &x, unit, factor, to);
    else if (from->dtype == ATTN_F16)
        pack_matrix_as(ATTN_F16, from->data, &x, unit, factor, to);
    else
        pack_matrix_as(ATTN_BF16, from->data, &x, unit, factor, to);
}

/* Score parameters of the block's heads: of one head, or of all heads if they share them. They
 * carry the factors of the score and of tanh_log2. */
static void pack_params(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block)
{
    int64_t h = block->g * job->group;
    if (job->score == ATTN_SCORE_BILINEAR) {
        const int64_t *m = job->operands.m.stride;
        pack_matrix(&job->operands.m, (struct matrix){h * m[0], m[2], m[1], job->dk, job->dq},
                    FLASH_NR, job->packed, w->p_q);
        return;
    }
    const int64_t *w_q = job->operands.score_w_q.stride, *w_k = job->operands.score_w_k.stride,
                  *w_v = job->operands.score_w_v.stride;
    const float twice = (float)ATTN_FLASH_TANH;
    pack_matrix(&job->operands.score_w_q,
                (struct matrix){h * w_q[0], w_q[1], w_q[2], job->dh, job->dq}, FLASH_NR, twice,
                w->p_q);
    pack_matrix(&job->operands.score_w_k,
                (struct matrix){h * w_k[0], w_k[1], w_k[2], job->dh, job->dk}, 1, twice, w->p_k);
    pack_matrix(&job->operands.score_w_v, (struct matrix){h * w_v[0], w_v[1], 0, job->dh, 1}, 1,
                job->packed, w->w_v);
}

/* Projected rows of the block, in the place of rows as they are. A row of scores holds the columns
 * of one step. */
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

/* W_k k of the packed keys of a tile, as [dh][LD]. */
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
