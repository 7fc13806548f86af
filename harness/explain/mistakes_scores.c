/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_scores.c - mistakes in scores, in what is added to them, and in dropout. */
#include <math.h>
#include <string.h>

#include "explain/mistakes.h"
#include "reference/dtype.h"
#include "reference/philox.h"
#include "reference/score.h"
#include "reference/weight.h"

bool attn_mistake_without_flag(struct attn_mutation *m, double bit)
{
    const uint64_t flag = 1ull << (int)bit;
    const bool there = m->problem.flags & flag;
    m->problem.flags &= ~flag;
    if (flag == ATTN_FLAG_DROPOUT) {
        attn_mutated_drop(m, ATTN_KEEP);
        m->problem.dropout_p = 0;
    }
    if (flag == ATTN_FLAG_WINDOW)
        attn_mutated_drop(m, ATTN_DILATION);
    ATTN_SAY(m, "%s left out",
             flag == ATTN_FLAG_CAUSAL    ? "causal"
             : flag == ATTN_FLAG_WINDOW  ? "the window"
             : flag == ATTN_FLAG_SOFTCAP ? "softcap"
             : flag == ATTN_FLAG_DROPOUT ? "dropout"
                                         : "the residual");
    return there;
}

static double padded(int64_t d, int64_t to)
{
    const int64_t tiles = (d + to - 1) / to;
    return (double)(tiles * to);
}

static bool scale_by(struct attn_mutation *m, double factor)
{
    const double old = m->problem.scale;
    m->problem.scale *= factor;
    ATTN_SAY(m, "scale %.6g instead of %.6g (times %.6g)", m->problem.scale, old, factor);
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
                  {1 / sqrt((double)p->dk), "from d: the given one ignored"},
                  {1 / (double)p->dk, old * old == 1 / (double)p->dk ? "1/d, or twice" : "1/d"},
                  {old * old, "twice"},
                  {1 / sqrt((double)p->dv), "from dv"},
                  {1 / sqrt(padded(p->dk, 8)), "from d padded to 8"},
                  {1 / sqrt(padded(p->dk, 16)), "from d padded to 16"},
                  {1 / sqrt(padded(p->dk, 32)), "from d padded to 32"},
                  {1 / sqrt(padded(p->dk, 64)), "from d padded to 64"},
                  {1 / sqrt((double)(p->hq * p->dk)), "from the model width"}};
    const double value = scales[(int)kind].value;
    ATTN_SAY(m, "scale %.6g instead of %.6g (%s)", value, old, scales[(int)kind].name);
    m->problem.scale = value;
    return value != old;
}

static bool base_two(struct attn_mutation *m, double factor)
{
    if (m->problem.flags & ATTN_FLAG_SOFTCAP)
        return false; /* a cap would have to follow the base; without extras it is just a scale */
    m->problem.scale *= factor;
    const uint32_t extras[] = {ATTN_BIAS, ATTN_ALIBI, ATTN_SINK};
    for (size_t e = 0; e < sizeof extras / sizeof *extras; e++)
        if (attn_mutated(m, extras[e]) && !attn_mutated_remake(m, extras[e], factor, 0, 0))
            return false;
    ATTN_SAY(m, "exp in another base: all logits times %.6g (%s)", factor,
             factor < 1 ? "ln 2" : "1/ln 2");
    return true;
}

/* ---- softcap ---- */

/* c tanh(s) is c tanh(c s / c), tanh(s / c) before the scale is a cap of scale * c. */
static bool cap_misplaced(struct attn_mutation *m, double before_scale)
{
    struct attn_problem *p = &m->problem;
    if (before_scale != 0)
        p->softcap *= fabs(p->scale);
    else
        p->scale *= p->softcap;
    ATTN_SAY(m, "softcap %s", before_scale != 0 ? "before the scale" : "without its division");
    return (p->flags & ATTN_FLAG_SOFTCAP) && p->scale != 0;
}

/* ---- additive, Gaussian and narrow scores ---- */

