/* SPDX-License-Identifier: Apache-2.0 */
/* flash_f32_direct.h - part of flash_f32_template.h: the two products for a handful of rows
 * (decoding), where packing K and V would cost more than using them once. Both are read in place.
 *
 * Memory is read once, and in the order of its addresses: the prefetchers of the hardware follow
 * one rising stream to nearly the whole bandwidth, and a few interleaved rows to a third of it. A
 * single row of queries is such a stream by itself. Of several rows, tiles are computed from the
 * first-level cache, and the block of keys that comes next is touched, line by line, between their
 * steps.
 *
 * Each score is one chain over the columns and each output one over the keys, whatever the tile,
 * so that a row's bits do not depend on the rows beside it. */
#define DIRECT_TILE  3    /* rows of a tile of scores: its 12 sums hide the latency of FMA */
#define DIRECT_KEYS  4    /* keys of a tile */
#define DIRECT_SPAN  64   /* columns of a tile of one row of outputs */
#define DIRECT_LINE  16   /* floats in a cache line */
#define DIRECT_AHEAD 256  /* floats: prefetches go 1 KiB ahead; a page is too far */
#define DIRECT_TOUCH 1024 /* floats: touches go 4 KiB ahead */

/* Floats between two queries: dk, rounded up for the zeros that meet a key's odd end. */
FLASH_INLINE int64_t direct_query_stride(const struct attn_flash *job)
{
    return attn_round_up(job->dk, VF_LANES);
}

/* Rows of the block, scaled, as [rows][direct_query_stride]. */
static void direct_queries(const struct attn_flash *job, const struct attn_flash_scratch *w,
                           const struct block *block)
{
    int64_t stride = direct_query_stride(job);
    float factor = query_factor(job);
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t h = row_head(job, block, r), i = row_query(job, block, r);
        const float *from = (const float *)job->q.data + attn_row_index(&job->q, block->b, h, i);
        for (int64_t c = 0; c < stride; c++)
            w->q[r * stride + c] = c < job->dk ? from[c * job->q.stride[3]] * factor : 0.0f;
    }
}

/* Rows of K or V in place, and which of them a product has in hand. */
struct direct {
    const float *from; /* row j of the tile lies at from + j * stride */
    int64_t stride, width, ahead;
    int64_t hi; /* no row from here on is read */
};

FLASH_INLINE struct direct direct_rows(const struct attn_view *view, const struct block *block,
                                       int64_t j0, int64_t width, int64_t hi)
{
    return (struct direct){.from = (const float *)view->data + block->b * view->stride[0] +
                                   block->kv * view->stride[1] + j0 * view->stride[2],
                           .stride = view->stride[2],
                           .width = width,
                           .ahead = attn_round_up(DIRECT_TOUCH, width) / width,
                           .hi = hi};
}

/* How a tile has its rows: in the first-level cache; as a stream, asking for what comes AHEAD; or
 * in that cache, while it touches the rows of the next block. */
enum fetch { HELD, STREAM, TOUCH };

/* The lines of some rows, one after the other; stays on the last row at the end. */
struct lines {
    const float *row;
    int64_t stride, width, column, rows;
};

/* Those of `keys` rows AHEAD of row j; past the end, those of row j. */
FLASH_INLINE struct lines next_lines(const struct direct *x, int64_t j, int64_t keys)
{
    int64_t next = j + x->ahead < x->hi ? j + x->ahead : j, left = x->hi - next;
    return (struct lines){x->from + next * x->stride, x->stride, x->width, 0,
                          left < keys ? left : keys};
}

/* Real loads: asked for in such numbers, prefetches are dropped. */
FLASH_INLINE void touch_lines(struct lines *at, int count)
{
    for (int n = 0; n < count; n++) {
        (void)*(const volatile float *)(at->row + at->column);
        at->column += DIRECT_LINE;
        if (at->column < at->width)
            continue;
        at->column = 0;
        at->row += at->rows > 1 ? at->stride : 0;
        at->rows--;
    }
}

