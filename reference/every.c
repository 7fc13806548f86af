/* SPDX-License-Identifier: Apache-2.0 */
/* every.c - every row of attention, head by head and query by query. */
#include "reference/every.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/every_alike.h"
#include "reference/every_query.h"
#include "reference/parallel.h"
#include "reference/score.h"

/* Where rows with the same query have the same answer. */
static const char *hinders_alike(const struct attn_problem *p)
{
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    return p->flags & ATTN_FLAG_CAUSAL ? "a causal mask"
           : len && len->rank > 1      ? "a length for each query"
           : p->sk == 0                ? "no keys"
                                       : NULL;
}

static const char *hinders(const struct attn_problem *p)
{
    static const struct {
        uint32_t role;
        const char *name;
    } hindering[] = {{ATTN_MASK, "a boolean mask"},
                     {ATTN_Q_GLOBAL, "global tokens with projections of their own"},
                     {ATTN_BIAS, "a bias"},
                     {ATTN_ALIBI, "ALiBi"},
                     {ATTN_WEIGHTS, "weights to give"},
                     {ATTN_GATE, "a gate"},
                     {ATTN_KEEP, "dropout"}};
    const char *what = !ref_op_is(p->op, REF_QKV | REF_SOFTMAX) ? "another operator"
                       : p->flags & ATTN_FLAG_WEIGHT            ? "other weights than a softmax"
                       : p->flags & ATTN_FLAG_DROPOUT           ? "dropout"
                       : p->sk == 0                             ? "no keys"
                       : ref_score_find(p->score)->traits & REF_SCORE_PLACES
                           ? "a score that depends on distances"
                           : NULL;
    for (size_t n = 0; n < sizeof hindering / sizeof *hindering && !what; n++)
        if (attn_tensor_find(p, hindering[n].role))
            what = hindering[n].name;
    return what;
}

bool ref_every_fits(const struct attn_problem *p, char *why, size_t size)
{
    const char *what = ref_op_is(p->op, REF_ROWS_ALIKE) ? hinders_alike(p) : hinders(p);
    if (what && why)
        snprintf(why, size, "the problem has %s", what);
    return !what;
}

/* Global tokens of all batches: each may be a run by itself in each row. */
static double count_globals(const struct attn_problem *p)
{
    const struct attn_tensor *global = attn_tensor_find(p, ATTN_GLOBAL);
    struct ref_operands operands;
    double count = 0;
    ref_operands_init(&operands, p);
    for (int64_t n = 0; global && global->data && n < p->b * p->sk; n++)
        count += ref_is_global(&operands, n / p->sk, n % p->sk);
    return count;
}

double ref_every_cost(const struct attn_problem *p, int64_t queries)
{
    const double heads = (double)(p->b * p->hq), d = (double)(p->dk + p->dv);
    if (ref_op_is(p->op, REF_ROWS_ALIKE))
        return heads * (double)queries * ref_op_find(p->op)->unit_cost(p, 0);
    return heads * ((double)queries * (double)p->sk * (6.0 * d + 60.0) +
                    (double)p->sq * (double)p->dv * 80.0) +
           4.0 * (double)(p->hq * p->dv * p->sq) * count_globals(p);
}

/* ---- one head ---- */

static void answer_queries(void *context, int64_t begin, int64_t end)
{
    const struct every *e = context;

    for (int64_t n = begin; n < end; n++) {
        struct every_work *w = &e->works[n];
        const int64_t query = e->first_query + n, at = e->start[query];
        ref_every_begin(e, w, query);
        for (int64_t r = 0; !w->wrong && r < e->start[query + 1] - at; r++)
            ref_every_answer(e, w, e->order[at + r], w->answers + r * (2 * e->keys.dv + 2));
    }
}

