/* SPDX-License-Identifier: Apache-2.0 */
/* flash_direct_scores.h - part of flash_template.h: scores of few rows with K in place. */

/* One vector of columns of `mr` queries and `keys` rows of K joins sum[r][n]. */
FLASH_INLINE void direct_score_step(const int mr, const int keys, const enum pairing pairing,
                                    const float *q, int64_t q_stride, const vf *key,
                                    vf sum[DIRECT_TILE][DIRECT_KEYS])
{
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++) {
        vf query = vf_load(q + r * q_stride);
#pragma GCC unroll 4
        for (int n = 0; n < keys; n++)
            sum[r][n] = join(pairing, query, key[n], sum[r][n]);
    }
}

/* Rows of queries, and the rows of K that they meet. */
struct direct_span {
    const float *q;   /* [rows][q_stride] */
    int64_t q_stride; /* floats */
    struct direct k;  /* in place, or as floats */
    float *s;         /* [rows][LD] scores */
};

/* What the tiles of a call have in common. Constants after inlining. */
struct direct_kind {
    uint32_t type; /* of the rows of K */
    enum pairing pairing;
    enum fetch fetch;
};

/* Lane sums [mr][VF_LANES] of `mr` queries with the `keys` rows of K from j on. */
FLASH_INLINE void direct_score_tile(const struct direct_kind kind, const int mr, const int keys,
                                    const struct direct_span *span, int64_t j, struct lines *next,
                                    vf *lanes)
{
    const struct direct *x = &span->k;
    const float *q = span->q;
    const int64_t line = DIRECT_LINE / attn_element_bytes(kind.type), q_stride = span->q_stride;
    const void *k = direct_row(kind.type, x, j);
    vf sum[DIRECT_TILE][DIRECT_KEYS], key[DIRECT_KEYS];
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < keys; n++)
            sum[r][n] = vf_set1(0.0f);
    int64_t c = 0;
    for (; c + line <= x->width; c += line) {
        direct_fetch(kind.fetch, keys, 1, element_at(kind.type, k, c), x->step, next);
#pragma GCC unroll 4
        for (int64_t o = 0; o < line; o += VF_LANES) {
#pragma GCC unroll 4
            for (int n = 0; n < keys; n++)
                key[n] = load_as(kind.type, k, n * x->stride + c + o);
            direct_score_step(mr, keys, kind.pairing, q + c + o, q_stride, key, sum);
        }
    }
    for (; c < x->width; c += VF_LANES) {
#pragma GCC unroll 4
        for (int n = 0; n < keys; n++)
            key[n] = load_first_as(kind.type, k, n * x->stride + c, x->width - c);
        direct_score_step(mr, keys, kind.pairing, q + c, q_stride, key, sum);
    }
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < keys; n++)
            lanes[r * VF_LANES + n] = sum[r][n];
}

/* Scores of `mr` rows from r0 on with up to VF_LANES keys from j on. Beyond the last key, scores
 * become 0. */
FLASH_INLINE void direct_score_keys(const struct direct_kind kind, const int mr, int r0,
                                    const struct direct_span *all, int64_t j)
{
    const int keys = kind.fetch == STREAM && kind.type == ATTN_F32 ? 1 : DIRECT_KEYS;
    struct direct_span span = *all;
    struct lines next = next_lines(&span.k, j, VF_LANES);
    vf lanes[DIRECT_TILE * VF_LANES];
    int64_t n = 0, count = span.k.hi - j < VF_LANES ? span.k.hi - j : VF_LANES;
    span.q += r0 * span.q_stride;
    span.s += r0 * LD;
    if (count < VF_LANES)
        for (int e = 0; e < mr * VF_LANES; e++)
            lanes[e] = vf_set1(0.0f);
    for (; n + keys <= count; n += keys)
        direct_score_tile(kind, mr, keys, &span, j + n, &next, lanes + n);
    for (; n < count; n++)
        direct_score_tile(kind, mr, 1, &span, j + n, &next, lanes + n);
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
        vf_storeu(span.s + r * LD + j, vf_sums(lanes + r * VF_LANES));
}

/* A single row of queries with keys [lo, hi), in place. */
FLASH_INLINE void direct_score_stream(const uint32_t type, const enum pairing pairing,
                                      const struct direct_span *span, int64_t lo)
{
    const struct direct_kind kind = {type, pairing, STREAM};
    for (int64_t j = lo; j < span->k.hi; j += VF_LANES)
        direct_score_keys(kind, 1, 0, span, j);
}

/* At least two rows with up to VF_LANES keys from j on, as floats. */
FLASH_INLINE void direct_score_rows(const enum pairing pairing, int count,
                                    const struct direct_span *span, int64_t j)
{
    const struct direct_kind touch = {ATTN_F32, pairing, TOUCH}, held = {ATTN_F32, pairing, HELD};
    int r = count < DIRECT_TILE ? count : DIRECT_TILE;
    if (count == 2)
        direct_score_keys(touch, 2, 0, span, j);
    else
        direct_score_keys(touch, 3, 0, span, j);
    for (; count - r >= 3; r += 3)
        direct_score_keys(held, 3, r, span, j);
    if (count - r == 2)
        direct_score_keys(held, 2, r, span, j);
    else if (count - r == 1)
        direct_score_keys(held, 1, r, span, j);
}

FLASH_INLINE void direct_score_all(const enum pairing pairing, const struct group *group,
                                   const struct direct_span *span, float *held)
{
    const struct attn_flash *job = group->job;
    if (group->count > 1)
        for (int64_t j = group->lo; j < span->k.hi; j += VF_LANES) {
            struct direct_span rows = *span;
            if (job->dtype != ATTN_F32)
                rows.k = direct_held(&job->operands.k, &span->k, j, held);
            direct_score_rows(pairing, group->count, &rows, j);
        }
    else if (job->dtype == ATTN_F32)
        direct_score_stream(ATTN_F32, pairing, span, group->lo);
    else if (job->dtype == ATTN_F16)
        direct_score_stream(ATTN_F16, pairing, span, group->lo);
    else
        direct_score_stream(ATTN_BF16, pairing, span, group->lo);
}

/* Scores of a group of rows with the keys that it may see of the tile. */
FLASH_APART void direct_scores(const struct attn_flash_scratch *w, const struct block *block,
                               const struct tile *tile, const struct group *group)
{
    const struct attn_flash *job = group->job;
    const int64_t stride = direct_query_stride(job);
    const struct direct_span span = {
        .q = w->q + group->r0 * stride,
        .q_stride = stride,
        .k = direct_rows(&job->operands.k, block, tile->j0, job->dk, group->hi),
        .s = w->s};
    if (job->score == ATTN_SCORE_GAUSSIAN)
        direct_score_all(DISTANCE, group, &span, w->held);
    else
        direct_score_all(DOT, group, &span, w->held);
}
