/* SPDX-License-Identifier: Apache-2.0 */
/* series.c - derives sweeps from sizes and case lines, not from names. */
#include "report/series.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "results/statistics.h"

/* Words of a canonical case line that follow the swept size, and so say nothing of the family. */
static const char *const swept_words[ATTN_SWEEP_COUNT][6] = {
    [ATTN_SWEEP_S] = {"sq", "sk", "s"},
    [ATTN_SWEEP_H] = {"hq", "hkv", "h"},
    [ATTN_SWEEP_D] = {"dq", "dk", "dv", "d"},
};
/* Words that the constants state from `sizes` instead. */
static const char *const stated_words[] = {"b",  "hq", "hkv", "h",     "sq", "sk",    "s",
                                           "dq", "dk", "dv",  "dtype", "op", "score", "mask"};

const char *attn_sweep_title(enum attn_sweep axis)
{
    static const char *const titles[] = {"sequence length S (queries = keys)", "query heads H",
                                         "head width d"};
    return titles[axis];
}

const char *attn_sweep_key(enum attn_sweep axis)
{
    static const char *const keys[] = {"S", "H", "d"};
    return keys[axis];
}

struct attn_series_kind attn_series_kind(size_t number)
{
    return (struct attn_series_kind){.axis = (enum attn_sweep)(number / 2 % ATTN_SWEEP_COUNT),
                                     .causal = number % 2,
                                     .backward = number >= ATTN_SERIES_KINDS / 2};
}

void attn_series_name(const struct attn_series *series, const char *kind, char *name, size_t size)
{
    snprintf(name, size, "%s_%s_%s%s", kind, attn_sweep_key(series->kind.axis),
             series->kind.causal ? "causal" : "full", series->kind.backward ? "_backward" : "");
}

void attn_series_title(const struct attn_series *series, const char *what, char *title, size_t size)
{
    snprintf(title, size, "%s%s over %s", what,
             series->kind.backward ? " of the backward pass" : "",
             attn_sweep_title(series->kind.axis));
}

static bool is_word(const char *word, size_t length, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count && list[i]; i++)
        if (strlen(list[i]) == length && memcmp(list[i], word, length) == 0)
            return true;
    return false;
}

size_t attn_series_words(const char *line, const char *const *list, size_t count, char *out,
                         size_t size)
{
    size_t used = 0, words = 0;
    out[0] = '\0';
    while (*(line += strspn(line, " "))) {
        size_t length = strcspn(line, " ");
        if (!is_word(line, strcspn(line, "= "), list, count) && used + length + 2 < size) {
            used += (size_t)snprintf(out + used, size - used, " %.*s", (int)length, line);
            words++;
        }
        line += length;
    }
    return words;
}

char *attn_series_of_lengths(const char *line)
{
    static const char *const follow[] = {"sq", "sk", "buckets"};
    const size_t size = strlen(line) + 3;
    char *family = malloc(size);
    if (family) {
        attn_series_words(line, follow, sizeof follow / sizeof *follow, family, size);
        memmove(family, family + (family[0] == ' '), strlen(family) + (family[0] != ' '));
    }
    return family;
}

static bool same_text(const json_t *sizes, const char *key, const char *want)
{
    return strcmp(attn_field_text(sizes, key), want) == 0;
}

/* The mask part of a canonical line, "" where there is none. */
static void mask_of(const char *line, char *mask, size_t size)
{
    mask[0] = '\0';
    while (*(line += strspn(line, " "))) {
        size_t length = strcspn(line, " ");
        if (strncmp(line, "mask=", 5) == 0)
            snprintf(mask, size, "%.*s", (int)length - 5, line + 5);
        line += length;
    }
}

/* Attention with its usual score, or an operator that has no scores; or the gradients of the
 * former. */
static bool is_plain(const json_t *sizes, bool backward)
{
    if (backward || same_text(sizes, "op", "attention_backward"))
        return backward && same_text(sizes, "op", "attention_backward") &&
               same_text(sizes, "score", "scaled_dot");
    return same_text(sizes, "op", "attention")
               ? same_text(sizes, "score", "scaled_dot")
               : attn_field_text(sizes, "op")[0] && !json_object_get(sizes, "score");
}

