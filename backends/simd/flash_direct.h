/* SPDX-License-Identifier: Apache-2.0 */
/* flash_direct.h - part of flash_template.h: the two products for a handful of rows
 * (decoding), where packing K and V would cost more than using them once. Both are read in place.
 *
 * Memory is read once, and in the order of its addresses: the prefetchers of the hardware follow
 * one rising stream to nearly the whole bandwidth, and a few interleaved rows to a third of it. A
 * single row of queries is such a stream by itself. Of several rows, tiles are computed from the
 * first-level cache, and the block of keys that comes next is touched, line by line, between their
 * steps.
 *
 * Rows of 16 bits are widened as they stream by under a single row of queries; under several they
 * are widened once, a vector of keys at a time, into the first-level cache.
 *
 * Each score is one chain over the columns and each output one over the keys, whatever the tile,
 * so that a row's bits do not depend on the rows beside it. */
#define DIRECT_TILE  3    /* rows of a tile of scores: its 12 sums hide the latency of FMA */
#define DIRECT_KEYS  4    /* keys of a tile */
#define DIRECT_SPAN  64   /* columns of a tile of one row of outputs */
#define DIRECT_LINE  64   /* bytes in a cache line */
#define DIRECT_AHEAD 1024 /* bytes: prefetches go 1 KiB ahead; a page is too far */
#define DIRECT_TOUCH 4096 /* bytes: touches go 4 KiB ahead */

/* What q is multiplied by where K is read in place. */
static inline float query_factor(const struct attn_flash *job)
{
    return job->score == ATTN_SCORE_GAUSSIAN ? 1.0f : job->factor;
}

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
        float *to = w->q + r * stride;
        widen(&job->q, attn_row_index(&job->q, block->b, h, i), job->q.stride[3], job->dk, to);
        for (int64_t c = 0; c < stride; c += VF_LANES)
            vf_store(to + c, vf_mul(vf_set1(factor), vf_load(to + c)));
    }
}

/* Rows of K or V in place, or some of them as floats, and which of them a product has in hand. */
struct direct {
    const void *from;      /* of row `first` of the tile */
    int64_t stride, width; /* in elements */
    int64_t first, hi;     /* no row from hi on is read */

    /* The operand, for touches: row 0 of the tile, bytes from row to row and of a row, how many
     * rows they go ahead, and their end. */
    const char *row0;
    int64_t step, bytes, ahead, end;
};

FLASH_INLINE struct direct direct_rows(const struct attn_view *view, const struct block *block,
                                       int64_t j0, int64_t width, int64_t hi)
{
    const int64_t unit = attn_element_size(view->dtype);
    const char *row0 =
        (const char *)view->data + attn_row_index(view, block->b, block->kv, j0) * unit;
    return (struct direct){.from = row0,
                           .stride = view->stride[2],
                           .width = width,
                           .hi = hi,
                           .row0 = row0,
                           .step = view->stride[2] * unit,
                           .bytes = width * unit,
                           .ahead = attn_round_up(DIRECT_TOUCH, width * unit) / (width * unit),
                           .end = hi};
}

/* Row j, of elements of a type. */
FLASH_INLINE const void *direct_row(const uint32_t type, const struct direct *x, int64_t j)
{
    return element_at(type, x->from, (j - x->first) * x->stride);
}

/* Up to VF_LANES of these rows, of 16 bits, from j on, as floats at `to`. */
static struct direct direct_held(const struct attn_view *view, const struct direct *x, int64_t j,
                                 float *to)
{
    struct direct held = *x;
    held.from = to;
    held.first = j;
    held.hi = x->hi - j < VF_LANES ? x->hi : j + VF_LANES;
    held.stride = held.width = attn_round_up(x->width, VF_LANES);
    hold_rows(view->dtype, direct_row(view->dtype, x, j), x->stride, held.hi - j, x->width, to);
    return held;
}

