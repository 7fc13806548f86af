/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c - finds the partner of every result. */
#include "report/pairs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/case.h"
#include "results/field.h"

static bool is_timed(const struct attn_view_row *row)
{
    double *medians = NULL;
    size_t n = attn_status_holds(row->status) ? attn_view_round_medians(row->bench, &medians) : 0;
    free(medians);
    return n > 0;
}

static bool has_label(const struct attn_view *view, const char *label)
{
    for (size_t b = 0; b < view->n_backends; b++)
        if (view->backends[b].cases && strcmp(view->backends[b].label, label) == 0)
            return true;
    return false;
}

/* A name given by the user: of the backend with these options, or of the backend with any options
 * where the run has none of exactly this label. */
static bool is_named(const struct attn_view *view, const struct attn_view_backend *backend,
                     const char *name)
{
    return strcmp(backend->label, name) == 0 ||
           (strcmp(backend->name, name) == 0 && !has_label(view, name));
}

static bool has_backend(const struct attn_view *view, const char *name)
{
    for (size_t b = 0; b < view->n_backends; b++)
        if (view->backends[b].cases && is_named(view, &view->backends[b], name))
            return true;
    return false;
}

/* "avx2" of the label "base_avx2" and the name "base": what --plugin base=FILE calls the backends
 * of a file that has several. NULL: the label is none of these. */
static const char *offered_by(const char *label, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(label, name, n) == 0 && label[n] == '_' ? label + n + 1 : NULL;
}

/* Of one run, A and B: two backends, never a result with itself, or two names of --plugin, whose
 * backends go in pairs. */
static bool belong_within(const char *const names[2], const struct attn_view *view,
                          const struct attn_view_backend *base,
                          const struct attn_view_backend *next)
{
    if (has_backend(view, names[0]) || has_backend(view, names[1]))
        return is_named(view, base, names[0]) && is_named(view, next, names[1]) &&
               strcmp(base->label, next->label) != 0;
    const char *a = offered_by(base->label, names[0]), *b = offered_by(next->label, names[1]);
    return a && b && strcmp(a, b) == 0 && strcmp(names[0], names[1]) != 0;
}

/* Whether a base backend is to be held against a new one. A map entry A=B takes A from the base
 * where the base has it, else from the new run; whoever is mapped is paired with no one else. */
static bool belong(const struct attn_compare_options *options, const struct attn_pairs *pairs,
                   const struct attn_view_backend *base, const struct attn_view_backend *next)
{
    if (!base->counted || !next->counted)
        return false;
    if (options->backends[0] && options->backends[1])
        return belong_within(options->backends, &pairs->base, base, next);
    bool mapped = false;
    for (int m = 0; m < options->n_map; m++) {
        const char *from = options->map[m][0], *to = options->map[m][1];
        if (!has_backend(&pairs->base, from)) {
            from = options->map[m][1];
            to = options->map[m][0];
        }
        const bool is_from = is_named(&pairs->base, base, from);
        const bool is_to = is_named(&pairs->next, next, to);
        if (is_from && is_to)
            return true;
        mapped = mapped || is_from || is_to;
    }
    return !mapped && strcmp(base->label, next->label) == 0;
}

/* Whether results of a backend are part of the comparison: it is held against one of the other run,
 * or that run has none of this name. Then its results are missing there. */
static bool takes_part(const struct attn_compare_options *options, const struct attn_pairs *pairs,
                       const struct attn_view_backend *backend, bool is_base)
{
    const struct attn_view *other = is_base ? &pairs->next : &pairs->base;
    for (size_t b = 0; b < other->n_backends; b++) {
        const struct attn_view_backend *candidate = &other->backends[b];
        if (is_base ? belong(options, pairs, backend, candidate)
                    : belong(options, pairs, candidate, backend))
            return true;
    }
    return backend->counted && !options->backends[0] && !has_label(other, backend->label);
}