/* The swept size of a row, or NAN where it takes no part in such a sweep. */
static double position(const struct attn_view *view, const struct attn_view_row *row,
                       struct attn_series_kind kind)
{
    const json_t *s = row->sizes;
    char mask[64];
    if (!s || !view->backends[row->backend].counted || attn_row_cold(row))
        return NAN;
    if (!is_plain(s, kind.backward) || !same_text(s, "dtype", "f32"))
        return NAN;
    mask_of(row->line, mask, sizeof mask);
    if (strcmp(mask, kind.causal ? "causal" : "") != 0)
        return NAN;
    double sq = attn_field_number(s, "sq"), dk = attn_field_number(s, "dk");
    double hq = attn_field_number(s, "hq"), hkv = attn_field_number(s, "hkv");
    if (kind.axis == ATTN_SWEEP_S)
        return sq == attn_field_number(s, "sk") && sq > 0 ? sq : (double)NAN;
    if (kind.axis == ATTN_SWEEP_H)
        return hq > 0 && hkv > 0 ? hq : (double)NAN;
    double dv = attn_field_number(s, "dv");
    double dq = json_object_get(s, "dq") ? attn_field_number(s, "dq") : dk;
    return dk == dv && dq == dk && dk > 0 ? dk : (double)NAN;
}

/* What all cases of a family share. */
static size_t family_text(const struct attn_view_row *row, enum attn_sweep axis, char *out,
                          size_t size)
{
    char words[512];
    size_t count = attn_series_words(row->line, swept_words[axis], 6, words, sizeof words);
    const json_t *s = row->sizes;
    double ratio = attn_field_number(s, "hq") / attn_field_number(s, "hkv");
    snprintf(out, size, "%g|%g|%s", row->threads, axis == ATTN_SWEEP_H ? ratio : 0, words);
    return count;
}

/* A candidate: a family, with the sizes at which some backend has a figure. */
struct family {
    char text[600];
    size_t words, n;
    double x[64];
    double work; /* FLOPs of one run of every size */
};

static void add_point(struct family *family, double x, double flops)
{
    for (size_t i = 0; i < family->n; i++)
        if (family->x[i] == x)
            return;
    if (family->n == sizeof family->x / sizeof family->x[0])
        return;
    family->x[family->n++] = x;
    if (flops > 0 && isfinite(flops))
        family->work += flops;
}

/* Work first: edge cases come in families too, of many tiny sizes, which say nothing of speed. */
static bool tells_more(const struct family *a, const struct family *b)
{
    if (a->work != b->work)
        return a->work > b->work;
    return a->n != b->n ? a->n > b->n : a->words < b->words;
}

static int find_family(const struct attn_view *view, struct attn_series_kind kind,
                       struct family *best)
{
    json_t *seen = json_object();
    struct family *all = NULL;
    size_t n = 0;
    if (!seen)
        return -1;
    for (size_t r = 0; r < view->n_rows; r++) {
        struct family fresh = {0};
        double x = position(view, &view->rows[r], kind);
        if (isnan(x) || isnan(view->rows[r].gflops))
            continue;
        fresh.words = family_text(&view->rows[r], kind.axis, fresh.text, sizeof fresh.text);
        json_t *known = json_object_get(seen, fresh.text);
        size_t at = known ? (size_t)json_integer_value(known) : n;
        if (at >= n) {
            struct family *more = reallocarray(all, n + 1, sizeof *all);
            if (!more)
                break;
            all = more;
            at = n++;
            all[at] = fresh;
            json_object_set_new(seen, fresh.text, json_integer((json_int_t)at));
        }
        add_point(&all[at], x, attn_field_number(view->rows[r].bench, "flops"));
    }
    const struct family *top = NULL;
    for (size_t i = 0; i < n; i++)
        if (all[i].n >= ATTN_SERIES_LEAST && (!top || tells_more(&all[i], top)))
            top = &all[i];
    if (top)
        *best = *top;
    int status = top ? 0 : -1;
    free(all);
    json_decref(seen);
    return status;
}