/* For numbers this small tanh(x) is x to within 2^-40 of x. */
static bool tanh_lost(struct attn_mutation *m, double unused)
{
    (void)unused;
    ATTN_SAY(m, "tanh left out of the additive score");
    return attn_mutated_remake(m, ATTN_SCORE_WQ, 0x1p-20, 0, 0) &&
           attn_mutated_remake(m, ATTN_SCORE_WK, 0x1p-20, 0, 0) &&
           attn_mutated_remake(m, ATTN_SCORE_WV, 0x1p20, 0, 0);
}

static bool hidden_lost(struct attn_mutation *m, double unused)
{
    (void)unused;
    struct attn_problem *p = &m->problem;
    struct attn_tensor *q = attn_mutated(m, ATTN_SCORE_WQ), *k = attn_mutated(m, ATTN_SCORE_WK);
    struct attn_tensor *v = attn_mutated(m, ATTN_SCORE_WV);
    if (!q || !k || !v || p->dk >= p->dh)
        return false;
    ATTN_SAY(m, "%lld (d) of %lld (dh) hidden columns summed", (long long)p->dk, (long long)p->dh);
    p->dh = q->shape[1] = k->shape[1] = v->shape[1] = p->dk;
    return true;
}

/* Products that end at the last full vector. */
static bool columns_lost(struct attn_mutation *m, double lanes)
{
    struct attn_problem *p = &m->problem;
    struct attn_tensor *q = attn_mutated(m, ATTN_Q), *k = attn_mutated(m, ATTN_K);
    const struct ref_score *score = ref_score_find(p->score);
    const int64_t columns = p->dk - p->dk % (int64_t)lanes;
    if (!q || !k || !score || p->dq != p->dk || columns == 0 || columns == p->dk ||
        !(score->traits & REF_SCORE_PRODUCT) || score->params[0])
        return false;
    ATTN_SAY(m, "columns of q and k from %lld on left out", (long long)columns);
    p->dq = p->dk = q->shape[3] = k->shape[3] = columns;
    return true;
}

static bool additive_swapped(struct attn_mutation *m, double unused)
{
    (void)unused;
    struct attn_tensor *a = attn_mutated(m, ATTN_SCORE_WQ), *b = attn_mutated(m, ATTN_SCORE_WK);
    if (!a || !b || m->problem.dq != m->problem.dk)
        return false;
    a->role = ATTN_SCORE_WK;
    b->role = ATTN_SCORE_WQ;
    ATTN_SAY(m, "W_q and W_k of the score swapped");
    return true;
}

static bool key_norm_lost(struct attn_mutation *m, double unused)
{
    (void)unused;
    const struct ref_score *score = ref_score_find(m->problem.score);
    const bool gaussian = score && score->traits & REF_SCORE_DISTANCE;
    m->problem.score = ATTN_SCORE_DOT;
    ATTN_SAY(m, "the norm of the keys left out of the gaussian score");
    return gaussian;
}

/* ---- what is added ---- */

bool attn_mistake_without(struct attn_mutation *m, double role)
{
    ATTN_SAY(m, "%s left out", attn_role_name((uint32_t)role));
    for (uint32_t own = ATTN_Q_GLOBAL; role == ATTN_GLOBAL && own <= ATTN_V_GLOBAL; own++)
        attn_mutated_drop(m, own);
    return attn_mutated_drop(m, (uint32_t)role);
}

static bool added_twice(struct attn_mutation *m, double role)
{
    ATTN_SAY(m, "%s added twice", attn_role_name((uint32_t)role));
    return attn_mutated_remake(m, (uint32_t)role, 2, 0, 0);
}

static bool times_scale(struct attn_mutation *m, double role)
{
    ATTN_SAY(m, "%s times scale", attn_role_name((uint32_t)role));
    return m->problem.scale != 1 && attn_mutated_remake(m, (uint32_t)role, m->problem.scale, 0, 0);
}

static bool slopes_turned(struct attn_mutation *m, double unused)
{
    (void)unused;
    ATTN_SAY(m, "alibi with the opposite sign");
    return attn_mutated_remake(m, ATTN_ALIBI, -1, 0, 0);
}