/* Finds which rows of a head have the same query. False: there are too many. */
static bool group_rows(struct every *e, double *seen)
{
    const struct attn_problem *p = e->job.operands.problem;
    const struct attn_tensor *q = e->job.operands.by_role[ATTN_Q];
    int64_t next[REF_EVERY_QUERIES];

    e->queries = 0;
    memset(e->start, 0, (REF_EVERY_QUERIES + 1) * sizeof *e->start);
    for (int64_t i = 0, n; i < p->sq; i++) {
        double *row = seen + e->queries * p->dq;
        ref_load_vector(q, (const int64_t[]){e->block.b, e->block.h, i, 0}, p->dq, row);
        for (n = 0; n < e->queries; n++)
            if (!memcmp(seen + n * p->dq, row, (size_t)p->dq * sizeof *row))
                break;
        if (n == REF_EVERY_QUERIES)
            return false;
        e->queries += n == e->queries;
        e->query[i] = n;
        e->start[n + 1]++;
    }
    for (int64_t n = 0; n < e->queries; n++) {
        e->start[n + 1] += e->start[n];
        next[n] = e->start[n];
    }
    for (int64_t i = 0; i < p->sq; i++)
        e->order[next[e->query[i]]++] = i;
    return true;
}

/* Room for the answers of the largest query of these. */
static bool make_room(struct every *e, struct every_work *w, int64_t rows)
{
    if (rows <= w->capacity)
        return true;
    free(w->answers);
    w->answers = ref_alloc_doubles(rows, 2 * e->keys.dv + 2);
    w->capacity = w->answers ? rows : 0;
    return w->answers != NULL;
}

static void visit_rows(const struct every *e, const struct every_work *w, int64_t query,
                       void (*visit)(void *context, const struct ref_every_row *row), void *context)
{
    const struct attn_problem *p = e->job.operands.problem;
    const int64_t first = (e->block.b * p->hq + e->block.h) * p->sq, dv = p->dv;

    for (int64_t n = e->start[query]; n < e->start[query + 1]; n++) {
        const double *answer = w->answers + (n - e->start[query]) * (2 * dv + 2);
        const struct ref_every_row row = {.unit = first + e->order[n],
                                          .out = answer,
                                          .bound = answer + dv,
                                          .lse = answer[2 * dv],
                                          .lse_bound = answer[2 * dv + 1]};
        struct ref_sight sight;
        struct ref_run run;
        ref_sight_of(&e->job.operands, e->block.b, e->block.h, e->order[n], &sight);
        if (ref_sight_next(&sight, 0, &run) || e->job.empty_row != ATTN_EMPTY_UNIFORM)
            visit(context, &row);
    }
}

static bool all_signs(const struct ref_keys *keys)
{
    bool all = true;
    for (int64_t x = 0; x < keys->sk * keys->dv; x++)
        all = all && fabs(keys->v[x]) == 1.0;
    return all;
}

static int do_head(struct every *e, double *seen,
                   void (*visit)(void *context, const struct ref_every_row *row), void *context,
                   char *why, size_t size)
{
    const struct attn_tensor *sink = e->job.operands.by_role[ATTN_SINK];
    const struct attn_tensor *dilation = e->job.operands.by_role[ATTN_DILATION];
    const char *wrong = NULL;

    ref_keys_load(&e->job, &e->keys, e->block.b, e->block.h);
    e->sink_logit = sink ? ref_load(sink, &e->block.h) : -INFINITY;
    e->sink = e->sink_logit != -INFINITY;
    e->step = dilation ? (int64_t)ref_load(dilation, &e->block.h) : 1;
    if (e->sink && !isfinite(e->sink_logit))
        wrong = "a sink is not finite";
    else if (!all_signs(&e->keys))
        wrong = "a value is not 1 or -1";
    else if (!group_rows(e, seen))
        wrong = "a head has too many distinct queries";
    for (e->first_query = 0; !wrong && e->first_query < e->queries;) {
        int64_t left = e->queries - e->first_query;
        const int64_t count = left < e->job.threads ? left : e->job.threads;
        for (int64_t n = 0; n < count; n++)
            if (!make_room(e, &e->works[n],
                           e->start[e->first_query + n + 1] - e->start[e->first_query + n]))
                return ATTN_OUT_OF_MEMORY;
        attn_parallel_for(e->job.threads, count, 1, answer_queries, e);
        for (int64_t n = 0; n < count && !wrong; n++) {
            wrong = e->works[n].wrong;
            if (!wrong)
                visit_rows(e, &e->works[n], e->first_query + n, visit, context);
        }
        e->first_query += count;
    }
    if (wrong)
        snprintf(why, size, "not every row of b%lld h%lld can be computed: %s",
                 (long long)e->block.b, (long long)e->block.h, wrong);
    return wrong ? ATTN_UNSUPPORTED : ATTN_OK;
}

