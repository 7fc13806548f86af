/* SPDX-License-Identifier: Apache-2.0 */
/* power_slice.c - scores of one head, right or with a mistake in where they come from. */
#include "explain/power_trials.h"

#include <stdlib.h>
#include <string.h>

#include "case/operator.h"
#include "explain/mistakes.h"
#include "reference/dtype.h"
#include "reference/score.h"

/* ---- mistakes in the parameters of a score ---- */

static bool m_transposed(struct attn_mutation *m)
{
    struct attn_tensor *t = attn_mutated(m, ATTN_SCORE_M);
    if (!t || t->shape[1] != t->shape[2] || t->shape[1] < 2)
        return false;
    const int64_t stride = t->stride[1];
    t->stride[1] = t->stride[2];
    t->stride[2] = stride;
    return true;
}

static bool m_lost(struct attn_mutation *m)
{
    const bool there = attn_mutated_drop(m, ATTN_SCORE_M) && m->problem.dq == m->problem.dk;
    m->problem.score = ATTN_SCORE_DOT;
    return there;
}

static bool weights_swapped(struct attn_mutation *m)
{
    struct attn_tensor *a = attn_mutated(m, ATTN_SCORE_WQ), *b = attn_mutated(m, ATTN_SCORE_WK);
    if (!a || !b || m->problem.dq != m->problem.dk)
        return false;
    a->role = ATTN_SCORE_WK;
    b->role = ATTN_SCORE_WQ;
    return true;
}

/* For numbers this small tanh(x) is x to within 2^-40 of x. */
static bool tanh_lost(struct attn_mutation *m)
{
    return attn_mutated_remake(m, ATTN_SCORE_WQ, 0x1p-20, 0, 0) &&
           attn_mutated_remake(m, ATTN_SCORE_WK, 0x1p-20, 0, 0) &&
           attn_mutated_remake(m, ATTN_SCORE_WV, 0x1p20, 0, 0);
}

static bool query_lost(struct attn_mutation *m)
{
    return attn_mutated_remake(m, ATTN_SCORE_WQ, 0, 0, 0);
}

static bool hidden_lost(struct attn_mutation *m)
{
    struct attn_tensor *q = attn_mutated(m, ATTN_SCORE_WQ), *k = attn_mutated(m, ATTN_SCORE_WK);
    struct attn_tensor *v = attn_mutated(m, ATTN_SCORE_WV);
    if (!q || !k || !v || m->problem.dh < 2)
        return false;
    m->problem.dh = q->shape[1] = k->shape[1] = v->shape[1] = m->problem.dh - 1;
    return true;
}

/* Without both norms the score is a dot product; that of the query changes nothing. */
static bool norm_lost(struct attn_mutation *m)
{
    const bool gaussian = ref_score_find(m->problem.score)->traits & REF_SCORE_DISTANCE;
    m->problem.score = ATTN_SCORE_DOT;
    return gaussian;
}

/* The last column of q and k. */
static bool column_lost(struct attn_mutation *m)
{
    struct attn_problem *p = &m->problem;
    struct attn_tensor *q = attn_mutated(m, ATTN_Q), *k = attn_mutated(m, ATTN_K);
    const struct ref_score *score = ref_score_find(p->score);
    if (!q || !k || p->dq != p->dk || p->dk < 2 || (score->params && score->params[0]))
        return false;
    p->dq = p->dk = q->shape[3] = k->shape[3] = p->dk - 1;
    return true;
}

/* q and k for the scores of global queries, too. */
static bool global_projection_lost(struct attn_mutation *m)
{
    return attn_mutated_drop(m, ATTN_Q_GLOBAL) && attn_mutated_drop(m, ATTN_K_GLOBAL) &&
           attn_mutated_drop(m, ATTN_V_GLOBAL);
}

static const struct {
    const char *name;
    bool (*change)(struct attn_mutation *m);
} parameters[] = {{NULL, NULL},
                  {"m_transposed", m_transposed},
                  {"m_lost", m_lost},
                  {"score_weights_swapped", weights_swapped},
                  {"score_without_tanh", tanh_lost},
                  {"score_without_query", query_lost},
                  {"score_hidden_unit_lost", hidden_lost},
                  {"score_without_norm", norm_lost},
                  {"last_column_lost", column_lost},
                  {"global_projection_lost", global_projection_lost}};

const char *attn_power_parameters(int number)
{
    return number < (int)(sizeof parameters / sizeof *parameters) ? parameters[number].name : NULL;
}

/* ---- slices ---- */