static bool same_threads(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* id -> array of row numbers. */
static json_t *index_rows(const struct attn_view *view)
{
    json_t *index = json_object();
    for (size_t r = 0; index && r < view->n_rows; r++) {
        json_t *list = json_object_get(index, view->rows[r].id);
        if (!list) {
            list = json_array();
            if (json_object_set_new(index, view->rows[r].id, list) != 0) {
                json_decref(index);
                return NULL;
            }
        }
        json_array_append_new(list, json_integer((json_int_t)r));
    }
    return index;
}

/* The new row of a base row: the one of the same cache state, else one that was never timed. */
static const struct attn_view_row *partner(const struct attn_compare_options *options,
                                           const struct attn_pairs *pairs, const json_t *index,
                                           const struct attn_view_row *row)
{
    const struct attn_view_row *untimed = NULL;
    size_t i;
    json_t *number;
    json_array_foreach(json_object_get(index, row->id), i, number)
    {
        const struct attn_view_row *candidate = &pairs->next.rows[json_integer_value(number)];
        if (!same_threads(row->threads, candidate->threads) ||
            !belong(options, pairs, &pairs->base.backends[row->backend],
                    &pairs->next.backends[candidate->backend]))
            continue;
        if (candidate->bench && strcmp(candidate->cache, row->cache) == 0)
            return candidate;
        if (!is_timed(candidate))
            untimed = candidate;
    }
    return untimed;
}

/* Seconds of one run of a result that was not timed because it takes too long; else NAN. */
static double seconds_of_too_long(const struct attn_view_row *row)
{
    static const char took[] = "a run took ";
    double predicted;
    if (strncmp(row->untimed, took, strlen(took)) == 0)
        return attn_field_number(row->verify, "seconds");
    return sscanf(row->reason, "budget: a run is predicted to take %lf s", &predicted) == 1
               ? predicted
               : (double)NAN;
}

/* The new result has no time because its one run took too long, or would have, and far longer than
 * in the base. Noise, a first touch of memory or a prediction may double it, not more. */
static bool became_too_slow(const struct attn_pair *pair)
{
    return 1e9 * seconds_of_too_long(pair->next) > 2 * pair->base->median;
}

static void settle(struct attn_pair *pair, const struct attn_compare_options *options)
{
    pair->verdict = ATTN_SAME;
    if (!pair->next) {
        pair->verdict = ATTN_ONLY_BASE;
    } else if (!is_timed(pair->next)) {
        /* What refuses a case that was done before has broken it, unless for want of time or
         * memory; that one of two backends of a run cannot do it is a difference. */
        bool refused = pair->next->status == ATTN_SKIP && !attn_row_lacks_means(pair->next) &&
                       !options->backends[0];
        const bool slow = !options->backends[0] && became_too_slow(pair);
        bool broke = refused || slow || pair->next->status == ATTN_FAIL ||
                     pair->next->status == ATTN_SUSPECT ||
                     (pair->next->status >= ATTN_CRASH && pair->next->status <= ATTN_ERROR);
        pair->verdict = broke ? ATTN_BROKE : ATTN_ONLY_BASE;
        pair->reason = slow && *pair->next->untimed ? pair->next->untimed : pair->next->reason;
    }
}

/* Was a case right that nobody timed, and is it no longer? A gate has to say so. */
static bool went_wrong(const struct attn_view_row *row, const struct attn_view_row *other)
{
    return row->first && attn_status_holds(row->status) && !attn_status_holds(other->status) &&
           other->status != ATTN_SKIP;
}

static int fill(const struct attn_compare_options *options, struct attn_pairs *pairs,
                const json_t *index, bool *matched)
{
    const struct attn_view *base = &pairs->base, *next = &pairs->next;
    size_t room = base->n_rows + next->n_rows;
    pairs->items = calloc(room ? room : 1, sizeof *pairs->items);
    if (!pairs->items)
        return -1;
    for (size_t r = 0; r < base->n_rows; r++) {
        const struct attn_view_row *row = &base->rows[r];
        if (!takes_part(options, pairs, &base->backends[row->backend], true))
            continue;
        const struct attn_view_row *other = partner(options, pairs, index, row);
        if (other)
            matched[other - next->rows] = true;
        if (!is_timed(row)) {
            if (other)
                matched[other - next->rows] = !is_timed(other);
            if (!options->gate || !other || !went_wrong(row, other))
                continue;
        }
        struct attn_pair *pair = &pairs->items[pairs->count++];
        *pair = (struct attn_pair){.base = row, .next = other, .row = row, .reason = ""};
        pair->ratio = (struct attn_ratio){NAN, 0, INFINITY, -1, 1};
        pair->p = NAN;
        pair->base_label = base->backends[row->backend].label;
        pair->next_label = other ? next->backends[other->backend].label : pair->base_label;
        settle(pair, options);
    }
    for (size_t r = 0; r < next->n_rows; r++) {
        const struct attn_view_row *row = &next->rows[r];
        const char *label = next->backends[row->backend].label;
        if (matched[r] || !is_timed(row) ||
            !takes_part(options, pairs, &next->backends[row->backend], false))
            continue;
        pairs->items[pairs->count++] = (struct attn_pair){.next = row,
                                                          .row = row,
                                                          .base_label = label,
                                                          .next_label = label,
                                                          .reason = "",
                                                          .verdict = ATTN_ONLY_NEW,
                                                          .p = NAN,
                                                          .ratio = {NAN, 0, INFINITY, -1, 1}};
    }
    return 0;
}

int attn_pairs_create(const struct attn_run_data *base, const struct attn_run_data *next,
                      const struct attn_compare_options *options, struct attn_pairs *pairs,
                      char *why, size_t size)
{
    json_t *index = NULL;
    bool *matched = NULL;
    int status = -1;
    memset(pairs, 0, sizeof *pairs);
    if (attn_view_create(base->records, base->machine, &pairs->base, why, size) != 0 ||
        attn_view_create(next->records, next->machine, &pairs->next, why, size) != 0)
        goto out;
    index = index_rows(&pairs->next);
    matched = calloc(pairs->next.n_rows + 1, sizeof *matched);
    if (!index || !matched || fill(options, pairs, index, matched) != 0) {
        snprintf(why, size, "no memory for the comparison");
        goto out;
    }
    status = 0;
out:
    json_decref(index);
    free(matched);
    if (status != 0)
        attn_pairs_free(pairs);
    return status;
}

/* The backend with the name nearest to `name`, or NULL. */
static const char *nearest_backend(const struct attn_view *view, const char *name)
{
    const char *near = NULL;
    for (size_t b = 0; b < view->n_backends; b++) {
        const char *candidates[] = {view->backends[b].name, near};
        if (view->backends[b].cases)
            near = attn_nearest(name, candidates, near ? 2 : 1);
    }
    return near;
}

void attn_pairs_explain_none(const struct attn_pairs *pairs,
                             const struct attn_compare_options *options, char *why, size_t size)
{
    for (int n = 0; n < 2; n++) {
        const char *name = options->backends[n];
        if (!name || has_backend(&pairs->base, name))
            continue;
        const char *near = nearest_backend(&pairs->base, name);
        snprintf(why, size, "nothing to compare: the run has no backend '%.100s'%s%.100s%s", name,
                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        return;
    }
    const bool itself = options->backends[0] && options->backends[1] &&
                        strcmp(options->backends[0], options->backends[1]) == 0;
    snprintf(why, size, "nothing to compare: %s",
             itself ? "A and B are the same backend" : "no result was timed on both sides");
}

void attn_pairs_free(struct attn_pairs *pairs)
{
    free(pairs->items);
    attn_view_free(&pairs->base);
    attn_view_free(&pairs->next);
    memset(pairs, 0, sizeof *pairs);
}