/* ---- all heads ---- */

static bool allocate(struct every *e)
{
    const struct attn_problem *p = e->job.operands.problem;
    const int64_t nodes = 2 * ((p->sk + EVERY_LEAF - 1) / EVERY_LEAF) + 2;
    bool ok = true;

    e->width = EVERY_COLUMNS + 2 * p->dv;
    e->query = calloc((size_t)p->sq + 1, sizeof *e->query);
    e->order = calloc((size_t)p->sq + 1, sizeof *e->order);
    e->start = calloc(REF_EVERY_QUERIES + 1, sizeof *e->start);
    e->works = calloc((size_t)e->job.threads, sizeof *e->works);
    e->job.scratch = ref_scratch_create(p, e->job.threads);
    for (int t = 0; e->works && e->job.scratch && t < e->job.threads; t++) {
        struct every_work *w = &e->works[t];
        w->scratch = &e->job.scratch[t];
        w->tree = ref_alloc_doubles(nodes, e->width);
        w->sum = ref_alloc_doubles(1, e->width);
        w->q = ref_alloc_doubles(1, p->dq);
        ok = ok && w->tree && w->sum && w->q;
    }
    return ok && e->query && e->order && e->start && e->works && e->job.scratch;
}

static void release(struct every *e)
{
    for (int t = 0; e->works && t < e->job.threads; t++) {
        free(e->works[t].tree);
        free(e->works[t].sum);
        free(e->works[t].q);
        free(e->works[t].answers);
    }
    free(e->works);
    free(e->query);
    free(e->order);
    free(e->start);
    ref_scratch_free(e->job.scratch, e->job.threads);
}

int ref_every_row(const struct attn_problem *problem, const struct ref_request *request,
                  void (*visit)(void *context, const struct ref_every_row *row), void *context,
                  char *why, size_t size)
{
    struct ref_result none = {0};
    struct every e = {.job = {.op = ref_op_find(problem->op),
                              .request = request,
                              .result = &none,
                              .bounds = true,
                              .threads = request->threads > 1 ? request->threads : 1}};
    const struct attn_tensor *lse = attn_tensor_find(problem, ATTN_LSE);
    int status;

    if (ref_check_problem(problem, why, size) != ATTN_OK || !ref_every_fits(problem, why, size))
        return ATTN_UNSUPPORTED;
    if (ref_op_is(problem->op, REF_ROWS_ALIKE))
        return ref_every_alike(problem, request, visit, context, why, size);
    ref_operands_init(&e.job.operands, problem);
    ref_shape_of_problem(e.job.op, problem, &e.job.shape);
    /* No chains: nothing of this is probabilistic. */
    ref_arithmetic_init(&e.job.arithmetic, problem, request->numerics, REF_FILL_STRUCTURED, 0.0);
    e.job.empty_row = request->numerics->empty_row;
    e.lse_dtype = lse ? lse->dtype : problem->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    status = ref_keys_create(&e.job, &e.keys);
    if (status != ATTN_OK) {
        snprintf(why, size, "the reference has no memory for its working arrays");
        return status;
    }
    double *seen = ref_alloc_doubles(REF_EVERY_QUERIES + 1, problem->dq);
    status = seen && allocate(&e) ? ATTN_OK : ATTN_OUT_OF_MEMORY;
    e.block = (struct ref_block){.job = &e.job, .keys = &e.keys};
    for (int64_t head = 0; head < problem->b * problem->hq && status == ATTN_OK; head++) {
        e.block.b = head / problem->hq;
        e.block.h = head % problem->hq;
        status = do_head(&e, seen, visit, context, why, size);
    }
    if (status == ATTN_OUT_OF_MEMORY)
        snprintf(why, size, "the reference has no memory for its working arrays");
    release(&e);
    free(seen);
    ref_keys_free(&e.keys);
    return status;
}