/* The part of a tensor that belongs to one head. */
static struct attn_tensor part_of(const struct attn_tensor *t, const char *shape,
                                  const struct attn_power_slice *s)
{
    struct attn_tensor part = *t;
    int64_t at = 0;
    for (uint32_t a = 0; a < t->rank; a++) {
        const int64_t index = shape[a] == 'b'   ? s->b
                              : shape[a] == 'h' ? s->h
                              : shape[a] == 'g' ? s->g
                                                : -1;
        if (index < 0)
            continue;
        at += (t->shape[a] > 1 ? index : 0) * t->stride[a];
        part.shape[a] = 1;
    }
    part.data = (unsigned char *)t->data + at * (int64_t)attn_dtype_size(t->dtype);
    return part;
}

static struct attn_tensor own(uint32_t role, const double *data, int64_t rows, int64_t width)
{
    return (struct attn_tensor){.role = role,
                                .dtype = ATTN_F64,
                                .rank = 4,
                                .shape = {1, 1, rows, width},
                                .stride = {rows * width, rows * width, width, 1},
                                .data = (void *)(uintptr_t)data};
}

/* The tensors on which scores depend. A score does not depend on other queries, so q may have rows
 * for the trial's queries only; then `spread` gets them at their places. */
static void slice_tensors(struct attn_mutation *m, struct attn_power_trials *t,
                          const struct attn_power_slice *s, const double *spread)
{
    static const uint32_t left_out[] = {ATTN_MASK, ATTN_SINK, ATTN_KEEP, 0};
    const struct ref_op *attention = ref_op_named(ATTN_DEFAULT_OP);
    const struct attn_problem *p = t->problem;
    for (uint32_t n = 0; n < p->n_tensors; n++) {
        const struct ref_operand *operand = ref_operand_of(attention, p->tensors[n].role);
        bool leave = !operand || p->tensors[n].role == ATTN_MASK;
        for (const uint32_t *role = left_out; *role; role++)
            leave = leave || p->tensors[n].role == *role;
        if (leave)
            continue;
        const struct attn_tensor part = part_of(&p->tensors[n], operand->shape, s);
        attn_mutated_add(m, &part);
    }
    const struct attn_tensor out = own(ATTN_OUT, NULL, p->sq, t->projected ? p->dk : p->dv);
    attn_mutated_add(m, &out)->dtype = t->projected ? ATTN_F64 : p->dtype;
    if (!t->projected)
        return;
    const struct attn_tensor q = own(ATTN_Q, spread, p->sq, p->dq);
    const struct attn_tensor k = own(ATTN_K, s->k, p->sk, p->dk);
    const struct attn_tensor v = own(ATTN_V, s->k, p->sk, p->dk); /* any values will do */
    attn_mutated_add(m, &q);
    attn_mutated_add(m, &k);
    attn_mutated_add(m, &v);
    m->problem.dtype = ATTN_F64;
}

/* Beside q and k in double, other tensors may not have 16 bits. */
static bool widen(struct attn_mutation *m)
{
    for (uint32_t n = 0; n < m->problem.n_tensors; n++)
        if ((m->tensors[n].dtype == ATTN_F16 || m->tensors[n].dtype == ATTN_BF16) &&
            !attn_mutated_remake(m, m->tensors[n].role, 1, 0, 0))
            return false;
    return true;
}

static bool compute(struct attn_power_trials *t, const struct attn_power_slice *s,
                    const double *spread, double *const stages[3])
{
    const struct ref_request request = {.units = {{t->n_queries, t->query}}, .threads = t->threads};
    struct ref_result result = {.scores = {stages[0], stages[1], stages[2]}};
    struct attn_mutation *m = calloc(1, sizeof *m);
    char why[256];
    if (!m)
        return false;
    m->problem = *t->problem;
    m->problem.n_tensors = 0;
    m->problem.tensors = m->tensors;
    slice_tensors(m, t, s, spread);
    m->problem.op = ref_op_named(ATTN_DEFAULT_OP)->op;
    m->problem.b = m->problem.hq = m->problem.hkv = 1;
    m->problem.flags &= ~(uint64_t)(ATTN_FLAG_DROPOUT | ATTN_FLAG_RESIDUAL);
    if (t->projected)
        m->problem.dv = m->problem.dk;
    const bool ok = (!t->projected || widen(m)) &&
                    (s->parameters == 0 || parameters[s->parameters].change(m)) &&
                    ref_compute(&m->problem, &request, &result, why, sizeof why) == ATTN_OK;
    attn_mutation_free(m);
    free(m);
    return ok;
}

bool attn_power_score(struct attn_power_trials *t, const struct attn_power_slice *slice,
                      double *const stages[3])
{
    struct attn_power_slice s = *slice;
    const struct attn_problem *p = t->problem;
    if (!t->projected)
        return compute(t, &s, NULL, stages);
    s.q = s.q ? s.q : attn_power_queries(t, s.b, s.h);
    s.k = s.k ? s.k : attn_power_keys(t, s.b, s.g);
    double *spread = calloc((size_t)(p->sq * p->dq) + 1, sizeof *spread);
    for (int64_t n = 0; spread && s.q && n < t->n_queries; n++)
        memcpy(spread + t->query[n] * p->dq, s.q + n * p->dq, (size_t)p->dq * sizeof *spread);
    const bool ok = spread && s.q && s.k && compute(t, &s, spread, stages);
    free(spread);
    return ok;
}

