/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_keys.c - mistakes about which keys are read: offsets, masks, lengths, tails. */
#include <math.h>
#include <string.h>

#include "explain/mistakes.h"
#include "reference/dtype.h"
#include "reference/reference.h"

/* Writes the offset as a number, so that lengths may change without it. */
static bool fix_offset(struct attn_mutation *m)
{
    struct attn_problem *p = &m->problem;
    const struct attn_tensor *len = attn_mutated(m, ATTN_LEN);
    if (!(p->flags & ATTN_FLAG_OFF_BR))
        return true;
    if (len && p->b > 1)
        return false;
    p->off = (len ? (int64_t)attn_dtype_load(len->dtype, len->data, 0) : p->sk) - p->sq;
    p->flags &= ~(uint64_t)ATTN_FLAG_OFF_BR;
    return true;
}

static bool uses_offset(struct attn_mutation *m)
{
    return (m->problem.flags & (ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW)) ||
           attn_mutated(m, ATTN_ALIBI);
}

static const char *alignment(bool br)
{
    return br ? "causal_br" : "causal";
}

static bool other_alignment(struct attn_mutation *m, double unused)
{
    (void)unused;
    const struct attn_tensor *len = attn_mutated(m, ATTN_LEN);
    if (!uses_offset(m) || (len && len->rank == 2))
        return false;
    const bool br = m->problem.flags & ATTN_FLAG_OFF_BR;
    char offsets[80] = "";
    if (!len)
        snprintf(offsets, sizeof offsets, " (offset %lld instead of %lld)",
                 (long long)(br ? 0 : m->problem.sk - m->problem.sq),
                 (long long)(br ? m->problem.sk - m->problem.sq : m->problem.off));
    m->problem.flags ^= ATTN_FLAG_OFF_BR;
    m->problem.off = 0;
    if (m->problem.flags & ATTN_FLAG_CAUSAL)
        ATTN_SAY(m, "mask %s instead of %s%s", alignment(!br), alignment(br), offsets);
    else
        ATTN_SAY(m, "the window aligned %s",
                 br ? "top-left instead of bottom-right" : "bottom-right");
    return true;
}

static bool shift(struct attn_mutation *m, double by)
{
    if (!uses_offset(m) || !fix_offset(m))
        return false;
    ATTN_SAY(m, "the mask shifted by one: offset %lld instead of %lld",
             (long long)(m->problem.off + (int64_t)by), (long long)m->problem.off);
    m->problem.off += (int64_t)by;
    return true;
}

static bool causal_added(struct attn_mutation *m, double br)
{
    if (m->problem.flags & ATTN_FLAG_CAUSAL)
        return false;
    m->problem.flags |= ATTN_FLAG_CAUSAL;
    const struct attn_tensor *len = attn_mutated(m, ATTN_LEN);
    if (br != 0) {
        if (uses_offset(m) && m->problem.flags & ATTN_FLAG_WINDOW)
            return false;
        m->problem.flags |= ATTN_FLAG_OFF_BR;
    }
    ATTN_SAY(m, "mask %s, which was not asked for", alignment(br != 0));
    return !(br != 0 && len && len->rank == 2);
}

static bool window_side(struct attn_mutation *m, double kind)
{
    struct attn_problem *p = &m->problem;
    const int64_t left = p->window_left, right = p->window_right;
    int64_t *side = (int)kind / 2 ? &p->window_right : &p->window_left;
    if (!(p->flags & ATTN_FLAG_WINDOW) || *side < 0)
        return false;
    *side += (int)kind % 2 ? 1 : -1;
    ATTN_SAY(m, "window:%lld:%lld instead of window:%lld:%lld", (long long)p->window_left,
             (long long)p->window_right, (long long)left, (long long)right);
    return *side >= 0;
}

static bool side_left_out(struct attn_mutation *m, double right)
{
    struct attn_problem *p = &m->problem;
    int64_t *side = right != 0 ? &p->window_right : &p->window_left;
    const bool limits = (p->flags & ATTN_FLAG_WINDOW) && *side >= 0;
    *side = -1;
    ATTN_SAY(m, "the window without its %s side", right != 0 ? "right" : "left");
    return limits;
}

static bool window_swapped(struct attn_mutation *m, double unused)
{
    (void)unused;
    struct attn_problem *p = &m->problem;
    const int64_t left = p->window_left;
    p->window_left = p->window_right;
    p->window_right = left;
    ATTN_SAY(m, "left and right of the window swapped");
    return (p->flags & ATTN_FLAG_WINDOW) && p->window_left != left;
}

