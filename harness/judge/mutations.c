/* SPDX-License-Identifier: Apache-2.0 */
/* mutations.c - the table of mistakes, the likelier first: of two that explain an output equally
 * well, the first is named. */
#include "judge/mutations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"

static const double ln2 = 0.69314718055994530942;
/* Copies larger than this are not made: the same mistake shows at a smaller size. */
static const double copy_most = 0x1p25;

#define SAY(m, ...) snprintf((m)->what, sizeof(m)->what, __VA_ARGS__)

static struct attn_tensor *find(struct attn_mutation *m, uint32_t role)
{
    for (uint32_t t = 0; t < m->problem.n_tensors; t++)
        if (m->tensors[t].role == role)
            return &m->tensors[t];
    return NULL;
}

static bool drop(struct attn_mutation *m, uint32_t role)
{
    struct attn_tensor *t = find(m, role);
    if (t)
        *t = m->tensors[--m->problem.n_tensors];
    return t != NULL;
}

/* Memory for a copy of `count` elements of `size` bytes, freed with the mutation. */
static void *room(struct attn_mutation *m, int64_t count, size_t size)
{
    if (m->n_copies == ATTN_MUTATION_COPIES || (double)count * (double)size > copy_most)
        return NULL;
    void *memory = calloc((size_t)count + 1, size);
    if (memory)
        m->copies[m->n_copies++] = memory;
    return memory;
}

/* Replaces a tensor by factor * itself + plus, within [least, most]. Bias, slopes and sink become
 * f32 at least, so that no rounding hides the match. */
static bool remake(struct attn_mutation *m, uint32_t role, double factor, double plus, double most)
{
    struct attn_tensor *t = find(m, role);
    if (!t)
        return false;
    struct attn_tensor from = *t;
    int64_t count = 1;
    for (uint32_t a = t->rank; a-- > 0;) {
        const bool one = from.stride[a] == 0;
        t->stride[a] = one ? 0 : count;
        count *= one ? 1 : from.shape[a];
    }
    if (from.dtype == ATTN_F16 || from.dtype == ATTN_BF16)
        t->dtype = ATTN_F32;
    t->data = room(m, count, attn_dtype_size(t->dtype));
    for (int64_t n = 0; t->data && n < count; n++) {
        int64_t at = 0, rest = n;
        for (uint32_t a = t->rank; a-- > 0;)
            if (from.stride[a] != 0) {
                at += rest % from.shape[a] * from.stride[a];
                rest /= from.shape[a];
            }
        const double value = factor * attn_dtype_load(from.dtype, from.data, at) + plus;
        const bool bounded = role == ATTN_LEN;
        attn_dtype_store(t->dtype, t->data, n, bounded ? fmax(0, fmin(value, most)) : value);
    }
    return t->data != NULL;
}

/* Puts the offset in figures, so that lengths may change without it. */
static bool fix_offset(struct attn_mutation *m)
{
    struct attn_problem *p = &m->problem;
    const struct attn_tensor *len = find(m, ATTN_LEN);
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
    return (m->problem.flags & (ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW)) || find(m, ATTN_ALIBI);
}

/* ---- scale ---- */

static double padded(int64_t d, int64_t to)
{
    const int64_t tiles = (d + to - 1) / to;
    return (double)(tiles * to);
}

static bool scale_by(struct attn_mutation *m, double factor)
{
    const double old = m->problem.scale;
    m->problem.scale *= factor;
    SAY(m, "scale %.6g instead of %.6g (times %.6g)", m->problem.scale, old, factor);
    return old != 0;
}

static bool scale_to(struct attn_mutation *m, double kind)
{
    const struct attn_problem *p = &m->problem;
    const double old = p->scale;
    const struct {
        double value;
        const char *name;
    } scales[] = {{1, "none"},
                  {1 / (double)p->dk, "1/d"},
                  {1 / sqrt((double)p->dv), "from dv"},
                  {old * old, "twice"},
                  {1 / sqrt(padded(p->dk, 8)), "from d padded to 8"},
                  {1 / sqrt(padded(p->dk, 16)), "from d padded to 16"},
                  {1 / sqrt(padded(p->dk, 32)), "from d padded to 32"},
                  {1 / sqrt(padded(p->dk, 64)), "from d padded to 64"},
                  {1 / sqrt((double)(p->hq * p->dk)), "from the model width"}};
    const double value = scales[(int)kind].value;
    SAY(m, "scale %.6g instead of %.6g (%s)", value, old, scales[(int)kind].name);
    m->problem.scale = value;
    return value != old;
}

