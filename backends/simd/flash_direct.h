/* SPDX-License-Identifier: Apache-2.0 */
/* flash_direct.h - part of flash_template.h: K and V in place, for a handful of rows (decoding).
 * Packing K and V would cost more than using them once.
 *
 * Memory is read once and in the order of its addresses. The prefetchers of the hardware follow one
 * rising stream at nearly the whole bandwidth, and a few interleaved rows at a third of it. A
 * single row of queries makes such a stream by itself. With several rows, tiles are computed from
 * the first-level cache; between their steps, the lines of the next block of keys are touched.
 *
 * A single row of queries widens rows of 16 bits as they stream by. Several rows have a vector of
 * keys widened once, into the first-level cache.
 *
 * Each score is one chain of sums over the columns and each output one over the keys, whatever the
 * tile. So the bits of a row do not depend on the rows beside it. */
#define DIRECT_TILE  3    /* rows of a tile of scores: its 12 sums hide the latency of FMA */
#define DIRECT_KEYS  4    /* keys of a tile */
#define DIRECT_SPAN  64   /* columns of a tile of one row of outputs */
#define DIRECT_LINE  64   /* bytes in a cache line */
#define DIRECT_AHEAD 1024 /* bytes: prefetches go 1 KiB ahead; a page is too far */
#define DIRECT_TOUCH 4096 /* bytes: touches go 4 KiB ahead */

/* Floats between two queries: dk, rounded up. Zeros meet the end of a key's last vector. */
FLASH_INLINE int64_t direct_query_stride(const struct attn_flash *job)
{
    return attn_round_up(job->dk, VF_LANES);
}

/* Rows of the block as [rows][direct_query_stride]. q takes what packed keys would take, because K
 * is read in place. */
static void direct_queries(const struct attn_flash *job, const struct attn_flash_scratch *w,
                           const struct block *block)
{
    int64_t stride = direct_query_stride(job);
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t h = row_head(job, block, r), i = row_query(job, block, r);
        float *to = w->q + r * stride;
        widen(&job->operands.q, attn_row_start(&job->operands.q, block->b, h, i),
              job->operands.q.stride[3], job->dk, to);
        for (int64_t c = 0; c < stride; c += VF_LANES)
            vf_store(to + c, vf_mul(vf_set1(job->packed), vf_load(to + c)));
    }
}

/* Rows of K or V of a tile: all of them in place, or some of them as floats. */
struct direct {
    const void *from;      /* row `first` of the tile */
    int64_t stride, width; /* in elements */
    int64_t first, hi;     /* no row from hi on is read */

    /* The operand, for prefetches and touches. */
    const char *row0;    /* row 0 of the tile */
    int64_t step, bytes; /* from row to row, and of a row */
    int64_t ahead, end;  /* touches go this many rows ahead, up to row `end` */
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

/* Row j, whose elements are of this type. */
FLASH_INLINE const void *direct_row(const uint32_t type, const struct direct *x, int64_t j)
{
    return element_at(type, x->from, (j - x->first) * x->stride);
}

/* Up to VF_LANES rows of 16-bit elements from j on, as floats at `to`. */
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

/* Where a tile finds its rows. HELD: in the first-level cache. STREAM: in memory; it prefetches
 * what comes next. TOUCH: in the first-level cache; meanwhile it touches the rows of the next
 * block. */
enum fetch { HELD, STREAM, TOUCH };

/* The cache lines of some rows, one after the other. At the end it stays on the last row. */
struct lines {
    const char *row;
    int64_t step, bytes, column, rows;
};

/* The lines of `keys` rows, x->ahead rows after row j; past the end, those of row j. */
FLASH_INLINE struct lines next_lines(const struct direct *x, int64_t j, int64_t keys)
{
    int64_t next = j + x->ahead < x->end ? j + x->ahead : j, left = x->end - next;
    return (struct lines){x->row0 + next * x->step, x->step, x->bytes, 0,
                          left < keys ? left : keys};
}

/* Loads, because the processor drops prefetches in such numbers. */
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

/* What a step of a tile fetches: `lines` lines of each of `keys` rows. The rows lie `step` bytes
 * apart, from `at` on. */
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
