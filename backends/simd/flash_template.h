/* SPDX-License-Identifier: Apache-2.0 */
/* flash_template.h - flash attention in f32 over a vector type, included once by each instance.
 * Operands of 16 bits are converted (flash_convert.h).
 *
 * An instance defines, before it includes this file (flash_avx2.c is the model):
 *   FLASH_MR          rows of a micro-kernel: 6
 *   FLASH_NV          vectors of a micro-kernel's row, 2 or 4; MR*NV accumulators must stay in
 *                     registers
 *   FLASH_PAIRS       1 where the products take pairs of FLASH_TYPE, ATTN_BF16 or ATTN_F16, whose
 *                     operations flash_pack_pairs.h names, and no scores but dot products are asked
 *                     for; else 0
 *   FLASH_TILES       1 where the products are those of flash_product_tiles.h, beside which
 *                     flash_overlap.h computes weights of other rows; else 0
 *   FLASH_CHAIN       products of pairs of f16 that are summed in f16 (flash_kernel_f16.h); 0 where
 *                     all sums are f32
 *   vf, VF_LANES      a vector of floats, and how many it holds (a power of two, at most 16)
 *   vf_set1 vf_lane_numbers ({0, 1, 2, ...}) vf_add vf_sub vf_mul vf_div vf_abs vf_first
 *   vf_load vf_store  aligned to the vector; vf_loadu vf_storeu: to the element
 *   vf_load_first     the first `count` lanes (any count <= 0: none, >= VF_LANES: all), 0 in the
 *                     others, which are not touched in memory
 *   vf_load_f16 vf_load_bf16    the same of 16-bit elements, as floats
 *   vf_store_f16 vf_store_bf16  all lanes, rounded to nearest even; NaN stays NaN
 *   vf_fma            a*b + c, rounded once
 *   vf_max vf_min     b where either is NaN
 *   vf_select_equal   lane by lane `yes` where a == b; NaN gives `no`
 *   vf_select_bytes   lane by lane `yes` where the byte is not 0
 *   vf_shift_to_exponent  lane bits shifted left by 23
 *   vf_round          to the nearest integer
 *   vf_times_power    y * 2^n for y of [1/2, 2] and integers n <= 0, within 2^-126 where n < -126;
 *                     0 where n is -inf, even if y is NaN; NaN where n is
 *   vf_all_equal      true when every lane compares equal
 *   vf_sum vf_largest horizontal; vf_sums: lane n is the sum of the lanes of the n-th vector
 *   vf_transpose      a VF_LANES x VF_LANES block, times a factor; `to` aligned, `from` to the
 *                     element
 * and afterwards its struct attn_flash_isa, from FLASH_MR, FLASH_NR, run_item and merge_parts.
 *
 * The algorithm, for one item (consecutive folded rows of one key/value head):
 *   for each tile of key_block keys that some row may see:
 *     pack K as [keys/NR][dk][NR] and, unless its rows will do, V as [dv/NR][keys][NR]
 *     for each group of MR rows that may see some of the tile:
 *       s = q k^T over the vectors of keys that the group may see, maximum   (micro-kernel)
 *         gaussian: s = |q - k|^2 in its place; bilinear and additive: flash_scores_floats.h
 *       per row: softcap, bias, ALiBi, boolean mask; -inf in forbidden cells; maximum of those
 *       per row: p = 2^(s - max), denominator, dropout
 *       o = o * 2^(old max - max) + p v over the keys the group may see      (micro-kernel)
 *         the group's last tile stores its sums straight to out, divided by the denominator
 *   out = o / denominator, for the rest; where weights are asked for, a second sweep over K writes
 *   them
 * A forbidden cell has s = -inf and so p = 0 exactly. 0 * V is NaN where V is not finite, so that
 * packing V notes where it is not, and groups that meet such keys take a scalar path which skips
 * every cell that takes no part. What a row computes depends on nothing but the row: not on its
 * neighbours in the group, nor on items and threads. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "mask.h"

#define FLASH_NR     (FLASH_NV * VF_LANES)
#define LD           ATTN_FLASH_SCORE_STRIDE
#define FLASH_INLINE static inline __attribute__((always_inline))
/* For the products: inlined into the driver their sums would be spilled. */
#define FLASH_APART static __attribute__((noinline))