static bool base_two(struct attn_mutation *m, double factor)
{
    if (m->problem.flags & ATTN_FLAG_SOFTCAP)
        return false; /* the cap would have to follow; without the extras it is a scale */
    m->problem.scale *= factor;
    const uint32_t extras[] = {ATTN_BIAS, ATTN_ALIBI, ATTN_SINK};
    for (size_t e = 0; e < sizeof extras / sizeof *extras; e++)
        if (find(m, extras[e]) && !remake(m, extras[e], factor, 0, 0))
            return false;
    SAY(m, "exp in another base: all logits times %.6g (%s)", factor,
        factor < 1 ? "ln 2" : "1/ln 2");
    return true;
}

/* ---- masks ---- */

static const char *alignment(bool br)
{
    return br ? "causal_br" : "causal";
}

static bool other_alignment(struct attn_mutation *m, double unused)
{
    (void)unused;
    const struct attn_tensor *len = find(m, ATTN_LEN);
    if (!uses_offset(m) || (len && len->rank == 2))
        return false;
    const bool br = m->problem.flags & ATTN_FLAG_OFF_BR;
    m->problem.flags ^= ATTN_FLAG_OFF_BR;
    m->problem.off = 0;
    if (m->problem.flags & ATTN_FLAG_CAUSAL)
        SAY(m, "mask %s instead of %s", alignment(!br), alignment(br));
    else
        SAY(m, "the window aligned %s", br ? "top-left instead of bottom-right" : "bottom-right");
    return true;
}

static bool shift(struct attn_mutation *m, double by)
{
    if (!uses_offset(m) || !fix_offset(m))
        return false;
    SAY(m, "the mask shifted by one: offset %lld instead of %lld",
        (long long)(m->problem.off + (int64_t)by), (long long)m->problem.off);
    m->problem.off += (int64_t)by;
    return true;
}

static bool without_flag(struct attn_mutation *m, double bit)
{
    const uint64_t flag = 1ull << (int)bit;
    const bool there = m->problem.flags & flag;
    m->problem.flags &= ~flag;
    if (flag == ATTN_FLAG_DROPOUT)
        drop(m, ATTN_KEEP);
    SAY(m, "%s left out",
        flag == ATTN_FLAG_CAUSAL    ? "causal"
        : flag == ATTN_FLAG_WINDOW  ? "the window"
        : flag == ATTN_FLAG_SOFTCAP ? "softcap"
        : flag == ATTN_FLAG_DROPOUT ? "dropout"
                                    : "the residual");
    return there;
}

static bool causal_added(struct attn_mutation *m, double br)
{
    if (m->problem.flags & ATTN_FLAG_CAUSAL)
        return false;
    m->problem.flags |= ATTN_FLAG_CAUSAL;
    const struct attn_tensor *len = find(m, ATTN_LEN);
    if (br != 0) {
        if (uses_offset(m) && m->problem.flags & ATTN_FLAG_WINDOW)
            return false;
        m->problem.flags |= ATTN_FLAG_OFF_BR;
    }
    SAY(m, "mask %s, which was not asked for", alignment(br != 0));
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
    SAY(m, "window:%lld:%lld instead of window:%lld:%lld", (long long)p->window_left,
        (long long)p->window_right, (long long)left, (long long)right);
    return *side >= 0;
}

static bool window_swapped(struct attn_mutation *m, double unused)
{
    (void)unused;
    struct attn_problem *p = &m->problem;
    const int64_t left = p->window_left;
    p->window_left = p->window_right;
    p->window_right = left;
    SAY(m, "left and right of the window swapped");
    return (p->flags & ATTN_FLAG_WINDOW) && p->window_left != left;
}

static bool lengths(struct attn_mutation *m, double plus)
{
    SAY(m, "each len %s by one", plus > 0 ? "larger" : "smaller");
    return find(m, ATTN_LEN) && remake(m, ATTN_LEN, 1, plus, (double)m->problem.sk);
}

