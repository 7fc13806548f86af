/* SPDX-License-Identifier: Apache-2.0 */
/* approximations.c - see approximations.h */
#include "report/approximations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/ranking.h"
#include "report/series.h"
#include "report/text.h"
#include "results/statistics.h"

static const char *const sizes[] = {"b", "h",  "hq", "hkv", "s",  "sq",    "sk",
                                    "d", "dq", "dk", "dv",  "op", "dtype", NULL};
static const char *const inputs[] = {"fill", "data", NULL};

static bool is_one_of(const char *word, const char *const *list)
{
    const size_t length = strcspn(word, "= ");
    for (; *list; list++)
        if (strlen(*list) == length && memcmp(*list, word, length) == 0)
            return true;
    return false;
}

static void append(char *to, size_t size, const char *format, int length, const char *text)
{
    const size_t used = strlen(to);
    snprintf(to + used, size - used, format, length, text);
}

/* The fill, or the name of a pack up to its first dot. */
static void name_input(const char *line, struct attn_approximation *a)
{
    snprintf(a->input, sizeof a->input, "normal");
    for (const char *word = line; *(word += strspn(word, " ")); word += strcspn(word, " ")) {
        if (!is_one_of(word, inputs))
            continue;
        const int length = (int)strcspn(word, " ");
        const char *value = word + strcspn(word, "= "), *end = word + length;
        for (const char *c = value; c < end; c++)
            value = *c == '=' || *c == '/' ? c + 1 : value;
        snprintf(a->input, sizeof a->input, "%.*s", (int)strcspn(value, *word == 'd' ? ". " : " "),
                 value);
    }
}

static void name_variant(const struct attn_view_row *row, struct attn_approximation *a)
{
    snprintf(a->variant, sizeof a->variant, "%.40s", attn_field_text(row->sizes, "op"));
    for (const char *word = row->held; *(word += strspn(word, " ")); word += strcspn(word, " "))
        if (!is_one_of(word, inputs) && !is_one_of(word, sizes))
            append(a->variant, sizeof a->variant, " %.*s", (int)strcspn(word, " "), word);
}

/* Softmax attention with nothing else, or with a causal mask. */
static bool is_exact(const struct attn_view_row *row)
{
    if (strcmp(attn_field_text(row->sizes, "op"), "attention") != 0 ||
        strcmp(attn_field_text(row->sizes, "score"), "scaled_dot") != 0)
        return false;
    for (const char *word = row->held; *(word += strspn(word, " ")); word += strcspn(word, " "))
        if (!is_one_of(word, inputs) && !is_one_of(word, sizes) &&
            strncmp(word, "mask=causal", strcspn(word, " ")) != 0)
            return false;
    return true;
}

bool attn_approximation_sizes(const struct attn_view_row *x, const struct attn_view_row *y)
{
    static const char *const fields[] = {"dtype", "b",  "hq", "hkv",   "sq",
                                         "sk",    "dk", "dv", "causal"};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        if (!json_equal(json_object_get(x->sizes, fields[f]), json_object_get(y->sizes, fields[f])))
            return false;
    return x->threads == y->threads;
}

bool attn_approximation_times(const struct attn_view *view, const struct attn_view_row *row)
{
    return view->backends[row->backend].counted && attn_row_ranked(row) && !attn_row_cold(row);
}

static bool is_faster(const struct attn_view_row *row, const struct attn_view_row *than)
{
    return !than || row->median < than->median;
}

static void find_times(const struct attn_view *view, const struct attn_view_row *first,
                       struct attn_approximation *a)
{
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!attn_approximation_times(view, row))
            continue;
        if (strcmp(row->id, first->id) == 0 && row->threads == first->threads &&
            is_faster(row, a->row))
            a->row = row;
        else if (is_exact(row) && attn_approximation_sizes(row, first) && is_faster(row, a->exact))
            a->exact = row;
    }
    a->ratio = a->row && a->exact ? a->exact->median / a->row->median : (double)NAN;
}

static int same_family(const struct attn_approximation *x, const struct attn_approximation *y)
{
    const int by = strcmp(x->input, y->input);
    return by ? by : strcmp(x->variant, y->variant);
}

static int ordered(const void *a, const void *b)
{
    const struct attn_approximation *x = a, *y = b;
    const int by = same_family(x, y);
    return by ? by : (x->s > y->s) - (x->s < y->s);
}

static struct attn_approximation_family family_of(const struct attn_approximation *cases,
                                                  size_t count)
{
    struct attn_approximation_family f = {cases, count, NAN, NAN};
    double *s = calloc(2 * count, sizeof *s), *peaks = s + count;
    size_t n = 0;
    for (size_t i = 0; s && i < count; i++)
        if (cases[i].row && cases[i].row->peak > 0) {
            s[n] = cases[i].s;
            peaks[n++] = cases[i].row->peak;
        }
    if (n >= ATTN_SERIES_LEAST)
        f.order = attn_loglog_slope(s, peaks, n);
    free(s);
    for (size_t i = count; i-- > 0;)
        if (cases[i].ratio > 1 && !(f.crossover == INFINITY))
            f.crossover = cases[i].s;
        else if (cases[i].ratio <= 1 && isnan(f.crossover))
            f.crossover = INFINITY;
        else if (cases[i].ratio <= 1)
            break;
    return f;
}

static int by_length(const void *a, const void *b)
{
    const struct attn_approximation_family *x = a, *y = b;
    const double s = x->cases[x->count - 1].s, t = y->cases[y->count - 1].s;
    return s != t ? (s < t) - (s > t) : (x->cases > y->cases) - (x->cases < y->cases);
}

static const json_t *error_of(const struct attn_view_row *row)
{
    const json_t *error = json_object_get(row->verify, "approximation");
    return json_is_object(error) && row->sizes ? error : NULL;
}

/* Is a row the first of its case that has the figures? Backends and caches share them. */
static bool is_new(const struct attn_view *view, size_t r)
{
    for (size_t earlier = 0; earlier < r; earlier++)
        if (error_of(&view->rows[earlier]) &&
            strcmp(view->rows[earlier].id, view->rows[r].id) == 0 &&
            view->rows[earlier].threads == view->rows[r].threads)
            return false;
    return true;
}

int attn_approximations_create(const struct attn_view *view, struct attn_approximations *out)
{
    *out =
        (struct attn_approximations){.cases = calloc(view->n_rows + 1, sizeof *out->cases),
                                     .families = calloc(view->n_rows + 1, sizeof *out->families)};
    if (!out->cases || !out->families) {
        attn_approximations_free(out);
        return -1;
    }
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        const json_t *error = error_of(row);
        if (!error || !is_new(view, r))
            continue;
        struct attn_approximation *a = &out->cases[out->n_cases++];
        *a = (struct attn_approximation){.s = attn_field_number(row->sizes, "sk"), .error = error};
        name_input(row->line, a);
        name_variant(row, a);
        find_times(view, row, a);
    }
    qsort(out->cases, out->n_cases, sizeof *out->cases, ordered);
    for (size_t first = 0, end; first < out->n_cases; first = end) {
        for (end = first + 1;
             end < out->n_cases && !same_family(&out->cases[first], &out->cases[end]);)
            end++;
        out->families[out->n_families++] = family_of(&out->cases[first], end - first);
    }
    qsort(out->families, out->n_families, sizeof *out->families, by_length);
    return 0;
}

void attn_approximations_free(struct attn_approximations *approximations)
{
    free(approximations->cases);
    free(approximations->families);
    *approximations = (struct attn_approximations){0};
}
