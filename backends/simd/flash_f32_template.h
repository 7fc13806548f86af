/* SPDX-License-Identifier: Apache-2.0 */
/* flash_f32_template.h - flash attention in f32 over a vector type, included once by each instance.
 *
 * An instance defines, before it includes this file (flash_f32_avx2.c is the model):
 *   FLASH_MR          rows of a micro-kernel: 6
 *   FLASH_NV          vectors of a micro-kernel's row, 2 or 4; MR*NV accumulators must stay in
 *                     registers
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
 *   vf_times_power    y * 2^n, of which the low bits of the lanes of `n` hold n, for y of [1/2, 2);
 *                     0 where x < -126, NaN where x is NaN
 *   vf_all_equal      true when every lane compares equal
 *   vf_sum vf_largest horizontal
 *   vf_transpose      a VF_LANES x VF_LANES block, times a factor; `to` aligned, `from` to the
 *                     element
 * and afterwards its struct attn_flash_isa, from FLASH_MR, FLASH_NR and run_item.
 *
 * The algorithm, for one item (consecutive folded rows of one key/value head):
 *   for each tile of key_block keys that some row may see:
 *     pack K as [keys/NR][dk][NR] and, unless its rows will do, V as [dv/NR][keys][NR]
 *     for each group of MR rows that may see some of the tile:
 *       s = q k^T over the vectors of keys that the group may see, maximum   (micro-kernel)
 *         gaussian: s = |q - k|^2 in its place; bilinear and additive: flash_f32_scores.h
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
    int64_t b, g, kv;   /* group of query heads, and its key/value head */
    int64_t row0, rows; /* first folded row, and how many */
    int64_t lo, hi;     /* union of the rows' intervals */
    int64_t width;      /* of a row of w->o: dv rounded up to a vector */
    bool direct;        /* few rows: K and V are read in place (flash_f32_direct.h) */
};