static bool mask_inverted(struct attn_mutation *m, double unused)
{
    (void)unused;
    SAY(m, "the boolean mask inverted");
    return remake(m, ATTN_MASK, -1, 1, 1);
}

/* The tensor is read as if one of its axes were broadcast. */
static bool first_only(struct attn_mutation *m, double role, int axis, const char *of)
{
    struct attn_tensor *t = find(m, (uint32_t)role);
    if (!t || t->stride[axis] == 0 || t->shape[axis] < 2)
        return false;
    t->stride[axis] = 0;
    SAY(m, "%s of %s 0 for all of them", attn_role_name((uint32_t)role), of);
    return true;
}

static bool first_batch(struct attn_mutation *m, double role)
{
    return first_only(m, role, 0, "batch");
}

static bool first_head(struct attn_mutation *m, double role)
{
    const bool per_head = role >= ATTN_SCORE_M || role == ATTN_ALIBI || role == ATTN_SINK;
    return first_only(m, role, per_head ? 0 : 1, "head");
}

/* ---- keys ---- */

/* Only the first n keys take part. */
static bool limit(struct attn_mutation *m, int64_t n)
{
    struct attn_problem *p = &m->problem;
    if (n < 1 || n >= p->sk || !fix_offset(m))
        return false;
    if (find(m, ATTN_LEN))
        return remake(m, ATTN_LEN, 1, 0, (double)n);
    int32_t *data = room(m, p->b, sizeof *data);
    if (!data)
        return false;
    for (int64_t b = 0; b < p->b; b++)
        data[b] = (int32_t)n;
    m->tensors[p->n_tensors++] = (struct attn_tensor){.role = ATTN_LEN,
                                                      .dtype = ATTN_I32,
                                                      .rank = 1,
                                                      .shape = {p->b},
                                                      .stride = {1},
                                                      .data = data};
    return true;
}

static bool keys_lost(struct attn_mutation *m, int64_t n)
{
    SAY(m, "keys from %lld on lost", (long long)n);
    return limit(m, n);
}

static bool last_lost(struct attn_mutation *m, double unused)
{
    (void)unused;
    return keys_lost(m, m->problem.sk - 1);
}

/* Is the part of a tile at the end another than that of a tile of half the size. */
static bool is_new(const struct attn_mutation *m, int64_t tile)
{
    return tile == 4 || m->problem.sk % tile >= tile / 2;
}

static bool tail_lost(struct attn_mutation *m, double tile)
{
    const int64_t n = m->problem.sk - m->problem.sk % (int64_t)tile;
    return n > 0 && is_new(m, (int64_t)tile) && keys_lost(m, n);
}

/* Keys of zeros up to the next multiple weigh exp(0) each, as a sink of log(how many) does. */
static bool tail_counted(struct attn_mutation *m, double tile)
{
    struct attn_problem *p = &m->problem;
    const int64_t pad = ((int64_t)tile - p->sk % (int64_t)tile) % (int64_t)tile;
    float *data = room(m, p->hq, sizeof *data);
    if (pad == 0 || find(m, ATTN_SINK) || p->dtype == ATTN_F64 || !data)
        return false;
    for (int64_t h = 0; h < p->hq; h++)
        data[h] = (float)log((double)pad);
    m->tensors[p->n_tensors++] = (struct attn_tensor){.role = ATTN_SINK,
                                                      .dtype = ATTN_F32,
                                                      .rank = 1,
                                                      .shape = {p->hq},
                                                      .stride = {1},
                                                      .data = data};
    SAY(m, "%lld keys of padding (to a multiple of %.0f) counted with a score of 0", (long long)pad,
        tile);
    return true;
}

/* ---- what is added ---- */

static bool without(struct attn_mutation *m, double role)
{
    SAY(m, "%s left out", attn_role_name((uint32_t)role));
    return drop(m, (uint32_t)role);
}

static bool added_twice(struct attn_mutation *m, double role)
{
    SAY(m, "%s added twice", attn_role_name((uint32_t)role));
    return remake(m, (uint32_t)role, 2, 0, 0);
}

static bool times_scale(struct attn_mutation *m, double role)
{
    SAY(m, "%s times scale", attn_role_name((uint32_t)role));
    return m->problem.scale != 1 && remake(m, (uint32_t)role, m->problem.scale, 0, 0);
}