/* Slopes 2^(-8 (h+1) / H), which are right if H is a power of two. */
static bool slopes_by_formula(struct attn_mutation *m, double unused)
{
    (void)unused;
    const int64_t heads = m->problem.hq;
    ATTN_SAY(m, "slopes of alibi 2^(-8(h+1)/%lld), though the head count is not a power of two",
             (long long)heads);
    if ((heads & (heads - 1)) == 0 || !attn_mutated_remake(m, ATTN_ALIBI, 1, 0, 0))
        return false;
    struct attn_tensor *slopes = attn_mutated(m, ATTN_ALIBI);
    for (int64_t h = 0; h < heads; h++)
        attn_dtype_store(slopes->dtype, slopes->data, h,
                         exp2(-8.0 * (double)(h + 1) / (double)heads));
    return true;
}

/* Distances from query i instead of i + off. Made as a bias, because masks keep their offset. */
static bool slopes_without_offset(struct attn_mutation *m, double unused)
{
    (void)unused;
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *slopes = attn_mutated(m, ATTN_ALIBI);
    const bool there = (p->flags & ATTN_FLAG_OFF_BR) ? p->sk != p->sq : p->off != 0;
    float *data = slopes && there && !attn_mutated(m, ATTN_BIAS)
                      ? attn_mutated_room(m, p->hq * p->sq * p->sk, sizeof *data)
                      : NULL;
    if (!data)
        return false;
    for (int64_t n = 0; n < p->hq * p->sq * p->sk; n++) {
        const int64_t j = n % p->sk, i = n / p->sk % p->sq, h = n / p->sk / p->sq;
        data[n] = (float)(-attn_dtype_load(slopes->dtype, slopes->data, h * slopes->stride[0]) *
                          fabs((double)(i - j)));
    }
    attn_mutated_drop(m, ATTN_ALIBI);
    attn_mutated_add(m, &(struct attn_tensor){.role = ATTN_BIAS,
                                              .dtype = ATTN_F32,
                                              .rank = 4,
                                              .shape = {p->b, p->hq, p->sq, p->sk},
                                              .stride = {0, p->sq * p->sk, p->sk, 1},
                                              .data = data});
    ATTN_SAY(m, "distances of alibi without the offset of queries");
    return true;
}

static bool sink_twice(struct attn_mutation *m, double unused)
{
    (void)unused;
    ATTN_SAY(m, "the sink counted twice");
    return attn_mutated_remake(m, ATTN_SINK, 1, attn_ln2, 0);
}

static bool residual_twice(struct attn_mutation *m, double unused)
{
    (void)unused;
    const bool there = attn_mistake_without_flag(m, 5);
    m->twice = true;
    ATTN_SAY(m, "the residual added twice");
    return there;
}

static bool output_bias_twice(struct attn_mutation *m, double unused)
{
    (void)unused;
    m->twice = true;
    ATTN_SAY(m, "b_o added twice");
    return attn_mutated_drop(m, ATTN_B_O);
}

/* Base 2 without log2 e, only in what is added to the score. */
static bool log2e_lost(struct attn_mutation *m, double role)
{
    ATTN_SAY(m, "%s times ln 2 (base 2 without log2 e)", attn_role_name((uint32_t)role));
    return attn_mutated_remake(m, (uint32_t)role, attn_ln2, 0, 0);
}

static bool projections_without_bias(struct attn_mutation *m, double of_out_too)
{
    const bool q = attn_mutated_drop(m, ATTN_B_Q), k = attn_mutated_drop(m, ATTN_B_K);
    const bool v = attn_mutated_drop(m, ATTN_B_V);
    const bool o = of_out_too != 0 && attn_mutated_drop(m, ATTN_B_O);
    ATTN_SAY(m, "b_q, b_k%s left out", o ? ", b_v and b_o" : " and b_v");
    return q && k && v && (o || of_out_too == 0);
}

/* ---- dropout ---- */

static bool kept_at(const struct attn_mutation *m, const struct attn_tensor *keep, int64_t b,
                    int64_t h, int64_t i, int64_t j)
{
    const struct attn_problem *p = &m->problem;
    if (keep)
        return ((const uint8_t *)keep->data)[b * keep->stride[0] + h * keep->stride[1] +
                                             i * keep->stride[2] + j * keep->stride[3]] != 0;
    const uint64_t index = (uint64_t)(((b * p->hq + h) * p->sq + i) * p->sk + j);
    return attn_dropout_keep(p->dropout_seed, index, p->dropout_p);
}