/* "b=1, h=8, d=64, f32, no mask, 2 threads", the swept size left out. */
static void state_constants(struct attn_series *series, const struct attn_view_row *row)
{
    const json_t *s = row->sizes;
    char *out = series->constants;
    size_t size = sizeof series->constants, used = 0;
    double hq = attn_field_number(s, "hq"), hkv = attn_field_number(s, "hkv");
    double dk = attn_field_number(s, "dk"), dv = attn_field_number(s, "dv");
    double sq = attn_field_number(s, "sq"), sk = attn_field_number(s, "sk");
    char other[160], parts[5][96] = {0};
    if (!same_text(s, "op", "attention"))
        used = (size_t)snprintf(out, size, "%.60s", attn_field_text(s, "op"));
    snprintf(parts[0], sizeof parts[0], "b=%g", attn_field_number(s, "b"));
    if (series->kind.axis != ATTN_SWEEP_H)
        snprintf(parts[1], sizeof parts[1], hq == hkv ? "h=%g" : "hq=%g, hkv=%g", hq, hkv);
    else if (hq != hkv)
        snprintf(parts[1], sizeof parts[1], "hq/hkv=%g", hq / hkv);
    if (series->kind.axis != ATTN_SWEEP_S)
        snprintf(parts[2], sizeof parts[2], sq == sk ? "S=%g" : "sq=%g, sk=%g", sq, sk);
    if (series->kind.axis != ATTN_SWEEP_D)
        snprintf(parts[3], sizeof parts[3], dk == dv ? "d=%g" : "dk=%g, dv=%g", dk, dv);
    attn_series_words(row->line, stated_words, sizeof stated_words / sizeof stated_words[0], other,
                      sizeof other);
    snprintf(parts[4], sizeof parts[4], "f32, %s%.60s",
             series->kind.causal ? "causal mask" : "no mask", other);
    for (size_t i = 0; i < 5; i++)
        if (parts[i][0])
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", parts[i]);
    if (isfinite(row->threads))
        snprintf(out + used, size - used, ", %g thread%s", row->threads,
                 row->threads == 1 ? "" : "s");
}

static size_t backend_slot(struct attn_series *series, size_t backend)
{
    size_t slot = 0;
    while (slot < series->n_backends && series->backends[slot] != backend)
        slot++;
    return slot;
}

int attn_series_find(const struct attn_view *view, struct attn_series_kind kind,
                     struct attn_series *series)
{
    struct family family;
    if (find_family(view, kind, &family) != 0)
        return -1;
    memset(series, 0, sizeof *series);
    series->kind = kind;
    attn_sort_doubles(family.x, family.n);
    series->n_points = family.n < ATTN_SERIES_POINTS ? family.n : ATTN_SERIES_POINTS;
    series->left_out = family.n - series->n_points;
    memcpy(series->x, family.x, series->n_points * sizeof series->x[0]);

    /* Slots in the view's order of backends, so that colours do not depend on the sweep. */
    for (size_t b = 0; b < view->n_backends; b++) {
        bool present = false;
        for (size_t r = 0; r < view->n_rows && !present; r++) {
            char text[600];
            const struct attn_view_row *row = &view->rows[r];
            if (row->backend != b || isnan(position(view, row, kind)) ||
                strcmp(attn_row_mark(row), "n/a") == 0)
                continue;
            family_text(row, kind.axis, text, sizeof text);
            present = strcmp(text, family.text) == 0;
        }
        if (present && series->n_backends < ATTN_SERIES_BACKENDS)
            series->backends[series->n_backends++] = b;
        else
            series->left_out += present;
    }
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        char text[600];
        double x = position(view, row, kind);
        size_t slot = backend_slot(series, row->backend), point = 0;
        if (isnan(x) || slot == series->n_backends)
            continue;
        family_text(row, kind.axis, text, sizeof text);
        while (point < series->n_points && series->x[point] != x)
            point++;
        if (point == series->n_points || strcmp(text, family.text) != 0)
            continue;
        if (!series->constants[0])
            state_constants(series, row);
        series->cells[slot][point] = row;
    }
    return 0;
}

size_t attn_series_place(size_t *backends, size_t *count, size_t backend)
{
    size_t at = 0;
    while (at < *count && backends[at] != backend)
        at++;
    if (at == *count && at < ATTN_SERIES_BACKENDS)
        backends[(*count)++] = backend;
    return at;
}

void attn_series_legend(const char *label, const double *x, const double *y, size_t n, char *name,
                        size_t size)
{
    const double slope = n < ATTN_SERIES_LEAST ? (double)NAN : attn_loglog_slope(x, y, n);
    if (isfinite(slope))
        snprintf(name, size, "%s (slope %.2f)", label, slope);
    else
        snprintf(name, size, "%s", label);
}
