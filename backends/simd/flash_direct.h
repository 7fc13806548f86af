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
        widen(&job->operands.q, attn_row_start(&job->operands.q, block->b, h, i),
              job->operands.q.stride[3], job->dk, to);
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

FLASH_INLINE struct direct direct_rows(const struct attn_tensor *view, const struct block *block,
                                       int64_t j0, int64_t width, int64_t hi)
{
    const int64_t unit = attn_element_bytes(view->dtype);
    const char *row0 =
        (const char *)view->data + attn_row_start(view, block->b, block->kv, j0) * unit;
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
static struct direct direct_held(const struct attn_tensor *view, const struct direct *x, int64_t j,
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
