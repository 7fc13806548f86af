/* SPDX-License-Identifier: Apache-2.0 */
/* every_query.c - all rows of one query: a tree of sums over its keys, and from it each row.
 * BOUND.md ("Every row") derives the bound. */
#include "reference/every_query.h"

#include <math.h>
#include <string.h>

#include "reference/clones.h"
#include "reference/score.h"

/* Scores of one query are never this far apart: p is a normal number in double. */
#define MOST_SPREAD 600.0

/* ---- the tree of one query ---- */

ATTN_CLONES("avx2", "avx512f")
static void add_node(double *restrict sum, const double *restrict node, int64_t width)
{
    sum[EVERY_MOST] = node[EVERY_MOST] > sum[EVERY_MOST] ? node[EVERY_MOST] : sum[EVERY_MOST];
    for (int64_t c = EVERY_WEIGHT; c < width; c++)
        sum[c] += node[c];
}

static void clear_sum(double *sum, int64_t width)
{
    memset(sum, 0, (size_t)width * sizeof *sum);
    sum[EVERY_MOST] = -INFINITY;
}

/* Adds keys from, from + step, ... below `to` to a sum. */
ATTN_CLONES("avx2", "avx512f")
static void add_keys(const struct ref_keys *keys, const struct ref_scratch *x, int64_t from,
                     int64_t to, int64_t step, double *restrict sum)
{
    const int64_t dv = keys->dv;
    double *restrict weighted = sum + EVERY_COLUMNS, *restrict grown = sum + EVERY_COLUMNS + dv;

    for (int64_t j = from; j < to; j += step) {
        const double p = x->p[j], growth = x->growth[j], *restrict v = keys->v + j * dv;
        sum[EVERY_MOST] = x->score[2][j] > sum[EVERY_MOST] ? x->score[2][j] : sum[EVERY_MOST];
        sum[EVERY_WEIGHT] += p;
        sum[EVERY_GROWTH] += growth;
        sum[EVERY_LOWER] += x->store[j];
        for (int64_t c = 0; c < dv; c++)
            weighted[c] += p * v[c];
        for (int64_t c = 0; c < dv; c++)
            grown[c] += growth * v[c];
    }
}

/* Keys have places in the tree: first those that have the step's rest of the first key, then those
 * of the next, and so on. So a run in steps is a range of places. Without steps it is the order of
 * keys. */
static int64_t first_place(const struct every *e, const struct every_work *w, int64_t rest)
{
    const int64_t n = w->end - w->first, more = n % e->step;

    return n / e->step * rest + (rest < more ? rest : more);
}

/* Adds places [from, to) to a sum. */
static void add_places(const struct every *e, const struct every_work *w, int64_t from, int64_t to,
                       double *sum)
{
    for (int64_t rest = 0; from < to; rest++) {
        const int64_t first = first_place(e, w, rest), next = first_place(e, w, rest + 1);
        const int64_t stop = to < next ? to : next, key = w->first + rest;
        if (from >= next)
            continue;
        add_keys(&e->keys, w->scratch, key + (from - first) * e->step,
                 key + (stop - first - 1) * e->step + 1, e->step, sum);
        from = stop;
    }
}

static void build_tree(const struct every *e, struct every_work *w)
{
    const int64_t width = e->width, places = w->end - w->first;

    for (int64_t n = 0; n < w->leaves; n++) {
        const int64_t from = n * EVERY_LEAF,
                      to = from + EVERY_LEAF < places ? from + EVERY_LEAF : places;
        double *leaf = w->tree + (w->leaves + n) * width;
        clear_sum(leaf, width);
        add_places(e, w, from, to, leaf);
    }
    for (int64_t n = w->leaves - 1; n > 0; n--) {
        double *node = w->tree + n * width;
        memcpy(node, node + n * width, (size_t)width * sizeof *node);
        add_node(node, node + (n + 1) * width, width);
    }
}

/* Adds places [begin, end) to the sum: whole leaves by the tree, the rest key by key. */
static void add_range(const struct every *e, struct every_work *w, int64_t begin, int64_t end)
{
    int64_t left = (begin + EVERY_LEAF - 1) / EVERY_LEAF, right = end / EVERY_LEAF;

    if (left >= right) {
        add_places(e, w, begin, end, w->sum);
        return;
    }
    add_places(e, w, begin, left * EVERY_LEAF, w->sum);
    add_places(e, w, right * EVERY_LEAF, end, w->sum);
    for (left += w->leaves, right += w->leaves; left < right; left /= 2, right /= 2) {
        if (left % 2)
            add_node(w->sum, w->tree + left++ * e->width, e->width);
        if (right % 2)
            add_node(w->sum, w->tree + --right * e->width, e->width);
    }
}