/* One item, and the tile of keys at hand. */
struct block {
    int64_t b, g, kv;                   /* group of query heads, and its key/value head */
    int64_t row0, rows;                 /* first folded row, and how many */
    int64_t lo, hi;                     /* union of the rows' intervals */
    int64_t width;                      /* of a row of w->o: dv rounded up to a vector */
    bool direct;                        /* few rows: K and V are read in place (flash_direct.h) */
    bool careful;                       /* direct: V is not finite */
    int64_t part;                       /* of the keys; 0 where they are not split */
    const struct attn_flash_item *next; /* of this thread, or NULL */
};

struct tile {
    int64_t j0;             /* first key */
    int64_t lo, hi;         /* packed keys, relative to j0 */
    int64_t bad_lo, bad_hi; /* interval of the keys whose V is not finite; empty: lo >= hi */
    const float *v;         /* of key j0: in place, or packed */
    int64_t v_key, v_panel; /* floats between keys, and between panels of NR columns */
};

/* The place of a row of the block in its group of query heads, and its query. */
FLASH_INLINE void find_row(const struct attn_flash *job, const struct block *block, int64_t r,
                           int64_t *place, int64_t *i)
{
    bool alone = job->group == 1; /* the usual case, spared a division */
    *i = alone ? block->row0 + r : (block->row0 + r) / job->group;
    *place = alone ? 0 : (block->row0 + r) % job->group;
}

/* The same of the row that follows. */
FLASH_INLINE void next_row(const struct attn_flash *job, int64_t *place, int64_t *i)
{
    if (++*place == job->group) {
        *place = 0;
        ++*i;
    }
}

/* Query head and query of a row of the block. */
static inline int64_t row_head(const struct attn_flash *job, const struct block *block, int64_t r)
{
    int64_t place, i;
    find_row(job, block, r, &place, &i);
    return block->g * job->group + place;
}

static inline int64_t row_query(const struct attn_flash *job, const struct block *block, int64_t r)
{
    int64_t place, i;
    find_row(job, block, r, &place, &i);
    return i;
}

/* An operand of one number a query head. */
static inline float of_head(const struct attn_view *x, int64_t h)
{
    return attn_element(x->dtype, x->data, h * x->stride[0]);
}

/* How far the output of a group of rows has come: w->o holds nothing, sums, or is done with. */
enum stage { FRESH, BEGUN, STORED };

/* What a score sums over the columns: q k, or (q - k)^2. */
enum pairing { DOT, DISTANCE };

FLASH_INLINE vf join(const enum pairing pairing, vf q, vf k, vf sum)
{
#if FLASH_PAIRS
    (void)pairing; /* always DOT */
    return vf_join_pairs(q, k, sum);
#else
    vf apart = pairing == DOT ? q : vf_sub(q, k);
    return vf_fma(apart, pairing == DOT ? k : apart, sum);
#endif
}

/* What a thread does between the steps of a product, where the products of an instance leave its
 * vectors idle (amx_tiles.h); NULL: nothing. */
struct meanwhile;

/* to[r] = by[r] * (o[r] * rescale[r] + sum over keys j in [lo, hi) of p[r][j] v[j]). */
struct product {
    const float *p; /* [rows][LD] */
    const float *v; /* key j, column c: at c / NR * v_panel + c % NR + j * v_key */
    int64_t v_key, v_panel, lo, hi;
    float *o;             /* [rows][width] */
    int64_t width;        /* dv rounded up to a vector */
    bool fresh;           /* o holds nothing yet and counts as 0 */
    const float *rescale; /* [rows] */
    const struct meanwhile *meanwhile;
    float *to[FLASH_MR]; /* rows of o, or of out where it takes whole vectors */
    float by[FLASH_MR];
};

#include "flash_convert.h"
#include "flash_softmax.h"