enum keep_mistake {
    KEEP_ALL,
    KEEP_NEXT,
    KEEP_BEFORE,
    KEEP_TRANSPOSED,
    KEEP_INVERTED,
    KEEP_SEED_ZERO,
    KEEP_SEED_NEXT,
    KEEP_HEADS_LAST,
    KEEP_FIRST_BATCH,
    KEEP_FIRST_HEAD,
    KEEP_COMPLEMENT,
    KEEP_UNDIVIDED
};

static bool kept_wrongly(const struct attn_mutation *m, const struct attn_tensor *keep,
                         enum keep_mistake kind, const int64_t at[4])
{
    const struct attn_problem *p = &m->problem;
    const int64_t b = at[0], h = at[1], i = at[2], j = at[3];
    const uint64_t index = (uint64_t)(((b * p->hq + h) * p->sq + i) * p->sk + j);
    switch (kind) {
    case KEEP_ALL:
        return true;
    case KEEP_NEXT:
        return kept_at(m, keep, b, h, i, (j + 1) % p->sk);
    case KEEP_BEFORE:
        return kept_at(m, keep, b, h, i, (j + p->sk - 1) % p->sk);
    case KEEP_TRANSPOSED:
        return kept_at(m, keep, b, h, j, i);
    case KEEP_INVERTED:
        return !kept_at(m, keep, b, h, i, j);
    case KEEP_SEED_ZERO:
    case KEEP_SEED_NEXT:
        return attn_dropout_keep(kind == KEEP_SEED_ZERO ? 0 : p->dropout_seed + 1, index,
                                 p->dropout_p);
    case KEEP_HEADS_LAST:
        return attn_dropout_keep(
            p->dropout_seed, (uint64_t)(((b * p->sq + i) * p->hq + h) * p->sk + j), p->dropout_p);
    case KEEP_FIRST_BATCH:
        return kept_at(m, keep, 0, h, i, j);
    case KEEP_FIRST_HEAD:
        return kept_at(m, keep, b, 0, i, j);
    case KEEP_UNDIVIDED:
        return kept_at(m, keep, b, h, i, j);
    default:
        return attn_dropout_keep(p->dropout_seed, index, 1 - p->dropout_p);
    }
}