static bool slopes_turned(struct attn_mutation *m, double unused)
{
    (void)unused;
    SAY(m, "alibi of the other sign");
    return remake(m, ATTN_ALIBI, -1, 0, 0);
}

static bool sink_twice(struct attn_mutation *m, double unused)
{
    (void)unused;
    SAY(m, "the sink counted twice");
    return remake(m, ATTN_SINK, 1, ln2, 0);
}

static bool residual_twice(struct attn_mutation *m, double unused)
{
    (void)unused;
    const bool there = without_flag(m, 5);
    m->twice = true;
    SAY(m, "the residual added twice");
    return there;
}

static bool output_bias_twice(struct attn_mutation *m, double unused)
{
    (void)unused;
    m->twice = true;
    SAY(m, "b_o added twice");
    return drop(m, ATTN_B_O);
}

/* ---- operands ---- */

static bool transposed(struct attn_mutation *m, double role)
{
    struct attn_tensor *t = find(m, (uint32_t)role);
    if (!t || t->shape[t->rank - 1] != t->shape[t->rank - 2] || t->shape[t->rank - 1] < 2)
        return false;
    const int64_t stride = t->stride[t->rank - 1];
    t->stride[t->rank - 1] = t->stride[t->rank - 2];
    t->stride[t->rank - 2] = stride;
    SAY(m, "%s transposed", attn_role_name((uint32_t)role));
    return true;
}

static bool additive_swapped(struct attn_mutation *m, double unused)
{
    (void)unused;
    struct attn_tensor *a = find(m, ATTN_SCORE_WQ), *b = find(m, ATTN_SCORE_WK);
    if (!a || !b || m->problem.dq != m->problem.dk)
        return false;
    a->role = ATTN_SCORE_WK;
    b->role = ATTN_SCORE_WQ;
    SAY(m, "W_q and W_k of the score swapped");
    return true;
}

static bool key_norm_lost(struct attn_mutation *m, double unused)
{
    (void)unused;
    const bool gaussian = m->problem.score == ATTN_SCORE_GAUSSIAN;
    m->problem.score = ATTN_SCORE_DOT;
    SAY(m, "the norm of the keys left out of the gaussian score");
    return gaussian;
}

/* Query head h reads key/value head h % hkv: a tensor of a head each. */
static bool tile_heads(struct attn_mutation *m, uint32_t role)
{
    const struct attn_problem *p = &m->problem;
    struct attn_tensor *t = find(m, role), from = *t;
    const int64_t width = from.shape[3];
    const size_t element = attn_dtype_size(from.dtype);
    unsigned char *data = room(m, p->b * p->hq * p->sk * width, element);
    if (!data)
        return false;
    for (int64_t n = 0; n < p->b * p->hq * p->sk * width; n++) {
        const int64_t c = n % width, j = n / width % p->sk, h = n / width / p->sk % p->hq;
        const int64_t b = n / width / p->sk / p->hq;
        const int64_t at = b * from.stride[0] + h % p->hkv * from.stride[1] + j * from.stride[2] +
                           c * from.stride[3];
        memcpy(data + (size_t)n * element, (unsigned char *)from.data + (size_t)at * element,
               element);
    }
    t->data = data;
    t->shape[1] = p->hq;
    for (int a = 3, step = 1; a >= 0; step *= (int)t->shape[a], a--)
        t->stride[a] = step;
    return true;
}

static bool heads_tiled(struct attn_mutation *m, double unused)
{
    (void)unused;
    struct attn_problem *p = &m->problem;
    if (p->op != ATTN_OP_ATTENTION || p->hkv == 1 || p->hkv == p->hq || p->sk == 0 ||
        !tile_heads(m, ATTN_K) || !tile_heads(m, ATTN_V))
        return false;
    SAY(m, "heads tiled: query head h reads key/value head h %% %lld instead of h / %lld",
        (long long)p->hkv, (long long)(p->hq / p->hkv));
    p->hkv = p->hq;
    return true;
}