#if FLASH_PAIRS
#include "flash_pack_pairs.h"
#else
#include "flash_direct.h"
#include "flash_pack_floats.h"
#endif

static struct block make_block(const struct attn_flash *job, const struct attn_flash_item *item)
{
    return (struct block){.b = item->head / job->groups,
                          .g = item->head % job->groups,
                          .kv = item->head % job->groups / job->share,
                          .row0 = item->row0,
                          .rows = item->rows,
                          .part = item->part,
                          .width = attn_round_up(job->dv, VF_LANES),
                          .direct = job->direct};
}

/* Keys that row r of the block may see of its part. */
static void find_interval(const struct attn_flash *job, const struct block *block, int64_t r,
                          int64_t *lo, int64_t *hi)
{
    attn_mask_interval(job, block->b, row_query(job, block, r), lo, hi);
    if (job->splits == 1)
        return;
    int64_t first = block->part * job->part_keys, end = first + job->part_keys;
    *lo = *lo > first ? *lo : first;
    *hi = *hi < end ? *hi : end;
    if (*lo >= *hi)
        *lo = *hi = 0;
}

/* Fills the rows' intervals and their union. */
static void find_intervals(const struct attn_flash *job, const struct attn_flash_scratch *w,
                           struct block *block)
{
    block->lo = job->sk;
    block->hi = 0;
    for (int64_t r = 0; r < block->rows; r++) {
        find_interval(job, block, r, &w->lo[r], &w->hi[r]);
        if (w->lo[r] < w->hi[r]) {
            block->lo = w->lo[r] < block->lo ? w->lo[r] : block->lo;
            block->hi = w->hi[r] > block->hi ? w->hi[r] : block->hi;
        }
    }
}

#include "flash_ahead.h"
#if FLASH_TILES
#include "flash_product_tiles.h"
#else
#include "flash_product_vectors.h"
#endif
#if FLASH_PAIRS
#include "flash_weights_pairs.h"
#else
#include "flash_scores_floats.h"
#endif

/* Rows start at maximum -inf and denominator 0; with a sink, as if it were a first key with v = 0,
 * in the first part. */
static void start_rows(const struct attn_flash *job, const struct attn_flash_scratch *w,
                       const struct block *block)
{
    memset(w->stage, FRESH, (size_t)(block->rows + FLASH_MR - 1) / FLASH_MR);
    for (int64_t r = 0; r < block->rows; r++) {
        w->max[r] = -INFINITY;
        w->sum[r] = 0.0f;
        if (job->sink.data && block->part == 0) {
            w->max[r] = of_head(&job->sink, row_head(job, block, r)) * LOG2_E;
            if (w->max[r] != -INFINITY)
                w->sum[r] = isfinite(w->max[r]) ? 1.0f : NAN;
        }
    }
    if (block->direct || job->splits > 1) {
        memset(w->o, 0, (size_t)(block->rows * block->width) * sizeof *w->o);
        memset(w->stage, BEGUN, (size_t)(block->rows + FLASH_MR - 1) / FLASH_MR);
    }
}

/* Sets the keys of the tile that a row may see; lo == hi == 0 for none. */
FLASH_INLINE void clip_row(const struct attn_flash_scratch *w, const struct tile *tile, int64_t r,
                           const struct group *group, struct row *row)
{
    int64_t first = w->lo[r] > tile->j0 + tile->lo ? w->lo[r] : tile->j0 + tile->lo;
    int64_t end = w->hi[r] < tile->j0 + tile->hi ? w->hi[r] : tile->j0 + tile->hi;
    if (first < end && group->job->mask.data)
        attn_mask_tighten(group->job, group->b, row->h, row->i, &first, &end);
    row->lo = first < end ? first - tile->j0 : 0;
    row->hi = first < end ? end - tile->j0 : 0;
}

/* Whether scores become final by nothing but -inf in what lies outside the rows' intervals. */
static bool scores_are_plain(const struct attn_flash *job)
{
    return !scaled_late(job) && job->score != ATTN_SCORE_ADDITIVE &&
           !(job->flags & ATTN_FLAG_SOFTCAP) && !job->bias.data && !job->alibi.data &&
           !job->mask.data;
}