static bool lengths(struct attn_mutation *m, double plus)
{
    ATTN_SAY(m, "each len %s by one", plus > 0 ? "larger" : "smaller");
    return attn_mutated(m, ATTN_LEN) &&
           attn_mutated_remake(m, ATTN_LEN, 1, plus, (double)m->problem.sk);
}

static bool mask_inverted(struct attn_mutation *m, double unused)
{
    (void)unused;
    ATTN_SAY(m, "the boolean mask inverted");
    return attn_mutated_remake(m, ATTN_MASK, -1, 1, 1);
}

static bool no_global_projections(struct attn_mutation *m, double unused)
{
    (void)unused;
    const bool there = attn_mutated_drop(m, ATTN_Q_GLOBAL) && attn_mutated_drop(m, ATTN_K_GLOBAL) &&
                       attn_mutated_drop(m, ATTN_V_GLOBAL);
    ATTN_SAY(m, "q, k and v of global rows instead of q_global, k_global and v_global");
    return there;
}

/* -1 (no limit) of the window taken as a distance. */
static bool window_literal(struct attn_mutation *m, double unused)
{
    (void)unused;
    struct attn_problem *p = &m->problem;
    const bool left = p->window_left == -1, right = p->window_right == -1;
    ATTN_SAY(m, "-1 of the window (no limit) taken as a distance");
    if (!(p->flags & ATTN_FLAG_WINDOW) || left == right || p->flags & ATTN_FLAG_CAUSAL ||
        attn_mutated(m, ATTN_ALIBI) || attn_mutated(m, ATTN_SCORE_KR) || !fix_offset(m))
        return false;
    /* The same keys, with an offset that keeps both distances from being -1. */
    p->off += left ? 1 : -1;
    p->window_left += left ? 1 : -1;
    p->window_right += left ? -1 : 1;
    return p->window_left >= 0 && p->window_right >= 0;
}

/* ---- masks that are made ---- */

struct cell {
    int64_t b, h, i, j;
};

static uint8_t byte_at(const struct attn_tensor *t, const struct cell *at)
{
    return ((const uint8_t *)t->data)[at->b * t->stride[0] + at->h * t->stride[1] +
                                      at->i * t->stride[2] + at->j * t->stride[3]];
}

/* Is a mask of every cell small enough to be made? Like other copies it has a limit: the same
 * mistake shows at a smaller size. */
static bool fits_mask(const struct attn_problem *p)
{
    return (double)p->b * (double)p->hq * (double)p->sq * (double)p->sk <= 0x1p22;
}

/* Replaces the boolean mask, or makes one: of the cells that were allowed, those that `seen` picks.
 */
static bool remask(struct attn_mutation *m,
                   bool (*seen)(const struct attn_mutation *m, const struct cell *at,
                                const double *arguments),
                   const double *arguments)
{
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *old = attn_mutated(m, ATTN_MASK);
    uint8_t *data = fits_mask(p) ? attn_mutated_room(m, p->b * p->hq * p->sq * p->sk, 1) : NULL;
    int64_t n = 0;
    struct cell c;
    if (!data)
        return false;
    for (c.b = 0; c.b < p->b; c.b++)
        for (c.h = 0; c.h < p->hq; c.h++)
            for (c.i = 0; c.i < p->sq; c.i++)
                for (c.j = 0; c.j < p->sk; c.j++, n++)
                    data[n] = (!old || byte_at(old, &c)) && seen(m, &c, arguments);
    attn_mutated_drop(m, ATTN_MASK);
    attn_mutated_add(
        m, &(struct attn_tensor){.role = ATTN_MASK,
                                 .dtype = ATTN_BOOL,
                                 .rank = 4,
                                 .shape = {p->b, p->hq, p->sq, p->sk},
                                 .stride = {p->hq * p->sq * p->sk, p->sq * p->sk, p->sk, 1},
                                 .data = data});
    return true;
}

static bool byte_counts(const struct attn_mutation *m, const struct cell *at, const double *low_bit)
{
    const uint8_t byte = byte_at(attn_tensor_find(&m->problem, ATTN_MASK), at);
    return *low_bit != 0 ? byte & 1 : byte == 1;
}

static bool mask_of_bytes(struct attn_mutation *m, double low_bit)
{
    ATTN_SAY(m, "%s",
             low_bit != 0 ? "only the low bit of each byte of the mask"
                          : "bytes of the mask other than 1 taken as false");
    return attn_mutated(m, ATTN_MASK) && remask(m, byte_counts, &low_bit);
}

static bool within_length(const struct attn_mutation *m, const struct cell *at,
                          const double *lengths)
{
    (void)m;
    return (double)at->i < lengths[at->b];
}