struct tile {
    int64_t j0;             /* first key */
    int64_t lo, hi;         /* packed keys, relative to j0 */
    int64_t bad_lo, bad_hi; /* interval of the keys whose V is not finite; empty: lo >= hi */
    const float *v;         /* of key j0: in place, or packed */
    int64_t v_key, v_panel; /* floats between keys, and between panels of NR columns */
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

/* What q is multiplied by where K is read in place. */
static inline float query_factor(const struct attn_flash *job)
{
    return job->score == ATTN_SCORE_GAUSSIAN ? 1.0f : job->factor;
}

/* How far the output of a group of rows has come: w->o holds nothing, sums, or is done with. */
enum stage { FRESH, BEGUN, STORED };

/* What a score sums over the columns: q k, or (q - k)^2. */
enum pairing { DOT, DISTANCE };

FLASH_INLINE vf join(const enum pairing pairing, vf q, vf k, vf sum)
{
    vf apart = pairing == DOT ? q : vf_sub(q, k);
    return vf_fma(apart, pairing == DOT ? k : apart, sum);
}

/* to[r] = by[r] * (o[r] * rescale[r] + sum over keys j in [lo, hi) of p[r][j] v[j]). */
struct product {
    const float *p; /* [rows][LD] */
    const float *v; /* key j, column c: at c / NR * v_panel + c % NR + j * v_key */
    int64_t v_key, v_panel, lo, hi;
    float *o;             /* [rows][width] */
    int64_t width;        /* dv rounded up to a vector */
    bool fresh;           /* o holds nothing yet and counts as 0 */
    const float *rescale; /* [rows] */
    float *to[FLASH_MR];  /* rows of o, or of out where it takes whole vectors */
    float by[FLASH_MR];
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
    memset(w->stage, FRESH, (size_t)(block->rows + FLASH_MR - 1) / FLASH_MR);
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
    if (block->direct) {
        memset(w->o, 0, (size_t)(block->rows * block->width) * sizeof *w->o);
        memset(w->stage, BEGUN, (size_t)(block->rows + FLASH_MR - 1) / FLASH_MR);
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

/* Whether scores become final by nothing but -inf in what lies outside the rows' intervals. */
static bool scores_are_plain(const struct attn_flash *job)
{
    return job->score != ATTN_SCORE_GAUSSIAN && job->score != ATTN_SCORE_ADDITIVE &&
           !(job->flags & ATTN_FLAG_SOFTCAP) && !job->bias.data && !job->alibi.data &&
           !job->mask.data;
}

/* The rows of a group and the keys that each may see of a tile. Returns false where there is
 * none. */
static bool start_group(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block, const struct tile *tile, int64_t r0, int count,
                        struct group *group)
{
    int64_t first = block->row0 + r0, i = first / job->group, h = first % job->group;
    int64_t common_lo = 0, common_hi = tile->hi;
    group->lo = tile->hi;
    group->hi = 0;
    for (int r = 0; r < count; r++) {
        struct row *row = &group->rows[r];
        row->job = job;
        row->b = block->b;
        row->h = block->g * job->group + h;
        row->i = i;
        row->j0 = tile->j0;
        row->s = w->s + r * LD;
        clip_row(w, tile, r0 + r, row);
        if (row->lo < row->hi) {
            group->lo = row->lo < group->lo ? row->lo : group->lo;
            group->hi = row->hi > group->hi ? row->hi : group->hi;
        } else
            row->lo = row->hi = 0;
        common_lo = row->lo > common_lo ? row->lo : common_lo;
        common_hi = row->hi < common_hi ? row->hi : common_hi;
        if (++h == job->group) {
            h = 0;
            i++;
        }
    }
    bool plain = !block->direct && scores_are_plain(job);
    group->clean_lo = attn_round_up(common_lo, VF_LANES);
    group->clean_hi = plain ? common_hi / VF_LANES * VF_LANES : group->clean_lo;
    return group->lo < group->hi;
}

/* Final scores of one tile for the `count` <= MR rows from r0 on. False where no row may see any of
 * its keys. */
static bool score_group(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block, const struct tile *tile, int64_t r0, int count,
                        struct group *group)
{
    if (!start_group(job, w, block, tile, r0, count, group))
        return false;
    struct span span = {.k = w->k,
                        .dk = job->dk,
                        .from = group->lo / VF_LANES * VF_LANES,
                        .to = attn_round_up(group->hi, VF_LANES),
                        .s = w->s,
                        .top = group->top,
                        .clean_lo = group->clean_lo,
                        .clean_hi = group->clean_hi};
    for (int r = 0; r < count; r++) {
        struct row *row = &group->rows[r];
        row->from = span.from;
        row->to = span.to;
        if (row->lo >= row->hi)
            row->lo = row->hi = row->from;
        vf_store(group->top + r * VF_LANES, vf_set1(w->max[r0 + r]));
        span.q[r] = w->q + (r0 + r) * query_stride(job->dp);
    }
    if (!block->direct && queries_in_place(job))
        raw_queries(job, block, r0, count, NULL, span.q);
    if (block->direct)
        direct_scores(job, w, block, tile, r0, count, group->lo, group->hi);
    else if (job->score == ATTN_SCORE_ADDITIVE)
        additive_scores(job, w, &span, count);
    else if (job->score == ATTN_SCORE_GAUSSIAN)
        score_distance(count, &span);
    else
        score_product(count, &span);
    for (int r = 0; r < count; r++)
        finish_scores(&group->rows[r]);
    return true;
}

/* Whether the sums of this tile are a group's last, and out takes them as they are stored. */
static bool ends_group(const struct attn_flash *job, const struct attn_flash_scratch *w,
                       const struct tile *tile, int64_t r0, int count)
{
    if (job->mask.data || job->out.stride[3] != 1 || job->dv % VF_LANES)
        return false;
    for (int r = 0; r < count; r++)
        if (w->hi[r0 + r] > tile->j0 + tile->hi)
            return false;
    return true;
}

/* Where the sums of a group go, and times what. */
static void aim_product(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block, const struct group *group, bool last,
                        int64_t r0, int count, struct product *product)
{
    for (int r = 0; r < count; r++) {
        const struct row *row = &group->rows[r];
        product->to[r] = product->o + r * block->width;
        product->by[r] = 1.0f;
        if (last) {
            product->to[r] =
                (float *)job->out.data + attn_row_index(&job->out, row->b, row->h, row->i);
            product->by[r] = w->sum[r0 + r] == 0.0f ? 0.0f : 1.0f / w->sum[r0 + r];
        }
    }
}

/* One tile of keys joins the outputs of the `count` rows from r0 on. */
static void attend_group(const struct attn_flash *job, const struct attn_flash_scratch *w,
                         const struct block *block, const struct tile *tile, int64_t r0, int count)
{
    struct group group;
    if (!score_group(job, w, block, tile, r0, count, &group))
        return;
    unsigned char *stage = &w->stage[r0 / FLASH_MR];
    float rescale[FLASH_MR];
    struct product product = {.p = w->s,
                              .v = tile->v,
                              .v_key = tile->v_key,
                              .v_panel = tile->v_panel,
                              .lo = group.lo,
                              .hi = group.hi,
                              .o = w->o + r0 * block->width,
                              .width = block->width,
                              .fresh = *stage == FRESH,
                              .rescale = rescale};
    bool careful = block->direct || (group.lo < tile->bad_hi && tile->bad_lo < group.hi);
    softmax_rows(&group, count, careful, w->max + r0, w->sum + r0, rescale);
    for (int r = 0; r < count && job->flags & ATTN_FLAG_DROPOUT; r++) {
        const struct row *row = &group.rows[r];
        attn_dropout_row(job, row->b, row->h, row->i, row->j0 + row->lo, row->j0 + row->hi,
                         row->s + row->lo);
    }
    bool last = !block->direct && ends_group(job, w, tile, r0, count);
    aim_product(job, w, block, &group, last, r0, count, &product);
    if (block->direct)
        direct_values(job, block, tile, count, &product);
    else if (careful)
        value_product_careful(count, &product);
    else
        value_product(count, &product);
    *stage = last ? STORED : BEGUN;
}

/* The weights of one tile, once maximum and denominator are final. */
static void weigh_group(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block, const struct tile *tile, int64_t r0, int count)
{
    struct group group;
    int64_t step = job->weights.stride[3];
    if (!score_group(job, w, block, tile, r0, count, &group))
        return;
    for (int r = 0; r < count; r++) {
        const struct row *row = &group.rows[r];
        float *weights = (float *)job->weights.data +
                         attn_row_index(&job->weights, row->b, row->h, row->i) + row->j0 * step;
        normalise_row(row, w->max[r0 + r], w->sum[r0 + r]);
        for (int64_t j = row->lo; j < row->hi; j++)
            weights[j * step] = row->s[j];
    }
}

/* Divides by the denominator and writes out, unless the last tile did. */
static void store_row(const struct attn_flash *job, const struct attn_flash_scratch *w,
                      const struct block *block, int64_t r)
{
    unsigned char stage = w->stage[r / FLASH_MR];
    if (stage == STORED)
        return;
    float *out = (float *)job->out.data + attn_row_index(&job->out, block->b,
                                                         row_head(job, block, r),
                                                         row_query(job, block, r));
    const float *o = w->o + r * block->width;
    int64_t step = job->out.stride[3];
    float by = w->sum[r] == 0.0f ? 0.0f : 1.0f / w->sum[r];
    for (int64_t c = 0; c < job->dv; c++)
        out[c * step] = (stage == FRESH ? 0.0f : o[c]) * by;
}

static void store_lse(const struct attn_flash *job, const struct attn_flash_scratch *w,
                      const struct block *block, int64_t r)
{
    int64_t h = row_head(job, block, r), i = row_query(job, block, r);
    float max = w->max[r], sum = w->sum[r];
    /* In double: the logarithm then errs by nothing that matters beside the sum. */
    double lse =
        sum == 0.0f ? -INFINITY : ((double)max + log2((double)sum)) * 0.69314718055994531;
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
                          .width = attn_round_up(job->dv, VF_LANES),
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
    else if (!queries_in_place(job))
        copy_queries(job, w, &block);
    sweep_tiles(job, w, &block, ATTEND);
    for (int64_t r = 0; r < block.rows; r++)
        store_row(job, w, &block, r);
    for (int64_t r = 0; r < block.rows && job->lse.data; r++)
        store_lse(job, w, &block, r);
    if (job->weights.data)
        store_weights(job, w, &block);
}