/* The rows of a group and the keys that each may see of a tile. Returns false where there is
 * none. */
static bool start_group(const struct attn_flash_scratch *w, const struct block *block,
                        const struct tile *tile, struct group *group)
{
    const struct attn_flash *job = group->job;
    int64_t h, i, common_lo = 0, common_hi = tile->hi;
    find_row(job, block, group->r0, &h, &i);
    group->lo = tile->hi;
    group->hi = 0;
    for (int r = 0; r < group->count; r++) {
        struct row *row = &group->rows[r];
        row->h = block->g * job->group + h;
        row->i = i;
        row->s = w->s + r * LD;
        clip_row(w, tile, group->r0 + r, group, row);
        if (row->lo < row->hi) {
            group->lo = row->lo < group->lo ? row->lo : group->lo;
            group->hi = row->hi > group->hi ? row->hi : group->hi;
        }
        common_lo = row->lo > common_lo ? row->lo : common_lo;
        common_hi = row->hi < common_hi ? row->hi : common_hi;
        next_row(job, &h, &i);
    }
    group->from = group->lo / VF_LANES * VF_LANES;
    group->to = attn_round_up(group->hi, VF_LANES);
    group->clean_lo = attn_round_up(common_lo, VF_LANES);
    group->clean_hi = group->clean_lo;
    if (!block->direct && scores_are_plain(job))
        group->clean_hi = common_hi / VF_LANES * VF_LANES;
    return group->lo < group->hi;
}

/* Final scores of one tile for a group. False where no row may see any of its keys. */
static bool score_group(const struct attn_flash_scratch *w, const struct block *block,
                        const struct tile *tile, struct group *group)
{
    if (!start_group(w, block, tile, group))
        return false;
    struct span span = {.k = w->k,
                        .from = group->from,
                        .to = group->to,
                        .s = w->s,
                        .top = group->top,
                        .clean_lo = group->clean_lo,
                        .clean_hi = group->clean_hi,
                        .ahead = group->ahead,
                        .meanwhile = group->meanwhile};
    for (int r = 0; r < group->count; r++) {
        struct row *row = &group->rows[r];
        if (row->lo >= row->hi)
            row->lo = row->hi = group->from;
        vf_store(group->top + r * VF_LANES, vf_set1(-INFINITY));
    }
    raw_scores(w, block, tile, group, &span);
    if (group->clean_lo > group->from || group->clean_hi < group->to)
        for (int r = 0; r < group->count; r++)
            finish_scores(group, &group->rows[r]);
    return true;
}

/* Whether the sums of this tile are a group's last, and out takes them as they are stored. */
static bool ends_group(const struct attn_flash_scratch *w, const struct block *block,
                       const struct tile *tile, const struct group *group)
{
    const struct attn_flash *job = group->job;
    if (block->direct || job->splits > 1 || job->mask.data || job->out.stride[3] != 1 ||
        job->out.dtype != ATTN_F32 || job->dv % VF_LANES)
        return false;
    for (int r = 0; r < group->count; r++)
        if (w->hi[group->r0 + r] > tile->j0 + tile->hi)
            return false;
    return true;
}

/* Where the sums of a group go, and times what. */
static void aim_product(const struct attn_flash_scratch *w, const struct group *group, bool last,
                        struct product *product)
{
    const struct attn_view *out = &group->job->out;
    for (int r = 0; r < group->count; r++) {
        const struct row *row = &group->rows[r];
        float sum = w->sum[group->r0 + r];
        product->to[r] = last ? (float *)out->data + attn_row_index(out, group->b, row->h, row->i)
                              : product->o + r * product->width;
        product->by[r] = !last ? 1.0f : sum == 0.0f ? 0.0f : 1.0f / sum;
    }
}

/* Whether a group meets keys whose V is not finite. */
static bool meets_bad(const struct block *block, const struct tile *tile, const struct group *group)
{
    return block->careful || (group->lo < tile->bad_hi && tile->bad_lo < group->hi);
}