static bool len_on_queries(struct attn_mutation *m, double unused)
{
    (void)unused;
    struct attn_tensor *len = attn_mutated(m, ATTN_LEN);
    if (!len || len->rank != 1 || !fix_offset(m))
        return false;
    double *lengths = attn_mutated_room(m, m->problem.b, sizeof *lengths);
    for (int64_t b = 0; lengths && b < m->problem.b; b++)
        lengths[b] = attn_dtype_load(len->dtype, len->data, b * len->stride[0]);
    ATTN_SAY(m, "len applied to queries instead of keys");
    return lengths && attn_mutated_drop(m, ATTN_LEN) && remask(m, within_length, lengths);
}

static bool not_lost(const struct attn_mutation *m, const struct cell *at, const double *range)
{
    (void)m;
    return (double)at->j < range[0] || (double)at->j >= range[1];
}

bool attn_mistake_lose(const struct attn_problem *problem, int64_t begin, int64_t end,
                       struct attn_mutation *m)
{
    attn_mutation_begin(m, problem);
    if (end - begin == 1)
        ATTN_SAY(m, "key %lld lost", (long long)begin);
    else if (end == problem->sk)
        ATTN_SAY(m, "keys from %lld on lost", (long long)begin);
    else
        ATTN_SAY(m, "keys from %lld to %lld lost", (long long)begin, (long long)end - 1);
    if (remask(m, not_lost, (const double[]){(double)begin, (double)end}))
        return true;
    attn_mutation_free(m);
    return false;
}

static bool all_finite(const struct attn_tensor *t, int64_t b, int64_t g, int64_t j)
{
    bool finite = true;
    for (int64_t c = 0; t && c < t->shape[3] && finite; c++)
        finite = isfinite(attn_dtype_load(t->dtype, t->data,
                                          b * t->stride[0] + g * t->stride[1] + j * t->stride[2] +
                                              c * t->stride[3]));
    return finite;
}

static bool is_finite_key(const struct attn_mutation *m, const struct cell *at,
                          const double *unused)
{
    (void)unused;
    const int64_t g = at->h / (m->problem.hq / m->problem.hkv);
    bool finite = true;
    for (uint32_t n = 0; n < m->problem.n_tensors; n++)
        if (m->tensors[n].role == ATTN_K || m->tensors[n].role == ATTN_V)
            finite = finite && all_finite(&m->tensors[n], at->b, g, at->j);
    return finite;
}

/* Applies only if there are such keys. */
static bool nan_swallowed(struct attn_mutation *m, double unused)
{
    (void)unused;
    const struct attn_problem *p = &m->problem;
    bool finite = true;
    if (!ref_op_is(p->op, REF_QKV) || !fits_mask(p))
        return false;
    for (int64_t row = 0; row < p->b * p->hkv * p->sk; row++)
        finite = finite && is_finite_key(m,
                                         &(struct cell){.b = row / p->sk / p->hkv,
                                                        .h = row / p->sk % p->hkv * p->hq / p->hkv,
                                                        .j = row % p->sk},
                                         NULL);
    ATTN_SAY(m, "keys that hold NaN or Inf left out");
    return !finite && remask(m, is_finite_key, NULL);
}

/* ---- keys ---- */

/* Only the first n keys take part. */
static bool limit(struct attn_mutation *m, int64_t n)
{
    struct attn_problem *p = &m->problem;
    if (n < 1 || n >= p->sk || !fix_offset(m))
        return false;
    if (attn_mutated(m, ATTN_LEN))
        return attn_mutated_remake(m, ATTN_LEN, 1, 0, (double)n);
    int32_t *data = attn_mutated_room(m, p->b, sizeof *data);
    if (!data)
        return false;
    for (int64_t b = 0; b < p->b; b++)
        data[b] = (int32_t)n;
    attn_mutated_add(m, &(struct attn_tensor){.role = ATTN_LEN,
                                              .dtype = ATTN_I32,
                                              .rank = 1,
                                              .shape = {p->b},
                                              .stride = {1},
                                              .data = data});
    return true;
}

static bool keys_lost(struct attn_mutation *m, int64_t n)
{
    ATTN_SAY(m, "keys from %lld on lost", (long long)n);
    return limit(m, n);
}

static bool last_lost(struct attn_mutation *m, double unused)
{
    (void)unused;
    return keys_lost(m, m->problem.sk - 1);
}

/* Does the partial tile at the end differ from that of a tile of half the size? */
static bool is_new(const struct attn_mutation *m, int64_t tile)
{
    return tile == 4 || m->problem.sk % tile >= tile / 2;
}

