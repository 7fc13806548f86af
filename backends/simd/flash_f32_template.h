/* SPDX-License-Identifier: Apache-2.0 */
/* flash_f32_template.h - flash attention in f32 over a vector type, included once by each instance.
 *
 * An instance defines, before it includes this file (flash_f32_avx2.c is the model):
 *   FLASH_MR          rows of a micro-kernel, at most VF_LANES
 *   FLASH_NV          vectors of a micro-kernel's row; MR*NV accumulators must stay in registers
 *   vf, VF_LANES      a vector of floats, and how many it holds (a power of two, at most 16)
 *   vf_set1 vf_lane_numbers ({0, 1, 2, ...}) vf_add vf_sub vf_mul vf_div vf_abs vf_first
 *   vf_load vf_store  aligned to the vector; vf_loadu vf_storeu: to the element
 *   vf_load_first     the first `count` lanes (any count <= 0: none, >= VF_LANES: all), 0 in the
 *                     others, which are not touched in memory
 *   vf_fma            a*b + c, rounded once
 *   vf_max vf_min     b where either is NaN
 *   vf_select_equal   lane by lane `yes` where a == b; NaN gives `no`
 *   vf_select_bytes   lane by lane `yes` where the byte is not 0
 *   vf_shift_to_exponent  lane bits shifted left by 23
 *   vf_all_equal      true when every lane compares equal
 *   vf_sum vf_largest horizontal
 *   vf_transpose      a VF_LANES x VF_LANES block; `to` aligned, `from` to the element
 * and afterwards its struct attn_flash_isa, from FLASH_MR, FLASH_NR and run_item.
 *
 * The algorithm, for one item (consecutive folded rows of one key/value head):
 *   for each tile of key_block keys that some row may see:
 *     pack K as [keys/NR][dk][NR] and V as [dv/NR][keys][NR]
 *     for each group of MR rows that may see some of the tile:
 *       s = q k^T over the panels that the group may see                     (micro-kernel)
 *         gaussian: s = |q - k|^2 in its place; bilinear and additive: flash_f32_scores.h
 *       per row: softcap, bias, ALiBi, boolean mask; -inf in forbidden cells; maximum
 *       per row: p = 2^(s - max), denominator, dropout
 *       o = o * 2^(old max - max) + p v over the keys the group may see      (micro-kernel)
 *   out = o / denominator; where weights are asked for, a second sweep over K writes them
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
    int64_t b, g, kv;   /* group of query heads, and its key/value head */
    int64_t row0, rows; /* first folded row, and how many */
    int64_t lo, hi;     /* union of the rows' intervals */
    int64_t dv16;       /* dv rounded up to NR */
    bool direct;        /* few rows: K and V are read in place (flash_f32_direct.h) */
};

struct tile {
    int64_t j0;             /* first key */
    int64_t lo, hi;         /* packed keys, relative to j0 */
    int64_t bad_lo, bad_hi; /* interval of the keys whose V is not finite; empty: lo >= hi */
};

/* Query head and query of a row of the block. */
static inline int64_t row_head(const struct attn_flash *job, const struct block *block, int64_t r)
{
    return block->g * job->group + (block->row0 + r) % job->group;
}

static inline int64_t row_query(const struct attn_flash *job, const struct block *block, int64_t r)
{
    return (block->row0 + r) / job->group;
}

/* What q is multiplied by when it is packed as it is. */
static inline float query_factor(const struct attn_flash *job)
{
    return job->score == ATTN_SCORE_GAUSSIAN ? 1.0f : job->factor;
}

/* What a score sums over the columns: q k, or (q - k)^2. */
enum pairing { DOT, DISTANCE };

FLASH_INLINE vf join(const enum pairing pairing, vf q, vf k, vf sum)
{
    vf apart = pairing == DOT ? q : vf_sub(q, k);
    return vf_fma(apart, pairing == DOT ? k : apart, sum);
}

/* o[r] = o[r] * rescale[r] + sum over keys j in [lo, hi) of p[r][j] v[j]. */
struct product {
    const float *p; /* [rows][LD] */
    const float *v; /* [width/NR][key_block][NR] */
    int64_t key_block, lo, hi;
    float *o;               /* [rows][width] */
    int64_t width, columns; /* dv rounded up to NR, and to a vector */
    const float *rescale;   /* [rows] */
};

#include "flash_f32_direct.h"
#include "flash_f32_pack.h"
#include "flash_f32_product.h"
#include "flash_f32_softmax.h"

#include "flash_f32_scores.h"