/* Adds a run of keys to the sum. In a head with steps, keys side by side are a range for each rest.
 */
static void add_run(const struct every *e, struct every_work *w, const struct ref_run *run)
{
    const int64_t length = run->end - run->begin, side_by_side = run->step < e->step ? e->step : 1;

    for (int64_t n = 0; n < side_by_side && n < length; n++) {
        const struct ref_run part = {run->begin + n, run->end, e->step};
        const int64_t at = part.begin - w->first;
        const int64_t place = first_place(e, w, at % e->step) + at / e->step;
        add_range(e, w, place, place + ref_run_count(&part));
    }
}

/* ---- scores of one query ---- */

/* p, p (e^w - 1) and p e^-shift (1 - relative) of one term, in units of exp(top). */
static void weigh(const struct every *e, const struct every_work *w,
                  const struct ref_softmax *widest, double s, double ds, double *p, double *growth,
                  double *lower)
{
    double shift, relative;

    *p = exp(s - w->top);
    ref_bound_term(&e->job.arithmetic, widest, w->rise, s, ds, &shift, &relative);
    *growth = *p * expm1(shift + relative);
    *lower = relative < 1.0 ? *p * exp(-shift) * (1.0 - relative) : 0.0;
}

static void weigh_keys(const struct every *e, struct every_work *w)
{
    struct ref_scratch *x = w->scratch;
    const double n = log((double)(w->end - w->first) + 1.0);
    const struct ref_softmax widest = {.n = w->end - w->first,
                                       .max = w->top,
                                       .log_sum = n,
                                       .lse = fmax(fabs(w->top) + n, fabs(w->least))};

    for (int64_t j = w->first; j < w->end; j++)
        weigh(e, w, &widest, x->score[2][j], x->ds[j], &x->p[j], &x->growth[j], &x->store[j]);
    if (e->sink)
        weigh(e, w, &widest, e->sink_logit, e->job.arithmetic.three * fabs(e->sink_logit), &w->sink,
              &w->sink_growth, &w->sink_lower);
}

/* Keys among which are all that any row of the query sees. */
static void find_keys(const struct every *e, struct every_work *w, int64_t query)
{
    w->first = e->keys.sk;
    w->end = 0;
    for (int64_t n = e->start[query]; n < e->start[query + 1]; n++) {
        struct ref_sight sight;
        struct ref_run run;
        ref_sight_of(&e->job.operands, e->block.b, e->block.h, e->order[n], &sight);
        if (!ref_sight_next(&sight, 0, &run))
            continue;
        const int64_t end = sight.global ? sight.end : sight.near.end;
        w->first = run.begin < w->first ? run.begin : w->first;
        w->end = end > w->end ? end : w->end;
    }
    w->end = w->end > w->first ? w->end : w->first;
    w->leaves = (w->end - w->first + EVERY_LEAF - 1) / EVERY_LEAF;
}

/* Scores, their errors and weights of all keys of the query. */
static void score_keys(const struct every *e, struct every_work *w, int64_t query)
{
    const int64_t i = e->order[e->start[query]], n = w->end - w->first;
    struct ref_scratch *x = w->scratch;

    ref_load_vector(e->job.operands.by_role[ATTN_Q],
                    (const int64_t[]){e->block.b, e->block.h, i, 0}, e->keys.dq, w->q);
    w->top = e->sink ? e->sink_logit : -INFINITY;
    w->least = e->sink ? e->sink_logit : INFINITY;
    w->rise = e->sink ? e->job.arithmetic.three * fabs(e->sink_logit) : 0.0;
    w->sink = w->sink_growth = w->sink_lower = 0.0;
    if (n > 0) {
        ref_scores(&e->block, i, w->q, NULL, w->first, w->end, x);
        ref_score_errors(&e->block, i, w->q, NULL, NULL, w->first, w->end, x);
    }
    for (int64_t t = 0; t < n; t++) {
        const int64_t j = w->first + t;
        x->key[t] = j;
        w->top = ref_larger(x->score[2][j], w->top);
        w->least = x->score[2][j] < w->least ? x->score[2][j] : w->least;
        w->rise = x->ds[j] > w->rise ? x->ds[j] : w->rise;
    }
    if (n > 0 && (!(w->top - w->least <= MOST_SPREAD) || !isfinite(w->rise)))
        w->wrong = "scores of one query are too far apart";
    else if (ref_scores_overflow(&e->block, w->q, x, n))
        w->wrong = "a score may leave the range of its type";
    else
        weigh_keys(e, w);
}

/* ---- one row ---- */

/* rho of a column: the rounding of stored p, every one at its worst. With v = 1 or -1,
 * |v - ref| = 1 - v ref, and the larger of that and |v| is 1 + (|ref| - v ref) / 2. */