/* The weights of a group are there: what they change in its rows, and dropout. */
static void end_weights(const struct attn_flash_scratch *w, const struct tile *tile,
                        const struct group *group, struct softmax *softmax)
{
    const struct attn_flash *job = group->job;
    end_softmax(group, w->sum + group->r0, softmax);
    for (int r = 0; r < group->count && job->flags & ATTN_FLAG_DROPOUT; r++) {
        const struct row *row = &group->rows[r];
        attn_dropout_row(job, group->b, row->h, row->i, tile->j0 + row->lo, tile->j0 + row->hi,
                         row->s + row->lo);
    }
}

/* Weights times V join the outputs of a group. */
static void join_group(const struct attn_flash_scratch *w, const struct block *block,
                       const struct tile *tile, const struct group *group,
                       const struct softmax *softmax)
{
    unsigned char *stage = &w->stage[group->r0 / FLASH_MR];
    struct product product;
    product.p = w->s;
    product.v = tile->v;
    product.v_key = tile->v_key;
    product.v_panel = tile->v_panel;
    product.lo = group->lo;
    product.hi = group->hi;
    product.o = w->o + group->r0 * block->width;
    product.width = block->width;
    product.fresh = *stage == FRESH;
    product.rescale = softmax->lag;
    product.meanwhile = group->meanwhile;
    bool last = ends_group(w, block, tile, group);
    aim_product(w, group, last, &product);
    join_values(w, block, tile, group, meets_bad(block, tile, group), &product);
    *stage = last ? STORED : BEGUN;
}

/* The rows of a group from r0 on; false where there are none. */
static bool take_rows(const struct block *block, struct group *group, int64_t r0)
{
    int64_t left = block->rows - r0;
    group->r0 = r0;
    group->count = left < FLASH_MR ? (int)left : FLASH_MR;
    return left > 0;
}

#if FLASH_TILES
#include "flash_overlap.h"
#else
/* One tile of keys joins the outputs of all groups, which are like `group`. */
static void attend_groups(const struct attn_flash_scratch *w, const struct block *block,
                          const struct tile *tile, struct group *group)
{
    struct softmax softmax;
    for (int64_t r0 = 0; take_rows(block, group, r0); r0 += FLASH_MR) {
        if (!score_group(w, block, tile, group))
            continue;
        start_softmax(group, w->max + group->r0, &softmax);
        weigh_scores(group, meets_bad(block, tile, group), softmax.shift, softmax.added);
        end_weights(w, tile, group, &softmax);
        join_group(w, block, tile, group, &softmax);
    }
}
#endif

/* The weights of one tile, once maximum and denominator are final. */
static void weigh_group(const struct attn_flash_scratch *w, const struct block *block,
                        const struct tile *tile, struct group *group)
{
    const struct attn_view *out = &group->job->weights;
    if (!score_group(w, block, tile, group))
        return;
    for (int r = 0; r < group->count; r++) {
        const struct row *row = &group->rows[r];
        int64_t at =
            attn_row_index(out, group->b, row->h, row->i) + (tile->j0 + row->lo) * out->stride[3];
        normalise_row(group, row, w->max[group->r0 + r], w->sum[group->r0 + r]);
        narrow(out, at, out->stride[3], row->hi - row->lo, row->s + row->lo, 1.0f);
    }
}

/* Divides by the denominator and writes out, unless the last tile did. */
static void store_row(const struct attn_flash *job, const struct attn_flash_scratch *w,
                      const struct block *block, int64_t r)
{
    unsigned char stage = w->stage[r / FLASH_MR];
    if (stage == STORED)
        return;
    int64_t at =
        attn_row_index(&job->out, block->b, row_head(job, block, r), row_query(job, block, r));
    float *o = w->o + r * block->width;
    if (stage == FRESH)
        memset(o, 0, (size_t)job->dv * sizeof *o);
    narrow(&job->out, at, job->out.stride[3], job->dv, o,
           w->sum[r] == 0.0f ? 0.0f : 1.0f / w->sum[r]);
}