/* Fills the rows' intervals and their union. */
static void find_intervals(const struct attn_flash *job, const struct attn_flash_scratch *w,
                           struct block *block)
{
    block->lo = job->sk;
    block->hi = 0;
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t i = (block->row0 + r) / job->group;
        attn_mask_interval(job, block->b, i, &w->lo[r], &w->hi[r]);
        if (w->lo[r] < w->hi[r]) {
            block->lo = w->lo[r] < block->lo ? w->lo[r] : block->lo;
            block->hi = w->hi[r] > block->hi ? w->hi[r] : block->hi;
        }
    }
}

/* Rows start at maximum -inf and denominator 0; with a sink, as if it were a first key with v = 0.
 */
static void start_rows(const struct attn_flash *job, const struct attn_flash_scratch *w,
                       const struct block *block)
{
    memset(w->o, 0, (size_t)(block->rows * block->dv16) * sizeof *w->o);
    for (int64_t r = 0; r < block->rows; r++) {
        w->max[r] = -INFINITY;
        w->sum[r] = 0.0f;
        if (job->sink.data) {
            const float *sink = job->sink.data;
            w->max[r] = sink[row_head(job, block, r) * job->sink.stride[0]] * LOG2_E;
            if (w->max[r] != -INFINITY)
                w->sum[r] = isfinite(w->max[r]) ? 1.0f : NAN;
        }
    }
}

/* Sets the keys of the tile that a row may see; lo >= hi for none. */
static void clip_row(const struct attn_flash_scratch *w, const struct tile *tile, int64_t r,
                     struct row *row)
{
    int64_t first = w->lo[r] > tile->j0 + tile->lo ? w->lo[r] : tile->j0 + tile->lo;
    int64_t end = w->hi[r] < tile->j0 + tile->hi ? w->hi[r] : tile->j0 + tile->hi;
    if (first < end && row->job->mask.data)
        attn_mask_tighten(row->job, row->b, row->h, row->i, &first, &end);
    row->lo = first - tile->j0;
    row->hi = end - tile->j0;
}

/* Final scores of one tile for the `count` <= MR rows from r0 on, and the keys [*lo, *hi) that some
 * of them may see. False where there is none. */
static bool score_group(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block, const struct tile *tile, int64_t r0, int count,
                        struct row *rows, int64_t *lo, int64_t *hi)
{
    *lo = tile->hi;
    *hi = 0;
    for (int r = 0; r < count; r++) {
        rows[r] = (struct row){.job = job,
                               .b = block->b,
                               .h = row_head(job, block, r0 + r),
                               .i = row_query(job, block, r0 + r),
                               .j0 = tile->j0,
                               .s = w->s + r * LD};
        clip_row(w, tile, r0 + r, &rows[r]);
        if (rows[r].lo < rows[r].hi) {
            *lo = rows[r].lo < *lo ? rows[r].lo : *lo;
            *hi = rows[r].hi > *hi ? rows[r].hi : *hi;
        }
    }
    if (*lo >= *hi)
        return false;
    int64_t panel_lo = *lo / FLASH_NR, panel_hi = (*hi + FLASH_NR - 1) / FLASH_NR;
    for (int r = 0; r < count; r++) {
        rows[r].from = panel_lo * FLASH_NR;
        rows[r].to = panel_hi * FLASH_NR;
        if (rows[r].lo >= rows[r].hi)
            rows[r].lo = rows[r].hi = rows[r].from;
    }
    const float *q = w->q + r0 * job->dp;
    if (block->direct)
        direct_scores(job, w, block, tile, r0, count, *lo, *hi);
    else if (job->score == ATTN_SCORE_ADDITIVE)
        additive_scores(job, w, rows, r0, count, panel_lo, panel_hi);
    else if (job->score == ATTN_SCORE_GAUSSIAN)
        score_distance(count, q, w->k, job->dk, panel_lo, panel_hi, w->s);
    else
        score_product(count, q, w->k, job->dk, panel_lo, panel_hi, w->s);
    for (int r = 0; r < count; r++)
        finish_scores(&rows[r]);
    return true;
}

/* One tile of keys joins the outputs of the `count` rows from r0 on. */
static void attend_group(const struct attn_flash *job, const struct attn_flash_scratch *w,
                         const struct block *block, const struct tile *tile, int64_t r0, int count)
{
    struct row rows[FLASH_MR];
    float rescale[FLASH_MR];
    struct product product = {.p = w->s,
                              .v = w->v,
                              .key_block = job->key_block,
                              .o = w->o + r0 * block->dv16,
                              .width = block->dv16,
                              .columns = attn_round_up(job->dv, VF_LANES),
                              .rescale = rescale};
    if (!score_group(job, w, block, tile, r0, count, rows, &product.lo, &product.hi))
        return;
    bool careful = block->direct || (product.lo < tile->bad_hi && tile->bad_lo < product.hi);
    softmax_rows(rows, count, careful, w->max + r0, w->sum + r0, rescale);
    for (int r = 0; r < count && job->flags & ATTN_FLAG_DROPOUT; r++)
        attn_dropout_row(job, rows[r].b, rows[r].h, rows[r].i, rows[r].j0 + rows[r].lo,
                         rows[r].j0 + rows[r].hi, rows[r].s + rows[r].lo);
    if (block->direct)
        direct_values(job, block, tile, count, &product);
    else if (careful)
        value_product_careful(count, &product);
    else
        value_product(count, &product);
}