/* A keep mask other than the one that is given, or that the seed gives. */
static bool other_keep(struct attn_mutation *m, double argument)
{
    static const char *const names[] = {
        [KEEP_ALL] = "no weight dropped, but every weight divided by 1 - dropout",
        [KEEP_NEXT] = "the dropout mask of the next key",
        [KEEP_BEFORE] = "the dropout mask of the key before",
        [KEEP_TRANSPOSED] = "the dropout mask transposed",
        [KEEP_INVERTED] = "the dropout mask inverted",
        [KEEP_SEED_ZERO] = "the dropout mask of seed 0",
        [KEEP_SEED_NEXT] = "the dropout mask of the next seed",
        [KEEP_HEADS_LAST] = "the dropout mask counted in the order [B,Sq,Hq,Sk]",
        [KEEP_FIRST_BATCH] = "the dropout mask of batch 0 for all of them",
        [KEEP_FIRST_HEAD] = "the dropout mask of head 0 for all of them",
        [KEEP_COMPLEMENT] = "weights dropped with probability 1-p",
        [KEEP_UNDIVIDED] = "what dropout keeps not divided by 1 - dropout"};
    struct attn_problem *p = &m->problem;
    const enum keep_mistake kind = (enum keep_mistake)argument;
    struct attn_tensor *old = attn_mutated(m, ATTN_KEEP), keep = {0};
    const bool by_seed = kind == KEEP_SEED_ZERO || kind == KEEP_SEED_NEXT ||
                         kind == KEEP_HEADS_LAST || kind == KEEP_COMPLEMENT;
    if (!(p->flags & ATTN_FLAG_DROPOUT) || (old && by_seed) ||
        (kind == KEEP_TRANSPOSED && p->sq != p->sk) || (kind == KEEP_FIRST_BATCH && p->b == 1) ||
        ((kind == KEEP_FIRST_HEAD || kind == KEEP_HEADS_LAST) && p->hq == 1) ||
        (kind == KEEP_COMPLEMENT && p->dropout_p == 0.5))
        return false;
    /* Each cell costs a random number. */
    const double cells = (double)p->b * (double)p->hq * (double)p->sq * (double)p->sk;
    uint8_t *data = cells <= 0x1p20 ? attn_mutated_room(m, p->b * p->hq * p->sq * p->sk, 1) : NULL;
    keep = (struct attn_tensor){.role = ATTN_KEEP,
                                .dtype = ATTN_BOOL,
                                .rank = 4,
                                .shape = {p->b, p->hq, p->sq, p->sk},
                                .stride = {p->hq * p->sq * p->sk, p->sq * p->sk, p->sk, 1},
                                .data = data};
    for (int64_t n = 0; data && n < p->b * keep.stride[0]; n++) {
        const int64_t at[4] = {n / keep.stride[0], n / keep.stride[1] % p->hq,
                               n / keep.stride[2] % p->sq, n % p->sk};
        data[n] = kept_wrongly(m, old, kind, at);
    }
    attn_mutated_drop(m, ATTN_KEEP);
    attn_mutated_add(m, &keep);
    if (kind == KEEP_UNDIVIDED)
        p->dropout_p = 0;
    ATTN_SAY(m, "%s", names[kind]);
    return data != NULL;
}

/* The weights of another function, where they are not a softmax's. */
static bool other_weights(struct attn_mutation *m, double weight_fn)
{
    struct attn_problem *p = &m->problem;
    const bool weighs = p->flags & ATTN_FLAG_WEIGHT, same = p->weight_fn == (int64_t)weight_fn;
    p->weight_fn = (int64_t)weight_fn;
    if (weight_fn == ATTN_WEIGHT_SOFTMAX)
        p->flags &= ~ATTN_FLAG_WEIGHT;
    ATTN_SAY(m, "the weights of %s",
             weight_fn == ATTN_WEIGHT_SOFTMAX ? "a softmax" : ref_weight_find(p->weight_fn)->name);
    return weighs && !same;
}

const struct attn_mistake attn_mistakes_scores[] = {
    {cap_misplaced, 2, {0, 1}},
    {scale_to, 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
    {base_two, 2, {0.69314718055994530942, 1.44269504088896340736}},
    {scale_by, 4, {2, 0.5, -1, 0}},
    {tanh_lost, 1, {0}},
    {hidden_lost, 1, {0}},
    {additive_swapped, 1, {0}},
    {key_norm_lost, 1, {0}},
    {columns_lost, 5, {4, 8, 16, 32, 64}},
    {attn_mistake_without, 5, {ATTN_BIAS, ATTN_ALIBI, ATTN_SINK, ATTN_HEAD_MASK, ATTN_GATE}},
    {other_weights, 4, {0, 1, 2, 3}},
    {attn_mistake_without, 4, {ATTN_B_Q, ATTN_B_K, ATTN_B_V, ATTN_B_O}},
    {projections_without_bias, 2, {0, 1}},
    {attn_mistake_without_flag, 3, {3, 4, 5}},
    {added_twice, 2, {ATTN_BIAS, ATTN_ALIBI}},
    {times_scale, 3, {ATTN_BIAS, ATTN_ALIBI, ATTN_SINK}},
    {log2e_lost, 3, {ATTN_BIAS, ATTN_ALIBI, ATTN_SINK}},
    {slopes_turned, 1, {0}},
    {slopes_by_formula, 1, {0}},
    {slopes_without_offset, 1, {0}},
    {sink_twice, 1, {0}},
    {residual_twice, 1, {0}},
    {output_bias_twice, 1, {0}},
    {other_keep, 11, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
    {other_keep, 1, {KEEP_UNDIVIDED}},
    {NULL, 0, {0}},
};