/* Read as if it lay dense in [B,H,S,D] (0) or [B,S,H,D] (1). */
static bool read_as(struct attn_mutation *m, uint32_t role, bool bshd)
{
    struct attn_tensor *t = find(m, role);
    if (!t || t->rank != 4 || t->stride[0] == 0)
        return false;
    const int64_t *n = t->shape;
    const int64_t dense[2][4] = {{n[1] * n[2] * n[3], n[2] * n[3], n[3], 1},
                                 {n[1] * n[2] * n[3], n[3], n[1] * n[3], 1}};
    bool differs = false;
    for (int a = 0; a < 4; a++)
        differs = differs || (t->stride[a] != dense[bshd][a] && n[a] > 1);
    memcpy(t->stride, dense[bshd], sizeof dense[bshd]);
    SAY(m, "%s read as if it lay dense in %s", attn_role_name(role), bshd ? "bshd" : "bhsd");
    return differs;
}

static bool read_as_bhsd(struct attn_mutation *m, double role)
{
    return read_as(m, (uint32_t)role, false);
}

static bool read_as_bshd(struct attn_mutation *m, double role)
{
    return read_as(m, (uint32_t)role, true);
}

/* Each function once, or once an argument. */
static const struct family {
    bool (*change)(struct attn_mutation *mutation, double argument);
    size_t n;
    double arguments[10];
} families[] = {
    {other_alignment, 1, {0}},
    {shift, 2, {1, -1}},
    {without_flag, 2, {0, 1}},
    {window_swapped, 1, {0}},
    {window_side, 4, {0, 1, 2, 3}},
    {lengths, 2, {1, -1}},
    {mask_inverted, 1, {0}},
    {without, 2, {ATTN_LEN, ATTN_MASK}},
    {causal_added, 2, {0, 1}},
    {last_lost, 1, {0}},
    {tail_lost, 6, {4, 8, 16, 32, 64, 128}},
    {tail_counted, 6, {4, 8, 16, 32, 64, 128}},
    {scale_to, 9, {0, 1, 2, 3, 4, 5, 6, 7, 8}},
    {base_two, 2, {0.69314718055994530942, 1.44269504088896340736}},
    {scale_by, 4, {2, 0.5, -1, 0}},
    {without, 4, {ATTN_BIAS, ATTN_ALIBI, ATTN_SINK, ATTN_HEAD_MASK}},
    {without, 4, {ATTN_B_Q, ATTN_B_K, ATTN_B_V, ATTN_B_O}},
    {without_flag, 3, {3, 4, 5}},
    {added_twice, 2, {ATTN_BIAS, ATTN_ALIBI}},
    {times_scale, 3, {ATTN_BIAS, ATTN_ALIBI, ATTN_SINK}},
    {slopes_turned, 1, {0}},
    {sink_twice, 1, {0}},
    {residual_twice, 1, {0}},
    {output_bias_twice, 1, {0}},
    {transposed, 3, {ATTN_SCORE_M, ATTN_SCORE_WQ, ATTN_SCORE_WK}},
    {transposed, 4, {ATTN_W_Q, ATTN_W_K, ATTN_W_V, ATTN_W_O}},
    {additive_swapped, 1, {0}},
    {key_norm_lost, 1, {0}},
    {heads_tiled, 1, {0}},
    {first_batch, 6, {ATTN_Q, ATTN_K, ATTN_V, ATTN_LEN, ATTN_MASK, ATTN_BIAS}},
    {first_head, 6, {ATTN_K, ATTN_V, ATTN_MASK, ATTN_BIAS, ATTN_ALIBI, ATTN_SINK}},
    {first_head, 2, {ATTN_SCORE_M, ATTN_SCORE_WV}},
    {read_as_bhsd, 3, {ATTN_Q, ATTN_K, ATTN_V}},
    {read_as_bshd, 3, {ATTN_Q, ATTN_K, ATTN_V}},
};

bool attn_mutation_next(const struct attn_problem *problem, struct attn_mutation_place *at,
                        struct attn_mutation *m)
{
    for (; at->family < sizeof families / sizeof *families; at->family++, at->argument = 0) {
        const struct family *family = &families[at->family];
        while (at->argument < family->n) {
            *m = (struct attn_mutation){.problem = *problem};
            memcpy(m->tensors, problem->tensors, problem->n_tensors * sizeof *m->tensors);
            m->problem.tensors = m->tensors;
            if (family->change(m, family->arguments[at->argument++]))
                return true;
            attn_mutation_free(m);
        }
    }
    return false;
}

void attn_mutation_free(struct attn_mutation *m)
{
    while (m->n_copies > 0)
        free(m->copies[--m->n_copies]);
}
