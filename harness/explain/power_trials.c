/* SPDX-License-Identifier: Apache-2.0 */
/* power_trials.c - chooses rows, and computes their scores once. */
#include "explain/power_trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain/mistakes.h"
#include "reference/dtype.h"

/* Scores of the lines together (of each stage), and multiply-adds of projections of one batch. */
static const double most_scores = 0x1p20, most_projection = 4e9, one_batch = 3e8;
enum { MOST_BATCHES = 3, MOST_HEADS = 4, MOST_QUERIES = 9, TILE = 64 };

/* The rows on which mistakes are tried: all combinations of these. */
struct choice {
    int64_t b[MOST_BATCHES], h[MOST_HEADS], i[MOST_QUERIES];
    int n_b, n_h, n_i;
};

static int add(int64_t *list, int n, int most, int64_t value)
{
    for (int k = 0; k < n; k++)
        if (list[k] == value)
            return n;
    if (n < most)
        list[n++] = value;
    return n;
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The place of a unit in a request; -1: it is not there. */
static int64_t place_of(const struct ref_units *units, int64_t unit)
{
    if (!units->index)
        return unit;
    const int64_t *found =
        bsearch(&unit, units->index, (size_t)units->count, sizeof unit, ascending);
    return found ? found - units->index : -1;
}

/* A query near the middle that was judged. */
static int64_t middle(const struct attn_power_trials *t, const struct ref_units *units, int64_t b,
                      int64_t h)
{
    const int64_t sq = t->problem->sq;
    const int64_t first = (t->projected ? b : b * t->problem->hq + h) * sq;
    for (int64_t step = 0; step <= sq / 2; step++) {
        if (place_of(units, first + sq / 2 - step) >= 0)
            return sq / 2 - step;
        if (sq / 2 + step < sq && place_of(units, first + sq / 2 + step) >= 0)
            return sq / 2 + step;
    }
    return 0;
}

/* A global query that was judged, of the first batch and head; one that is not global, if all or
 * none are. */
static int64_t first_global(const struct attn_power_trials *t, const struct ref_units *units)
{
    for (int64_t i = 0; i < t->problem->sq; i++)
        if (ref_is_global(&t->operands, 0, i) && place_of(units, i) >= 0)
            return i;
    return 0;
}

static void choose(const struct attn_power_trials *t, const struct ref_units *units,
                   struct choice *c)
{
    const struct attn_problem *p = t->problem;
    const double sk = (double)p->sk;
    *c = (struct choice){0};
    const int64_t batches[] = {0, p->b - 1, p->b / 2};
    const int64_t heads[] = {0, p->hq - 1, p->hq > 1, p->hq > 2 ? p->hq - 2 : 0};
    const int64_t m = middle(t, units, 0, 0), last = middle(t, units, p->b - 1, p->hq - 1);
    const int64_t queries[] = {0, p->sq - 1, m, m + 1, m ^ TILE, last, last + 1, last ^ TILE};
    const bool large = sk * 8 * MOST_HEADS > most_scores;
    const int n_b = large || (t->projected && sk * (double)p->hkv * (double)(p->dk + p->dv) *
                                                      (double)p->hq * (double)p->dv >
                                                  one_batch)
                        ? 1
                        : MOST_BATCHES;
    for (int k = 0; k < n_b; k++)
        c->n_b = add(c->b, c->n_b, MOST_BATCHES, batches[k]);
    for (int k = 0; k < (large ? 2 : MOST_HEADS); k++)
        c->n_h = add(c->h, c->n_h, MOST_HEADS, heads[k]);
    for (int k = 0; k < (large || t->projected ? 5 : 8); k++)
        if (queries[k] < p->sq)
            c->n_i = add(c->i, c->n_i, MOST_QUERIES, queries[k]);
    c->n_i = add(c->i, c->n_i, MOST_QUERIES, first_global(t, units));
    qsort(c->i, (size_t)c->n_i, sizeof *c->i, ascending);
}

/* Columns that are compared: evenly spread. */
static int64_t *spread(int64_t width, int64_t most, int64_t *count)
{
    *count = width < most ? width : most;
    int64_t *columns = calloc((size_t)*count + 1, sizeof *columns);
    for (int64_t c = 0; columns && c < *count; c++)
        columns[c] = c * width / *count;
    return columns;
}

static bool make_columns(struct attn_power_trials *t)
{
    const struct attn_problem *p = t->problem;
    const int64_t most = t->projected ? p->dv : ATTN_POWER_COLUMNS;
    t->value_column = spread(p->dv, most, &t->n_value_columns);
    if (!t->projected) {
        t->column = spread(p->dv, most, &t->n_columns);
        return t->value_column && t->column;
    }
    const struct attn_tensor *w_o = t->operands.by_role[ATTN_W_O];
    const int64_t in = p->hq * p->dv;
    t->column = spread(w_o ? w_o->shape[0] : in, ATTN_POWER_COLUMNS, &t->n_columns);
    if (!t->column || !w_o)
        return t->column != NULL;
    t->w_o = calloc((size_t)(t->n_columns * in), sizeof *t->w_o);
    for (int64_t c = 0; t->w_o && c < t->n_columns; c++)
        ref_load_vector(w_o, (const int64_t[]){t->column[c], 0}, in, t->w_o + c * in);
    return t->w_o != NULL;
}

static bool make_room(struct attn_power_trials *t)
{
    const struct attn_problem *p = t->problem;
    const size_t lines = (size_t)t->n_lines, units = (size_t)t->n_units, sk = (size_t)p->sk;
    const size_t answer = (size_t)(t->n_columns + t->lines_of_unit);
    t->lines = calloc(lines, sizeof *t->lines);
    t->units = calloc(units, sizeof *t->units);
    t->scores = calloc(3 * lines * sk + 1, sizeof *t->scores);
    t->other = calloc(lines * sk + 1, sizeof *t->other);
    t->other_known = calloc(lines + 1, 1);
    t->values = calloc((size_t)(2 * p->b * p->hkv), sizeof *t->values);
    t->keys = calloc((size_t)(p->b * p->hkv), sizeof *t->keys);
    t->queries = calloc((size_t)(p->b * p->hq), sizeof *t->queries);
    t->weight = calloc(sk + 1, sizeof *t->weight);
    t->key = calloc(sk + 1, sizeof *t->key);
    t->head = calloc((size_t)(t->lines_of_unit * t->n_value_columns) + 1, sizeof *t->head);
    if (!t->lines || !t->units || !t->scores || !t->other || !t->other_known || !t->values ||
        !t->keys || !t->queries || !t->weight || !t->key || !t->head)
        return false;
    for (size_t u = 0; u < units; u++) {
        t->units[u].out = calloc(answer, sizeof *t->units[u].out);
        if (!t->units[u].out)
            return false;
        t->units[u].lse = t->units[u].out + t->n_columns;
    }
    return true;
}

/* The scores of all lines of one head. */
static bool score_head(struct attn_power_trials *t, int64_t b, int64_t h, double *block)
{
    const struct attn_power_slice slice = {
        .b = b, .h = h, .g = h / (t->problem->hq / t->problem->hkv)};
    double *stages[3];
    for (int s = 0; s < 3; s++)
        stages[s] = block + s * t->n_queries * t->problem->sk;
    return attn_power_score(t, &slice, stages);
}

/* Lines in the order of units: of attention by batch, head and query; of multi-head attention by
 * batch, query and head. */
static bool make_lines(struct attn_power_trials *t, const struct ref_units *units,
                       const struct choice *c)
{
    const struct attn_problem *p = t->problem;
    const int64_t heads = t->projected ? p->hq : c->n_h, nq = t->n_queries, sk = p->sk;
    for (int64_t b = 0; b < c->n_b; b++)
        for (int64_t k = 0; k < heads; k++) {
            const int64_t h = t->projected ? k : c->h[k];
            double *block = t->scores + (b * heads + k) * nq * 3 * sk;
            if (!score_head(t, c->b[b], h, block))
                return false;
            for (int64_t n = 0; n < nq; n++) {
                const int64_t unit = t->projected ? b * nq + n : (b * heads + k) * nq + n;
                const int64_t line = t->projected ? unit * heads + k : unit;
                const int64_t row = t->projected ? c->b[b] * p->sq + t->query[n]
                                                 : (c->b[b] * p->hq + h) * p->sq + t->query[n];
                t->lines[line] = (struct attn_power_line){.b = c->b[b], .h = h, .i = t->query[n]};
                for (int s = 0; s < 3; s++)
                    t->lines[line].score[s] = block + (s * nq + n) * sk;
                t->units[unit].place = place_of(units, row);
                t->units[unit].line = line - (t->projected ? k : 0);
            }
        }
    return true;
}

/* Do the right answers agree with those of the reference? Else nothing is said about others. */
static bool agrees(const struct attn_power_trials *t, const struct attn_evidence *e,
                   const struct attn_power_unit *unit)
{
    const int64_t width = ref_output_width(t->problem, 0);
    if (unit->place < 0)
        return true;
    for (int64_t c = 0; c < t->n_columns; c++) {
        const double want = e->ref->output[0].value[unit->place * width + t->column[c]];
        const double room = 1e-6 * fabs(want) + 1e-9 * t->largest;
        if (isfinite(want) && isfinite(unit->out[c]) && !(fabs(unit->out[c] - want) <= room))
            return false;
    }
    return true;
}

static bool answer_rightly(struct attn_power_trials *t, const struct attn_evidence *e)
{
    const struct attn_wrong right = {0};
    const int64_t rows = t->projected ? t->lines_of_unit : 1;
    for (int64_t u = 0; u < t->n_units; u++) {
        if (!attn_power_answer(t, &t->units[u], &right, t->units[u].out, t->units[u].lse))
            return false;
        for (int64_t c = 0; c < t->n_columns; c++)
            if (isfinite(t->units[u].out[c]))
                t->largest = fmax(t->largest, fabs(t->units[u].out[c]));
    }
    for (int64_t u = 0; u < t->n_units; u++) {
        bool empty = false; /* its answer is a rule of the plan */
        for (int64_t r = 0; t->units[u].place >= 0 && r < rows; r++)
            empty = empty || e->ref->allowed[t->units[u].place * rows + r] == 0;
        t->units[u].empty = empty;
        if (!empty && !agrees(t, e, &t->units[u]))
            return false;
    }
    return true;
}

/* False: nothing can be said about this instance; t->usable stays false. */
static bool fill_in(struct attn_power_trials *t, const struct attn_evidence *e)
{
    const struct ref_units *units = &e->request.units[0];
    const struct attn_problem *p = t->problem;
    struct choice c;
    if (!ref_is_softmax(p) || p->sk == 0 || units->count == 0 || !e->ref->allowed)
        return false;
    if (t->projected &&
        (double)p->sk * (double)p->hkv * (double)(p->dk + p->dv) * (double)p->hq * (double)p->dv >
            most_projection)
        return false;
    choose(t, units, &c);
    t->lines_of_unit = t->projected ? p->hq : 1;
    t->n_queries = c.n_i;
    t->n_units = (int64_t)c.n_b * (t->projected ? 1 : c.n_h) * c.n_i;
    t->n_lines = t->n_units * t->lines_of_unit;
    t->query = calloc((size_t)c.n_i + 1, sizeof *t->query);
    if (!t->query)
        return false;
    memcpy(t->query, c.i, (size_t)c.n_i * sizeof *t->query);
    return make_columns(t) && make_room(t) && make_lines(t, units, &c) && answer_rightly(t, e);
}

struct attn_power_trials *attn_power_trials_make(const struct attn_evidence *e)
{
    struct attn_power_trials *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->instance = e->instance;
    t->problem = &e->instance->problem;
    t->threads = e->request.threads;
    t->projected = ref_op_is(t->problem->op, REF_PROJECTED);
    ref_operands_init(&t->operands, t->problem);
    t->usable = fill_in(t, e);
    return t;
}

static void free_all(double **arrays, int64_t count)
{
    for (int64_t n = 0; arrays && n < count; n++)
        free(arrays[n]);
    free(arrays);
}

void attn_power_trials_drop(struct attn_power_trials *t)
{
    if (!t)
        return;
    free_all(t->values, 2 * t->problem->b * t->problem->hkv);
    free_all(t->keys, t->problem->b * t->problem->hkv);
    free_all(t->queries, t->problem->b * t->problem->hq);
    for (int64_t u = 0; t->units && u < t->n_units; u++)
        free(t->units[u].out);
    free(t->lines);
    free(t->units);
    free(t->query);
    free(t->column);
    free(t->value_column);
    free(t->scores);
    free(t->other);
    free(t->other_known);
    free(t->w_o);
    free(t->weight);
    free(t->key);
    free(t->head);
    free(t);
}