static double stored_sum(const struct ref_arithmetic *a, double upper, double upper_v, double lost,
                         double ref)
{
    if (a->denominator == 1)
        return a->u_p * upper + lost;
    lost *= 1.0 + fabs(ref);
    if (a->denominator == 2)
        return a->u_p * (upper - upper_v * ref) + lost;
    return a->u_p * (upper * (1.0 + 0.5 * fabs(ref)) - 0.5 * upper_v * ref) + lost;
}

static void bound_row(const struct every *e, const struct every_work *w,
                      const struct ref_softmax *row, double *answer)
{
    const struct ref_arithmetic *a = &e->job.arithmetic;
    const double *sum = w->sum, *out = answer;
    const int64_t dv = e->keys.dv;
    const double all = sum[EVERY_WEIGHT] + w->sink, sink_growth = w->sink_growth / all;
    const double lower = (sum[EVERY_LOWER] + w->sink_lower) / all;
    const double growth = sum[EVERY_GROWTH] / all,
                 upper = (sum[EVERY_WEIGHT] + sum[EVERY_GROWTH]) / all;
    const bool keys = row->n > 0;
    struct ref_row_bound bound;
    const double eta = ref_bound_sums(a, row, w->rise, lower, growth + sink_growth, upper, &bound);
    const double lost = (double)row->n * eta;
    double *error = answer + dv;

    for (int64_t c = 0; c < dv; c++) {
        const double ref = out[c], size = fabs(ref), grown = sum[EVERY_COLUMNS + dv + c] / all;
        const double upper_v = sum[EVERY_COLUMNS + c] / all + grown;
        const struct ref_column column = {
            .e1 = (fmax(growth - grown * ref, 0.0) + 0x1p-48 * growth + sink_growth * size) / lower,
            .size = upper / lower * (1.0 + a->u_p) + lost,
            .sum = (double)row->n,
            .rho = a->u_p > 0.0 ? stored_sum(a, upper / lower, upper_v / lower, lost, ref) : 0.0,
            .far = keys ? 1.0 + size : size,
            .high = keys ? 1.0 : 0.0};
        const double error_c =
            bound.overflows ? INFINITY : ref_bound_column(a, row, &bound, &column, ref, NULL);
        error[c] = ref_bound_final(a, e->job.operands.problem->dtype, ref, error_c);
    }
    answer[2 * dv + 1] =
        ref_bound_final(a, e->lse_dtype, row->lse, bound.overflows ? INFINITY : bound.lse_error);
}

/* A row without keys and sink, by rule. */
static void store_empty(const struct every *e, double *answer)
{
    const struct ref_arithmetic *a = &e->job.arithmetic;
    const bool nan = e->job.empty_row == ATTN_EMPTY_NAN;
    const double out = nan ? (double)NAN : 0.0, lse = nan ? (double)NAN : -INFINITY;
    const int64_t dv = e->keys.dv;

    for (int64_t c = 0; c < dv; c++) {
        answer[c] = out;
        answer[dv + c] = ref_bound_final(a, e->job.operands.problem->dtype, out, 0.0);
    }
    answer[2 * dv] = lse;
    answer[2 * dv + 1] = ref_bound_final(a, e->lse_dtype, lse, 0.0);
}

void ref_every_answer(const struct every *e, struct every_work *w, int64_t i, double *answer)
{
    struct ref_softmax row = {.sink = e->sink, .sink_logit = e->sink_logit};
    const int64_t dv = e->keys.dv;
    struct ref_sight sight;
    struct ref_run run;

    ref_sight_of(&e->job.operands, e->block.b, e->block.h, i, &sight);
    clear_sum(w->sum, e->width);
    for (int64_t from = 0; ref_sight_next(&sight, from, &run); from = run.end) {
        row.n += ref_run_count(&run);
        add_run(e, w, &run);
    }
    if (row.n == 0 && (!e->sink || e->job.empty_row == ATTN_EMPTY_NAN)) {
        store_empty(e, answer);
        return;
    }
    row.max = e->sink ? fmax(w->sum[EVERY_MOST], e->sink_logit) : w->sum[EVERY_MOST];
    const double all = w->sum[EVERY_WEIGHT] + w->sink;
    row.sum = all * exp(w->top - row.max);
    row.log_sum = log(row.sum);
    row.lse = row.max + row.log_sum;
    for (int64_t c = 0; c < dv; c++)
        answer[c] = w->sum[EVERY_COLUMNS + c] / all;
    answer[2 * dv] = row.lse;
    bound_row(e, w, &row, answer);
}

void ref_every_begin(const struct every *e, struct every_work *w, int64_t query)
{
    find_keys(e, w, query);
    score_keys(e, w, query);
    if (!w->wrong)
        build_tree(e, w);
}
