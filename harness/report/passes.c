/* SPDX-License-Identifier: Apache-2.0 */
/* passes.c - see passes.h */
#include "report/passes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/ranking.h"
#include "report/series.h"
#include "report/text.h"

enum { KEY = 1024 };

static bool is_op(const struct attn_view_row *row, const char *op)
{
    return strcmp(attn_field_text(row->sizes, "op"), op) == 0;
}

static bool is_timed(const struct attn_view *view, const struct attn_view_row *row)
{
    return view->backends[row->backend].counted && attn_row_ranked(row) && !attn_row_cold(row);
}

void attn_pass_words(const struct attn_view_row *row, char *text, size_t size)
{
    static const char *const left_out[] = {"op", "out"};
    char words[KEY];
    attn_series_words(row->line, left_out, 2, words, sizeof words);
    snprintf(text, size, "%s", words + strspn(words, " "));
}

static void key_of(const struct attn_view_row *row, char key[2 * KEY])
{
    char words[KEY];
    attn_pass_words(row, words, sizeof words);
    snprintf(key, (size_t)2 * KEY, "%zu|%g|%s", row->backend, row->threads, words);
}

/* The forward pass with out= has further outputs to write, and so is not the same work. */
static bool has_outputs(const struct attn_view_row *row)
{
    return strncmp(row->line, "out=", 4) == 0 || strstr(row->line, " out=");
}

/* Indices of rows by key. NULL: no memory. */
static json_t *forward_passes(const struct attn_view *view)
{
    char key[2 * KEY];
    json_t *found = json_object();
    for (size_t r = 0; found && r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!is_timed(view, row) || !is_op(row, "attention") || has_outputs(row))
            continue;
        key_of(row, key);
        if (json_object_set_new(found, key, json_integer((json_int_t)r)) != 0) {
            json_decref(found);
            return NULL;
        }
    }
    return found;
}

/* The two were no turns of one case, so their ratio is that of their own rounds. */
static struct attn_ratio ratio_of(const struct attn_view_row *backward,
                                  const struct attn_view_row *forward)
{
    double *over = NULL, *under = NULL;
    const size_t n_over = attn_view_round_medians(backward->bench, &over);
    const size_t n_under = attn_view_round_medians(forward->bench, &under);
    struct attn_ratio ratio = {backward->median / forward->median, 0, INFINITY, -1, 1};
    if (n_over && n_under)
        ratio = attn_ratio_of(under, n_under, over, n_over);
    free(over);
    free(under);
    return ratio;
}

int attn_passes_create(const struct attn_view *view, struct attn_passes *out)
{
    char key[2 * KEY];
    json_t *forward = forward_passes(view);
    *out = (struct attn_passes){.pairs = calloc(view->n_rows + 1, sizeof *out->pairs)};
    if (!forward || !out->pairs) {
        json_decref(forward);
        attn_passes_free(out);
        return -1;
    }
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!is_timed(view, row) || !is_op(row, "attention_backward"))
            continue;
        key_of(row, key);
        const json_t *at = json_object_get(forward, key);
        if (!at)
            continue;
        const struct attn_view_row *other = &view->rows[json_integer_value(at)];
        out->pairs[out->count++] = (struct attn_pass_pair){other, row, ratio_of(row, other)};
    }
    json_decref(forward);
    return 0;
}

void attn_passes_free(struct attn_passes *passes)
{
    free(passes->pairs);
    *passes = (struct attn_passes){0};
}

const struct attn_pass_pair *attn_passes_find(const struct attn_passes *passes,
                                              const struct attn_view_row *backward)
{
    for (size_t i = 0; i < passes->count; i++)
        if (passes->pairs[i].backward == backward)
            return &passes->pairs[i];
    return NULL;
}