/* ---- other scores ---- */

/* rows [n, width] plus `by` times the part of a bias from `first` on, or a copy without it. */
static double *shifted(const double *rows, int64_t n, int64_t width, const struct attn_tensor *less,
                       const struct attn_tensor *more, int64_t first)
{
    double *to = calloc((size_t)(n * width) + 1, sizeof *to);
    for (int64_t k = 0; to && k < n * width; k++) {
        const int64_t c = first + k % width;
        to[k] = rows[k] - ref_load(less, &c) + (more ? ref_load(more, &c) : 0);
    }
    return to;
}

static bool widths_agree(const struct attn_power_trials *t)
{
    const struct attn_tensor *const *role = t->operands.by_role;
    const struct attn_problem *p = t->problem;
    return p->hq == p->hkv && p->dq == p->dk &&
           role[ATTN_W_Q]->shape[1] == role[ATTN_W_K]->shape[1];
}

/* Scores with other projections. Takes what it makes in *q and *k, which the caller frees. */
static bool project_wrongly(struct attn_power_trials *t, struct attn_power_slice *s, int kind,
                            double **q, double **k)
{
    const struct attn_tensor *const *role = t->operands.by_role;
    const struct attn_problem *p = t->problem;
    const struct attn_tensor *b_q = role[ATTN_B_Q], *b_k = role[ATTN_B_K];
    const bool swap = kind == ATTN_SCORES_B_EXCHANGED;
    if (kind == ATTN_SCORES_EXCHANGED) {
        if (!widths_agree(t))
            return false;
        *q = attn_power_project(role[ATTN_X_Q], s->b, t->query, t->n_queries, role[ATTN_W_K], b_q,
                                s->h * p->dq, p->dq);
        *k = attn_power_project(role[ATTN_X_K], s->b, NULL, p->sk, role[ATTN_W_Q], b_k,
                                s->g * p->dk, p->dk);
        return *q && *k;
    }
    if (!b_q || !b_k || (swap && !widths_agree(t)))
        return false;
    if (kind == ATTN_SCORES_NO_B_Q || swap)
        *q = shifted(attn_power_queries(t, s->b, s->h), t->n_queries, p->dq, b_q, swap ? b_k : NULL,
                     s->h * p->dq);
    if (kind == ATTN_SCORES_NO_B_K || swap)
        *k = shifted(attn_power_keys(t, s->b, s->g), p->sk, p->dk, b_k, swap ? b_q : NULL,
                     s->g * p->dk);
    return *q || *k;
}

static int64_t other_head(const struct attn_problem *p, int64_t h, int kind)
{
    return kind == ATTN_SCORES_TILED        ? h % p->hkv
           : kind == ATTN_SCORES_FIRST_HEAD ? 0
                                            : h / (p->hq / p->hkv);
}

static bool compute_other(struct attn_power_trials *t, const struct attn_power_line *line, int kind,
                          double *to)
{
    const struct attn_problem *p = t->problem;
    struct attn_power_slice s = {.b = line->b, .h = line->h, .g = other_head(p, line->h, kind)};
    double *q = NULL, *k = NULL, *const stages[3] = {NULL, NULL, to};
    bool ok = true;
    if (kind == ATTN_SCORES_TILED || kind == ATTN_SCORES_FIRST_HEAD)
        ok = p->hkv > 1 && (kind == ATTN_SCORES_FIRST_HEAD || p->hq != p->hkv);
    else if (kind > ATTN_SCORES_PARAMETERS)
        s.parameters = kind - ATTN_SCORES_PARAMETERS;
    else
        ok = t->projected && project_wrongly(t, &s, kind, &q, &k);
    s.q = q;
    s.k = k;
    ok = ok && attn_power_score(t, &s, stages);
    free(q);
    free(k);
    return ok;
}

const double *attn_power_other(struct attn_power_trials *t, const struct attn_power_line *line,
                               int kind, int64_t *g)
{
    const struct attn_problem *p = t->problem;
    /* The block of a head has three stages of each line; here it has one. */
    const int64_t block = (line->score[0] - t->scores) / (3 * t->n_queries * p->sk);
    double *scores = t->other + block * t->n_queries * p->sk;
    if (t->other_kind != kind)
        memset(t->other_known, 0, (size_t)(t->n_lines / t->n_queries));
    t->other_kind = kind;
    if (!t->other_known[block])
        t->other_known[block] = compute_other(t, line, kind, scores) ? 1 : 2;
    *g = other_head(p, line->h, kind);
    for (int64_t n = 0; n < t->n_queries && t->other_known[block] == 1; n++)
        if (t->query[n] == line->i)
            return scores + n * p->sk;
    return NULL;
}