/* How a tile has its rows: in the first-level cache; as a stream, asking for what comes AHEAD; or
 * in that cache, while it touches the rows of the next block. */
enum fetch { HELD, STREAM, TOUCH };

/* The lines of some rows, one after the other; stays on the last row at the end. */
struct lines {
    const char *row;
    int64_t step, bytes, column, rows;
};

/* Those of `keys` rows AHEAD of row j; past the end, those of row j. */
FLASH_INLINE struct lines next_lines(const struct direct *x, int64_t j, int64_t keys)
{
    int64_t next = j + x->ahead < x->end ? j + x->ahead : j, left = x->end - next;
    return (struct lines){x->row0 + next * x->step, x->step, x->bytes, 0,
                          left < keys ? left : keys};
}

/* Real loads: asked for in such numbers, prefetches are dropped. */
FLASH_INLINE void touch_lines(struct lines *at, int count)
{
    for (int n = 0; n < count; n++) {
        (void)*(const volatile char *)(at->row + at->column);
        at->column += DIRECT_LINE;
        if (at->column < at->bytes)
            continue;
        at->column = 0;
        at->row += at->rows > 1 ? at->step : 0;
        at->rows--;
    }
}

/* Meanwhile `lines` lines of each of `keys` rows, which lie `step` bytes apart from `at` on. */
FLASH_INLINE void direct_fetch(const enum fetch fetch, const int keys, const int lines,
                               const void *at, int64_t step, struct lines *next)
{
    if (fetch == STREAM)
        for (int n = 0; n < keys * lines; n++)
            __builtin_prefetch(
                (const char *)at + n / lines * step + DIRECT_AHEAD + n % lines * DIRECT_LINE, 0, 2);
    if (fetch == TOUCH)
        touch_lines(next, keys * lines);
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

/* o += sum of p v over `keys` rows of V from v on, for `mr` rows and `nv` vectors of columns; where
 * nv is 1 `left` columns exist. */
FLASH_INLINE void direct_value_step(const uint32_t type, const int mr, const int keys, const int nv,
                                    const float *p, const void *v, int64_t key_stride, int64_t left,
                                    float *o, int64_t width)
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
            value[e] = nv == 1 && left < VF_LANES ? load_first_as(type, v, n * key_stride, left)
                                                  : load_as(type, v, n * key_stride + e * VF_LANES);
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
FLASH_INLINE void direct_value_tile(const uint32_t type, const int mr, const int keys,
                                    const enum fetch fetch, const float *p, const struct direct *x,
                                    int64_t j, float *o, int64_t width)
{
    const int nv = mr == 1 ? DIRECT_SPAN / VF_LANES : 2; /* 4 to 8 sums in registers */
    const int lines = nv * VF_LANES * (int)attn_element_size(type) / DIRECT_LINE;
    const void *v = direct_row(type, x, j);
    struct lines next = next_lines(x, j, keys);
    int64_t c = 0;
    for (; c + nv * VF_LANES <= x->width; c += nv * VF_LANES) {
        direct_fetch(fetch, keys, lines, element_at(type, v, c), x->step, &next);
        direct_value_step(type, mr, keys, nv, p, element_at(type, v, c), x->stride, 0, o + c,
                          width);
    }
    for (; c < x->width; c += VF_LANES)
        direct_value_step(type, mr, keys, 1, p, element_at(type, v, c), x->stride, x->width - c,
                          o + c, width);
}

/* The same for `count` rows, from floats. */
FLASH_INLINE void direct_value_rows(const int keys, int count, const float *p,
                                    const struct direct *x, int64_t j, float *o, int64_t width)
{
    int r = count < 4 ? count : 4;
    if (count == 1)
        direct_value_tile(ATTN_F32, 1, keys, HELD, p, x, j, o, width);
    else if (count == 2)
        direct_value_tile(ATTN_F32, 2, keys, TOUCH, p, x, j, o, width);
    else if (count == 3)
        direct_value_tile(ATTN_F32, 3, keys, TOUCH, p, x, j, o, width);
    else
        direct_value_tile(ATTN_F32, 4, keys, TOUCH, p, x, j, o, width);
    for (; count - r >= 4; r += 4)
        direct_value_tile(ATTN_F32, 4, keys, HELD, p + r * LD, x, j, o + r * width, width);
    for (; count - r >= 2; r += 2)
        direct_value_tile(ATTN_F32, 2, keys, HELD, p + r * LD, x, j, o + r * width, width);
    if (count > r)
        direct_value_tile(ATTN_F32, 1, keys, HELD, p + r * LD, x, j, o + r * width, width);
}

/* Where V may hold NaN or Inf: weights of -0.0, the mark of cells that take no part, are skipped
 * instead of multiplied. */
static void direct_value_careful(int count, const float *p, const struct direct *x, int64_t j,
                                 float *o, int64_t width)
{
    for (int r = 0; r < count; r++)
        if (p[r * LD] != 0.0f || !signbit(p[r * LD]))
            direct_value_tile(ATTN_F32, 1, 1, HELD, p + r * LD, x, j, o + r * width, width);
}

/* The same for all keys from j on. */
FLASH_APART void direct_value_keys(bool careful, int count, const float *p,
                                   const struct direct *rows, int64_t j, float *o, int64_t width)
{
    const struct direct x = *rows; /* a copy, which the stores to o cannot change */
    if (careful)
        for (; j < x.hi; j++)
            direct_value_careful(count, p + j, &x, j, o, width);
    for (; count > 1 && j + DIRECT_KEYS <= x.hi; j += DIRECT_KEYS)
        direct_value_rows(DIRECT_KEYS, count, p + j, &x, j, o, width);
    for (; j < x.hi; j++)
        direct_value_rows(1, count, p + j, &x, j, o, width);
}

/* A single row, from V in place. */
FLASH_INLINE void direct_value_stream(const uint32_t type, const float *p, const struct direct *x,
                                      int64_t j, float *o, int64_t width)
{
    for (; type != ATTN_F32 && j + DIRECT_KEYS <= x->hi; j += DIRECT_KEYS)
        direct_value_tile(type, 1, DIRECT_KEYS, STREAM, p + j, x, j, o, width);
    for (; j < x->hi; j++)
        direct_value_tile(type, 1, 1, STREAM, p + j, x, j, o, width);
}

/* What value_product does, from V in place. */
FLASH_APART void direct_values(const struct attn_flash *job, const struct attn_flash_scratch *w,
                               const struct block *block, const struct tile *tile, int count,
                               const struct product *product)
{
    const struct direct x = direct_rows(&job->v, block, tile->j0, job->dv, product->hi);
    const float *p = product->p;
    const bool alone = count == 1 && !block->careful;
    int64_t width = product->width, lo = product->lo;
    float *o = product->o;
    for (int r = 0; r < count; r++)
        for (int64_t c = 0; c < width; c += VF_LANES)
            vf_store(o + r * width + c,
                     vf_mul(vf_set1(product->rescale[r]), vf_load(o + r * width + c)));
    if (alone && job->dtype == ATTN_F32)
        direct_value_stream(ATTN_F32, p, &x, lo, o, width);
    else if (alone && job->dtype == ATTN_F16)
        direct_value_stream(ATTN_F16, p, &x, lo, o, width);
    else if (alone)
        direct_value_stream(ATTN_BF16, p, &x, lo, o, width);
    else if (job->dtype == ATTN_F32)
        direct_value_keys(block->careful, count, p, &x, lo, o, width);
    else
        for (int64_t j = lo; j < x.hi; j += VF_LANES) {
            const struct direct held = direct_held(&job->v, &x, j, w->held);
            direct_value_keys(block->careful, count, p, &held, j, o, width);
        }
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