static void store_lse(const struct attn_flash *job, const struct attn_flash_scratch *w,
                      const struct block *block, int64_t r)
{
    int64_t h = row_head(job, block, r), i = row_query(job, block, r);
    float max = w->max[r], sum = w->sum[r];
    /* In double: the logarithm then errs by nothing that matters beside the sum. */
    double lse = sum == 0.0f ? -INFINITY : ((double)max + log2((double)sum)) * 0.69314718055994531;
    if (job->sink.data && sum == 1.0f) {
        float sink = of_head(&job->sink, h);
        lse = max == sink * LOG2_E ? (double)sink : lse; /* nothing joined it: the sink itself */
    }
    ((float *)job->lse.data)[attn_row_index(&job->lse, block->b, h, i)] = (float)lse;
}

/* What a sweep over the tiles does with each group. */
enum sweep { ATTEND, WEIGH };

static void sweep_tiles(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block, enum sweep sweep)
{
    for (int64_t j0 = block->lo / job->key_block * job->key_block; j0 < block->hi;
         j0 += job->key_block) {
        int64_t first = block->lo - j0, end = block->hi - j0;
        struct tile tile = {.j0 = j0,
                            .lo = first > 0 ? first : 0,
                            .hi = end < job->key_block ? end : job->key_block};
        take_keys(job, w, block, &tile, sweep == ATTEND);
        struct group group = {.job = job, .b = block->b, .j0 = j0};
        struct ahead ahead;
        if (!block->direct) {
            ahead = next_tile(job, block, &tile);
            group.ahead = &ahead;
        }
        if (sweep == ATTEND)
            attend_groups(w, block, &tile, &group);
        for (int64_t r0 = 0; sweep == WEIGH && take_rows(block, &group, r0); r0 += FLASH_MR)
            weigh_group(w, block, &tile, &group);
    }
}

/* Weights are never held: a second sweep computes them again, into zeros. */
static void store_weights(const struct attn_flash *job, const struct attn_flash_scratch *w,
                          const struct block *block)
{
    const struct attn_view *weights = &job->weights;
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t h = row_head(job, block, r), i = row_query(job, block, r);
        int64_t at = attn_row_index(weights, block->b, h, i), step = weights->stride[3];
        if (weights->dtype == ATTN_F32)
            for (int64_t j = 0; j < job->sk; j++)
                ((float *)weights->data)[at + j * step] = 0.0f;
        else
            for (int64_t j = 0; j < job->sk; j++)
                ((uint16_t *)weights->data)[at + j * step] = 0;
    }
    sweep_tiles(job, w, block, WEIGH);
}

/* Divides by the denominators and writes all results of the block. */
static void store_rows(const struct attn_flash *job, const struct attn_flash_scratch *w,
                       const struct block *block)
{
    for (int64_t r = 0; r < block->rows; r++)
        store_row(job, w, block, r);
    for (int64_t r = 0; r < block->rows && job->lse.data; r++)
        store_lse(job, w, block, r);
    if (job->weights.data)
        store_weights(job, w, block);
}

#include "flash_parts.h"

static void run_item(const struct attn_flash *job, const struct attn_flash_scratch *scratch,
                     const struct attn_flash_item *item, const struct attn_flash_item *next)
{
    struct block block = make_block(job, item);
    const struct attn_flash_scratch own = part_scratch(job, scratch, item->head, item->part);
    const struct attn_flash_scratch *w = job->splits > 1 ? &own : scratch;
    block.next = next;
    find_intervals(job, w, &block);
    start_rows(job, w, &block);
    take_queries(job, w, &block);
    sweep_tiles(job, w, &block, ATTEND);
#if !FLASH_PAIRS
    if (block.direct && !direct_finite(w, &block)) {
        block.careful = true;
        start_rows(job, w, &block);
        sweep_tiles(job, w, &block, ATTEND);
    }
#endif
    if (job->splits == 1)
        store_rows(job, w, &block);
}
