/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_operands.c - operands read from the wrong place. */
#include <string.h>

#include "explain/mistakes.h"

/* A tensor read as if one of its axes were broadcast. */
static bool first_only(struct attn_mutation *m, double role, int axis, const char *of)
{
    struct attn_tensor *t = attn_mutated(m, (uint32_t)role);
    if (!t || t->stride[axis] == 0 || t->shape[axis] < 2)
        return false;
    t->stride[axis] = 0;
    ATTN_SAY(m, "%s of %s 0 for all of them", attn_role_name((uint32_t)role), of);
    return true;
}

static bool first_batch(struct attn_mutation *m, double role)
{
    return first_only(m, role, 0, "batch");
}

static bool first_head(struct attn_mutation *m, double role)
{
    const bool per_head =
        role >= ATTN_SCORE_M || role == ATTN_ALIBI || role == ATTN_SINK || role == ATTN_DILATION;
    return first_only(m, role, per_head ? 0 : 1, "head");
}

static bool first_query(struct attn_mutation *m, double role)
{
    return first_only(m, role, 2, "query");
}

/* Keys and values together. */
static bool both_first(struct attn_mutation *m, double axis)
{
    const char *of = axis != 0 ? "head" : "batch";
    const bool k = first_only(m, ATTN_K, (int)axis, of), v = first_only(m, ATTN_V, (int)axis, of);
    ATTN_SAY(m, "k and v of %s 0 for all of them", of);
    return k && v;
}

static void from_before(const struct attn_mutation *m, double axis, int64_t at[ATTN_MAX_RANK])
{
    const int a = (int)axis;
    const int64_t n = a ? m->problem.hkv : m->problem.b;
    at[a] = (at[a] + n - 1) % n;
}

static void from_reversed(const struct attn_mutation *m, double axis, int64_t at[ATTN_MAX_RANK])
{
    const int a = (int)axis;
    at[a] = (a ? m->problem.hkv : m->problem.b) - 1 - at[a];
}

static bool permuted(struct attn_mutation *m, double axis, uint32_t only, bool reversed)
{
    const struct attn_problem *p = &m->problem;
    const int64_t k[4] = {p->b, p->hkv, p->sk, p->dk}, v[4] = {p->b, p->hkv, p->sk, p->dv};
    const int64_t n = axis != 0 ? p->hkv : p->b;
    if (!ref_op_is(p->op, REF_QKV) || p->sk == 0 || n < (reversed ? 3 : 2))
        return false;
    ATTN_SAY(m, "%s of %s%s", !only ? "k and v" : attn_role_name(only),
             reversed ? "permuted (reversed) " : "the ",
             axis != 0 ? (reversed ? "heads" : "head before")
                       : (reversed ? "batches" : "batch before"));
    return (only == ATTN_V ||
            attn_mutated_gather(m, ATTN_K, k, reversed ? from_reversed : from_before, axis)) &&
           (only == ATTN_K ||
            attn_mutated_gather(m, ATTN_V, v, reversed ? from_reversed : from_before, axis));
}

/* With two heads, the one before is the other one. */
static bool of_before(struct attn_mutation *m, double axis)
{
    return permuted(m, axis, 0, false);
}

static bool k_of_before(struct attn_mutation *m, double axis)
{
    return permuted(m, axis, ATTN_K, false);
}

static bool v_of_before(struct attn_mutation *m, double axis)
{
    return permuted(m, axis, ATTN_V, false);
}

static bool of_reversed(struct attn_mutation *m, double axis)
{
    return permuted(m, axis, 0, true);
}

static void from_other_block(const struct attn_mutation *m, double unused,
                             int64_t at[ATTN_MAX_RANK])
{
    (void)unused;
    const int64_t dv = m->problem.dv;
    at[1] = (m->problem.hq - 1 - at[1] / dv) * dv + at[1] % dv;
}

/* The outputs of heads concatenated from the last to the first. */
static bool heads_reversed(struct attn_mutation *m, double unused)
{
    (void)unused;
    const struct attn_tensor *w = attn_mutated(m, ATTN_W_O);
    ATTN_SAY(m, "heads permuted: concatenated from the last to the first");
    return w && m->problem.hq > 1 &&
           attn_mutated_gather(m, ATTN_W_O, (const int64_t[]){w->shape[0], w->shape[1]},
                               from_other_block, 0);
}

/* Strides of heads and batches swapped. */
static bool axes_swapped(struct attn_mutation *m, double role)
{
    struct attn_tensor *t = attn_mutated(m, (uint32_t)role);
    if (!t || t->rank != 4 || t->shape[0] != t->shape[1] || t->shape[0] < 2 ||
        t->stride[0] == t->stride[1])
        return false;
    const int64_t stride = t->stride[0];
    t->stride[0] = t->stride[1];
    t->stride[1] = stride;
    ATTN_SAY(m, "heads and batches of %s swapped", attn_role_name((uint32_t)role));
    return true;
}