FLASH_INLINE void direct_fetch(const enum fetch fetch, const float *at, struct lines *next,
                               int count)
{
    if (fetch == STREAM)
        for (int n = 0; n < count; n++)
            __builtin_prefetch(at + DIRECT_AHEAD + n * DIRECT_LINE, 0, 2);
    if (fetch == TOUCH)
        touch_lines(next, count);
}

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
FLASH_INLINE void direct_score_tile(const int mr, const int keys, const enum pairing pairing,
                                    const enum fetch fetch, const float *q, int64_t q_stride,
                                    const struct direct *x, int64_t j, struct lines *next,
                                    vf *lanes)
{
    const float *k = x->from + j * x->stride;
    vf sum[DIRECT_TILE][DIRECT_KEYS], key[DIRECT_KEYS];
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < keys; n++)
            sum[r][n] = vf_set1(0.0f);
    int64_t c = 0;
    for (; c + DIRECT_LINE <= x->width; c += DIRECT_LINE) {
        direct_fetch(fetch, k + c, next, keys);
#pragma GCC unroll 4
        for (int64_t o = 0; o < DIRECT_LINE; o += VF_LANES) {
#pragma GCC unroll 4
            for (int n = 0; n < keys; n++)
                key[n] = vf_loadu(k + n * x->stride + c + o);
            direct_score_step(mr, keys, pairing, q + c + o, q_stride, key, sum);
        }
    }
    for (; c < x->width; c += VF_LANES) {
#pragma GCC unroll 4
        for (int n = 0; n < keys; n++)
            key[n] = vf_load_first(k + n * x->stride + c, x->width - c);
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
FLASH_INLINE void direct_score_keys(const int mr, const enum pairing pairing,
                                    const enum fetch fetch, const float *q, int64_t q_stride,
                                    const struct direct *x, int64_t j, float *s)
{
    const int keys = fetch == STREAM ? 1 : DIRECT_KEYS;
    struct lines next = next_lines(x, j, VF_LANES);
    vf lanes[DIRECT_TILE * VF_LANES];
    int64_t n = 0, count = x->hi - j < VF_LANES ? x->hi - j : VF_LANES;
    if (count < VF_LANES)
        for (int e = 0; e < mr * VF_LANES; e++)
            lanes[e] = vf_set1(0.0f);
    for (; n + keys <= count; n += keys)
        direct_score_tile(mr, keys, pairing, fetch, q, q_stride, x, j + n, &next, lanes + n);
    for (; n < count; n++)
        direct_score_tile(mr, 1, pairing, fetch, q, q_stride, x, j + n, &next, lanes + n);
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
        vf_storeu(s + r * LD + j, vf_sums(lanes + r * VF_LANES));
}

FLASH_INLINE void direct_score_rows(const enum pairing pairing, int count, const float *q,
                                    int64_t q_stride, const struct direct *x, int64_t lo, float *s)
{
    for (int64_t j = lo; j < x->hi; j += VF_LANES) {
        int r = count < DIRECT_TILE ? count : DIRECT_TILE;
        if (count == 1)
            direct_score_keys(1, pairing, STREAM, q, q_stride, x, j, s);
        else if (count == 2)
            direct_score_keys(2, pairing, TOUCH, q, q_stride, x, j, s);
        else
            direct_score_keys(3, pairing, TOUCH, q, q_stride, x, j, s);
        for (; count - r >= 3; r += 3)
            direct_score_keys(3, pairing, HELD, q + r * q_stride, q_stride, x, j, s + r * LD);
        if (count - r == 2)
            direct_score_keys(2, pairing, HELD, q + r * q_stride, q_stride, x, j, s + r * LD);
        else if (count - r == 1)
            direct_score_keys(1, pairing, HELD, q + r * q_stride, q_stride, x, j, s + r * LD);
    }
}

/* Scores of `count` rows from r0 on against keys [lo, hi) of the tile. */
FLASH_APART void direct_scores(const struct attn_flash *job, const struct attn_flash_scratch *w,
                               const struct block *block, const struct tile *tile, int64_t r0,
                               int count, int64_t lo, int64_t hi)
{
    const struct direct x = direct_rows(&job->k, block, tile->j0, job->dk, hi);
    int64_t stride = direct_query_stride(job);
    if (job->score == ATTN_SCORE_GAUSSIAN)
        direct_score_rows(DISTANCE, count, w->q + r0 * stride, stride, &x, lo, w->s);
    else
        direct_score_rows(DOT, count, w->q + r0 * stride, stride, &x, lo, w->s);
}

/* o += sum of p v over `keys` rows of V from v on, for `mr` rows and `nv` vectors of columns; where
 * nv is 1 `left` columns exist. */
FLASH_INLINE void direct_value_step(const int mr, const int keys, const int nv, const float *p,
                                    const float *v, int64_t key_stride, int64_t left, float *o,
                                    int64_t width)
{
    vf sum[4][DIRECT_SPAN / VF_LANES];
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
        for (int e = 0; e < nv; e++)
            sum[r][e] = vf_load(o + r * width + e * VF_LANES);
#pragma GCC unroll 4
    for (int n = 0; n < keys; n++) {
        vf value[DIRECT_SPAN / VF_LANES];
#pragma GCC unroll 8
        for (int e = 0; e < nv; e++)
            value[e] = nv == 1 && left < VF_LANES ? vf_load_first(v + n * key_stride, left)
                                                  : vf_loadu(v + n * key_stride + e * VF_LANES);
#pragma GCC unroll 4
        for (int r = 0; r < mr; r++) {
            vf weight = vf_set1(p[r * LD + n]);
#pragma GCC unroll 8
            for (int e = 0; e < nv; e++)
                sum[r][e] = vf_fma(weight, value[e], sum[r][e]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
        for (int e = 0; e < nv; e++)
            vf_store(o + r * width + e * VF_LANES, sum[r][e]);
}

/* The same for all columns. */
FLASH_INLINE void direct_value_tile(const int mr, const int keys, const enum fetch fetch,
                                    const float *p, const struct direct *x, int64_t j, float *o,
                                    int64_t width)
{
    const int nv = mr == 1 ? DIRECT_SPAN / VF_LANES : 2; /* 4 to 8 sums in registers */
    const float *v = x->from + j * x->stride;
    struct lines next = next_lines(x, j, keys);
    int64_t c = 0;
    for (; c + nv * VF_LANES <= x->width; c += nv * VF_LANES) {
        direct_fetch(fetch, v + c, &next, keys * nv * VF_LANES / DIRECT_LINE);
        direct_value_step(mr, keys, nv, p, v + c, x->stride, 0, o + c, width);
    }
    for (; c < x->width; c += VF_LANES)
        direct_value_step(mr, keys, 1, p, v + c, x->stride, x->width - c, o + c, width);
}

/* The same for `count` rows. */
FLASH_INLINE void direct_value_rows(const int keys, int count, const float *p,
                                    const struct direct *x, int64_t j, float *o, int64_t width)
{
    int r = count < 4 ? count : 4;
    if (count == 1)
        direct_value_tile(1, keys, STREAM, p, x, j, o, width);
    else if (count == 2)
        direct_value_tile(2, keys, TOUCH, p, x, j, o, width);
    else if (count == 3)
        direct_value_tile(3, keys, TOUCH, p, x, j, o, width);
    else
        direct_value_tile(4, keys, TOUCH, p, x, j, o, width);
    for (; count - r >= 4; r += 4)
        direct_value_tile(4, keys, HELD, p + r * LD, x, j, o + r * width, width);
    for (; count - r >= 2; r += 2)
        direct_value_tile(2, keys, HELD, p + r * LD, x, j, o + r * width, width);
    if (count > r)
        direct_value_tile(1, keys, HELD, p + r * LD, x, j, o + r * width, width);
}

/* Where V may hold NaN or Inf: weights of -0.0, the mark of cells that take no part, are skipped
 * instead of multiplied. */
static void direct_value_careful(int count, const float *p, const struct direct *x, int64_t j,
                                 float *o, int64_t width)
{
    for (int r = 0; r < count; r++)
        if (p[r * LD] != 0.0f || !signbit(p[r * LD]))
            direct_value_tile(1, 1, HELD, p + r * LD, x, j, o + r * width, width);
}

/* What value_product does, from V in place. */
FLASH_APART void direct_values(const struct attn_flash *job, const struct block *block,
                               const struct tile *tile, int count, const struct product *product)
{
    const struct direct x = direct_rows(&job->v, block, tile->j0, job->dv, product->hi);
    int64_t width = product->width, j = product->lo;
    float *o = product->o;
    for (int r = 0; r < count; r++)
        for (int64_t c = 0; c < width; c += VF_LANES)
            vf_store(o + r * width + c,
                     vf_mul(vf_set1(product->rescale[r]), vf_load(o + r * width + c)));
    if (block->careful)
        for (; j < x.hi; j++)
            direct_value_careful(count, product->p + j, &x, j, o, width);
    for (; count > 1 && j + DIRECT_KEYS <= x.hi; j += DIRECT_KEYS)
        direct_value_rows(DIRECT_KEYS, count, product->p + j, &x, j, o, width);
    for (; j < x.hi; j++)
        direct_value_rows(1, count, product->p + j, &x, j, o, width);
}

/* Whether what was accumulated is finite: x * 0 is 0 just then. A V that is not finite shows here,
 * wherever it met a weight, even one of 0. */
static bool direct_finite(const struct attn_flash_scratch *w, const struct block *block)
{
    vf zero = vf_set1(0.0f), sum = zero;
    for (int64_t c = 0; c < block->rows * block->width; c += VF_LANES)
        sum = vf_fma(vf_load(w->o + c), zero, sum);
    return vf_all_equal(sum, zero);
}