/* The weights of one tile, once maximum and denominator are final. */
static void weigh_group(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block, const struct tile *tile, int64_t r0, int count)
{
    struct row rows[FLASH_MR];
    int64_t lo, hi, step = job->weights.stride[3];
    if (!score_group(job, w, block, tile, r0, count, rows, &lo, &hi))
        return;
    for (int r = 0; r < count; r++) {
        const struct row *row = &rows[r];
        float *weights = (float *)job->weights.data +
                         attn_row_index(&job->weights, row->b, row->h, row->i) + row->j0 * step;
        normalise_row(row, w->max[r0 + r], w->sum[r0 + r]);
        for (int64_t j = row->lo; j < row->hi; j++)
            weights[j * step] = row->s[j];
    }
}

/* Divides by the denominator and writes out and lse. */
static void store_row(const struct attn_flash *job, const struct attn_flash_scratch *w,
                      const struct block *block, int64_t r)
{
    int64_t h = row_head(job, block, r), i = row_query(job, block, r);
    float *out = (float *)job->out.data + attn_row_index(&job->out, block->b, h, i);
    const float *o = w->o + r * block->dv16;
    float max = w->max[r], sum = w->sum[r];
    bool empty = sum == 0.0f;
    float by = empty ? 0.0f : 1.0f / sum;
    int64_t step = job->out.stride[3], c = 0;
    if (step == 1)
        for (; c + VF_LANES <= job->dv; c += VF_LANES)
            vf_storeu(out + c, vf_mul(vf_load(o + c), vf_set1(by)));
    for (; c < job->dv; c++)
        out[c * step] = o[c] * by;
    if (!job->lse.data)
        return;
    /* In double: the logarithm then errs by nothing that matters beside the sum. */
    double lse = empty ? -INFINITY : ((double)max + log2((double)sum)) * 0.69314718055994531;
    if (job->sink.data && sum == 1.0f) {
        float sink = ((const float *)job->sink.data)[h * job->sink.stride[0]];
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
        if (!block->direct)
            pack_k(job, w, block, &tile);
        if (job->score == ATTN_SCORE_ADDITIVE)
            project_keys(job, w, &tile);
        if (!block->direct && sweep == ATTEND)
            pack_v(job, w, block, &tile);
        for (int64_t r0 = 0; r0 < block->rows; r0 += FLASH_MR) {
            int count = (int)(block->rows - r0 < FLASH_MR ? block->rows - r0 : FLASH_MR);
            if (sweep == ATTEND)
                attend_group(job, w, block, &tile, r0, count);
            else
                weigh_group(job, w, block, &tile, r0, count);
        }
    }
}

/* Weights are never held: a second sweep computes them again, into zeros. */
static void store_weights(const struct attn_flash *job, const struct attn_flash_scratch *w,
                          const struct block *block)
{
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t h = row_head(job, block, r), i = row_query(job, block, r);
        float *weights = (float *)job->weights.data + attn_row_index(&job->weights, block->b, h, i);
        for (int64_t j = 0; j < job->sk; j++)
            weights[j * job->weights.stride[3]] = 0.0f;
    }
    sweep_tiles(job, w, block, WEIGH);
}

static void run_item(const struct attn_flash *job, const struct attn_flash_scratch *w, int64_t item)
{
    int64_t head = item / job->items_per_head, total = job->sq * job->group;
    struct block block = {.b = head / job->groups,
                          .g = head % job->groups,
                          .kv = head % job->groups / job->share,
                          .row0 = item % job->items_per_head * job->item_rows,
                          .dv16 = attn_round_up(job->dv, FLASH_NR),
                          .direct = use_direct(job)};
    int64_t left = total - block.row0;
    block.rows = left < job->item_rows ? left : job->item_rows;
    find_intervals(job, w, &block);
    start_rows(job, w, &block);
    if (projects_queries(job)) {
        pack_params(job, w, &block);
        project_queries(job, w, &block);
    } else if (block.direct)
        direct_queries(job, w, &block);
    else
        pack_q(job, w, &block);
    sweep_tiles(job, w, &block, ATTEND);
    for (int64_t r = 0; r < block.rows; r++)
        store_row(job, w, &block, r);
    if (job->weights.data)
        store_weights(job, w, &block);
}
