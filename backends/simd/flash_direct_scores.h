/* SPDX-License-Identifier: Apache-2.0 */
/* flash_direct_scores.h - part of flash_template.h: scores of few rows, from K in place. */

/* sum[r][n] of `mr` rows and `keys` rows of K: one vector of columns joins. */
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

/* Lane sums [mr][VF_LANES] of `mr` queries with `keys` rows of K, in the columns from `n0` on. */
FLASH_INLINE void direct_score_tile(const uint32_t type, const int mr, const int keys,
                                    const enum pairing pairing, const enum fetch fetch,
                                    const float *q, int64_t q_stride, const struct direct *x,
                                    int64_t j, struct lines *next, vf *lanes)
{
    const int64_t line = DIRECT_LINE / attn_element_size(type);
    const void *k = direct_row(type, x, j);
    vf sum[DIRECT_TILE][DIRECT_KEYS], key[DIRECT_KEYS];
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < keys; n++)
            sum[r][n] = vf_set1(0.0f);
    int64_t c = 0;
    for (; c + line <= x->width; c += line) {
        direct_fetch(fetch, keys, 1, element_at(type, k, c), x->step, next);
#pragma GCC unroll 4
        for (int64_t o = 0; o < line; o += VF_LANES) {
#pragma GCC unroll 4
            for (int n = 0; n < keys; n++)
                key[n] = load_as(type, k, n * x->stride + c + o);
            direct_score_step(mr, keys, pairing, q + c + o, q_stride, key, sum);
        }
    }
    for (; c < x->width; c += VF_LANES) {
#pragma GCC unroll 4
        for (int n = 0; n < keys; n++)
            key[n] = load_first_as(type, k, n * x->stride + c, x->width - c);
        direct_score_step(mr, keys, pairing, q + c, q_stride, key, sum);
    }
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < keys; n++)
            lanes[r * VF_LANES + n] = sum[r][n];
}

/* Scores of `mr` rows against the up to VF_LANES keys from j on; what lies beyond the last in the
 * vector of scores becomes 0. */
FLASH_INLINE void direct_score_keys(const uint32_t type, const int mr, const enum pairing pairing,
                                    const enum fetch fetch, const float *q, int64_t q_stride,
                                    const struct direct *x, int64_t j, float *s)
{
    const int keys = fetch == STREAM && type == ATTN_F32 ? 1 : DIRECT_KEYS;
    struct lines next = next_lines(x, j, VF_LANES);
    vf lanes[DIRECT_TILE * VF_LANES];
    int64_t n = 0, count = x->hi - j < VF_LANES ? x->hi - j : VF_LANES;
    if (count < VF_LANES)
        for (int e = 0; e < mr * VF_LANES; e++)
            lanes[e] = vf_set1(0.0f);
    for (; n + keys <= count; n += keys)
        direct_score_tile(type, mr, keys, pairing, fetch, q, q_stride, x, j + n, &next, lanes + n);
    for (; n < count; n++)
        direct_score_tile(type, mr, 1, pairing, fetch, q, q_stride, x, j + n, &next, lanes + n);
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
        vf_storeu(s + r * LD + j, vf_sums(lanes + r * VF_LANES));
}

/* A single row of queries against keys [lo, hi), in place. */
FLASH_INLINE void direct_score_stream(const uint32_t type, const enum pairing pairing,
                                      const float *q, const struct direct *x, int64_t lo, float *s)
{
    for (int64_t j = lo; j < x->hi; j += VF_LANES)
        direct_score_keys(type, 1, pairing, STREAM, q, 0, x, j, s);
}

/* At least two rows against the up to VF_LANES keys from j on, as floats. */
FLASH_INLINE void direct_score_rows(const enum pairing pairing, int count, const float *q,
                                    int64_t q_stride, const struct direct *x, int64_t j, float *s)
{
    int r = count < DIRECT_TILE ? count : DIRECT_TILE;
    if (count == 2)
        direct_score_keys(ATTN_F32, 2, pairing, TOUCH, q, q_stride, x, j, s);
    else
        direct_score_keys(ATTN_F32, 3, pairing, TOUCH, q, q_stride, x, j, s);
    for (; count - r >= 3; r += 3)
        direct_score_keys(ATTN_F32, 3, pairing, HELD, q + r * q_stride, q_stride, x, j, s + r * LD);
    if (count - r == 2)
        direct_score_keys(ATTN_F32, 2, pairing, HELD, q + r * q_stride, q_stride, x, j, s + r * LD);
    else if (count - r == 1)
        direct_score_keys(ATTN_F32, 1, pairing, HELD, q + r * q_stride, q_stride, x, j, s + r * LD);
}

FLASH_INLINE void direct_score_all(const enum pairing pairing, const struct attn_flash *job,
                                   const struct attn_flash_scratch *w, int count, const float *q,
                                   const struct direct *x, int64_t lo)
{
    int64_t stride = direct_query_stride(job);
    if (count > 1)
        for (int64_t j = lo; j < x->hi; j += VF_LANES) {
            struct direct rows = *x;
            if (job->dtype != ATTN_F32)
                rows = direct_held(&job->k, x, j, w->held);
            direct_score_rows(pairing, count, q, stride, &rows, j, w->s);
        }
    else if (job->dtype == ATTN_F32)
        direct_score_stream(ATTN_F32, pairing, q, x, lo, w->s);
    else if (job->dtype == ATTN_F16)
        direct_score_stream(ATTN_F16, pairing, q, x, lo, w->s);
    else
        direct_score_stream(ATTN_BF16, pairing, q, x, lo, w->s);
}

/* Scores of `count` rows from r0 on against keys [lo, hi) of the tile. */
FLASH_APART void direct_scores(const struct attn_flash *job, const struct attn_flash_scratch *w,
                               const struct block *block, const struct tile *tile, int64_t r0,
                               int count, int64_t lo, int64_t hi)
{
    const struct direct x = direct_rows(&job->k, block, tile->j0, job->dk, hi);
    const float *q = w->q + r0 * direct_query_stride(job);
    if (job->score == ATTN_SCORE_GAUSSIAN)
        direct_score_all(DISTANCE, job, w, count, q, &x, lo);
    else
        direct_score_all(DOT, job, w, count, q, &x, lo);
}