static bool tail_lost(struct attn_mutation *m, double tile)
{
    const int64_t n = m->problem.sk - m->problem.sk % (int64_t)tile;
    return n > 0 && is_new(m, (int64_t)tile) && keys_lost(m, n);
}

/* Keys of zeros up to the next multiple weigh exp(score) each. Together they act like a sink of
 * log(their number) + score. */
static bool counted(struct attn_mutation *m, double tile, double score)
{
    struct attn_problem *p = &m->problem;
    const int64_t pad = ((int64_t)tile - p->sk % (int64_t)tile) % (int64_t)tile;
    float *data = attn_mutated_room(m, p->hq, sizeof *data);
    if (pad == 0 || attn_mutated(m, ATTN_SINK) || p->dtype == ATTN_F64 || !data)
        return false;
    for (int64_t h = 0; h < p->hq; h++)
        data[h] = (float)(log((double)pad) + score);
    attn_mutated_add(m, &(struct attn_tensor){.role = ATTN_SINK,
                                              .dtype = ATTN_F32,
                                              .rank = 1,
                                              .shape = {p->hq},
                                              .stride = {1},
                                              .data = data});
    ATTN_SAY(m, "%lld keys of padding (to a multiple of %.0f) counted with a score of %g",
             (long long)pad, tile, score);
    return true;
}

static bool tail_counted(struct attn_mutation *m, double tile)
{
    return counted(m, tile, 0);
}

/* A softcap turns the -Inf of a mask into a finite score. */
static bool tail_capped(struct attn_mutation *m, double tile)
{
    return (m->problem.flags & ATTN_FLAG_SOFTCAP) && counted(m, tile, -m->problem.softcap);
}

static void from_tile_before(const struct attn_mutation *m, double tile, int64_t at[ATTN_MAX_RANK])
{
    if (at[2] >= m->problem.sk)
        at[2] -= (int64_t)tile;
}

/* Behind the last key its tile still holds keys of the tile before. */
static bool tail_stale(struct attn_mutation *m, double tile)
{
    struct attn_problem *p = &m->problem;
    const int64_t pad = ((int64_t)tile - p->sk % (int64_t)tile) % (int64_t)tile;
    const int64_t keys[4] = {p->b, p->hkv, p->sk + pad, p->dk};
    const int64_t values[4] = {p->b, p->hkv, p->sk + pad, p->dv};
    if (!ref_op_is(p->op, REF_QKV) || pad == 0 || p->sk < (int64_t)tile || uses_offset(m) ||
        attn_mutated(m, ATTN_GLOBAL) || attn_mutated(m, ATTN_MASK) || attn_mutated(m, ATTN_BIAS) ||
        attn_mutated(m, ATTN_LEN) || attn_mutated(m, ATTN_REL_POS) ||
        p->flags & ATTN_FLAG_DROPOUT || attn_mutated(m, ATTN_WEIGHTS) ||
        !attn_mutated_gather(m, ATTN_K, keys, from_tile_before, tile) ||
        !attn_mutated_gather(m, ATTN_V, values, from_tile_before, tile))
        return false;
    ATTN_SAY(m, "stale keys: the last tile of %.0f filled up with %lld of the tile before", tile,
             (long long)pad);
    p->sk += pad;
    return true;
}

const struct attn_mistake attn_mistakes_keys[] = {
    {other_alignment, 1, {0}},
    {shift, 2, {1, -1}},
    {attn_mistake_without_flag, 2, {0, 1}},
    {window_swapped, 1, {0}},
    {window_side, 4, {0, 1, 2, 3}},
    {side_left_out, 2, {1, 0}},
    {window_literal, 1, {0}},
    {lengths, 2, {1, -1}},
    {len_on_queries, 1, {0}},
    {mask_inverted, 1, {0}},
    {mask_of_bytes, 2, {0, 1}},
    {attn_mistake_without, 4, {ATTN_LEN, ATTN_MASK, ATTN_GLOBAL, ATTN_DILATION}},
    {no_global_projections, 1, {0}},
    {causal_added, 2, {0, 1}},
    {nan_swallowed, 1, {0}},
    {last_lost, 1, {0}},
    {tail_lost, 6, {4, 8, 16, 32, 64, 128}},
    {tail_counted, 6, {4, 8, 16, 32, 64, 128}},
    {tail_capped, 6, {4, 8, 16, 32, 64, 128}},
    {tail_stale, 6, {4, 8, 16, 32, 64, 128}},
    {NULL, 0, {0}},
};