static bool transposed(struct attn_mutation *m, double role)
{
    struct attn_tensor *t = attn_mutated(m, (uint32_t)role);
    if (!t || t->shape[t->rank - 1] != t->shape[t->rank - 2] || t->shape[t->rank - 1] < 2)
        return false;
    const int64_t stride = t->stride[t->rank - 1];
    t->stride[t->rank - 1] = t->stride[t->rank - 2];
    t->stride[t->rank - 2] = stride;
    ATTN_SAY(m, "%s transposed", attn_role_name((uint32_t)role));
    return true;
}

static void from_tiled_head(const struct attn_mutation *m, double unused, int64_t at[ATTN_MAX_RANK])
{
    (void)unused;
    at[1] %= m->problem.hkv;
}

/* Query head h reads key/value head h % hkv. Made as tensors with one head per query head. */
static bool heads_tiled(struct attn_mutation *m, double unused)
{
    (void)unused;
    static const uint32_t roles[] = {ATTN_K, ATTN_V, ATTN_K_GLOBAL, ATTN_V_GLOBAL};
    struct attn_problem *p = &m->problem;
    if (!ref_op_is(p->op, REF_QKV) || p->hkv == 1 || p->hkv == p->hq || p->sk == 0)
        return false;
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
        const struct attn_tensor *t = attn_mutated(m, roles[r]);
        if (t &&
            !attn_mutated_gather(m, roles[r], (const int64_t[]){p->b, p->hq, p->sk, t->shape[3]},
                                 from_tiled_head, 0))
            return false;
    }
    ATTN_SAY(m, "heads tiled: query head h reads key/value head h %% %lld instead of h / %lld",
             (long long)p->hkv, (long long)(p->hq / p->hkv));
    p->hkv = p->hq;
    return true;
}

/* A tensor read as if it were dense in [B,H,S,D] (0) or [B,S,H,D] (1). */
static bool read_as(struct attn_mutation *m, uint32_t role, bool bshd)
{
    struct attn_tensor *t = attn_mutated(m, role);
    if (!t || t->rank != 4 || t->stride[0] == 0)
        return false;
    const int64_t *n = t->shape;
    const int64_t dense[2][4] = {{n[1] * n[2] * n[3], n[2] * n[3], n[3], 1},
                                 {n[1] * n[2] * n[3], n[3], n[1] * n[3], 1}};
    bool differs = false;
    for (int a = 0; a < 4; a++)
        differs = differs || (t->stride[a] != dense[bshd][a] && n[a] > 1);
    memcpy(t->stride, dense[bshd], sizeof dense[bshd]);
    ATTN_SAY(m, "%s read as if it were dense in %s", attn_role_name(role), bshd ? "bshd" : "bhsd");
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

/* All three. */
static bool all_read_as(struct attn_mutation *m, double bshd)
{
    static const uint32_t roles[] = {ATTN_Q, ATTN_K, ATTN_V};
    bool differs = false;
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
        differs = read_as(m, roles[r], bshd != 0) || differs;
    ATTN_SAY(m, "q, k and v read as if they were dense in %s", bshd != 0 ? "bshd" : "bhsd");
    return differs;
}

const struct attn_mistake attn_mistakes_operands[] = {
    {transposed, 3, {ATTN_SCORE_M, ATTN_SCORE_WQ, ATTN_SCORE_WK}},
    {transposed, 4, {ATTN_W_Q, ATTN_W_K, ATTN_W_V, ATTN_W_O}},
    {transposed, 3, {ATTN_Q, ATTN_K, ATTN_V}},
    {heads_tiled, 1, {0}},
    {heads_reversed, 1, {0}},
    {first_batch, 6, {ATTN_Q, ATTN_K, ATTN_V, ATTN_LEN, ATTN_MASK, ATTN_BIAS}},
    {first_head, 6, {ATTN_K, ATTN_V, ATTN_MASK, ATTN_BIAS, ATTN_ALIBI, ATTN_SINK}},
    {first_head, 5, {ATTN_SCORE_M, ATTN_SCORE_WV, ATTN_SCORE_KR, ATTN_SCORE_QR, ATTN_DILATION}},
    {first_batch, 1, {ATTN_GLOBAL}},
    {first_query, 2, {ATTN_MASK, ATTN_BIAS}},
    {both_first, 2, {0, 1}},
    {of_before, 2, {0, 1}},
    {k_of_before, 2, {0, 1}},
    {v_of_before, 2, {0, 1}},
    {of_reversed, 2, {0, 1}},
    {axes_swapped, 3, {ATTN_Q, ATTN_K, ATTN_V}},
    {read_as_bhsd, 3, {ATTN_Q, ATTN_K, ATTN_V}},
    {read_as_bshd, 3, {ATTN_Q, ATTN_K, ATTN_V}},
    {all_read_as, 2, {0, 1}},
    {NULL, 0, {0}},
};
