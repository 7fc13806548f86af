/* SPDX-License-Identifier: Apache-2.0 */
/* marks.c - words in place of figures, what they mean, and backends that have nothing else. */
#include "report/marks.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *mark, *meaning;
} known[ATTN_MARKS] = {
    {"FAIL", "wrong numbers"},
    {"untimed", "verified only"},
    {"n/a", "not supported"},
    {"budget", "no time for it"},
    {"memory", "no memory for it"},
    {"not run", "nobody asked for it"},
    {"crash", "its worker died"},
    {"timeout", "its worker did not answer"},
    {"oom", "out of memory"},
    {"error", "the backend gave up"},
    {"no base", "the baseline has no time"},
};

void attn_marks_add(struct attn_marks *marks, const char *mark)
{
    for (size_t m = 0; m < ATTN_MARKS; m++)
        marks->seen[m] = marks->seen[m] || strcmp(known[m].mark, mark) == 0;
}

void attn_marks_text(const struct attn_marks *marks, char *text, size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (size_t m = 0; m < ATTN_MARKS && used < size; m++)
        if (marks->seen[m])
            used += (size_t)snprintf(text + used, size - used, "%s%s, %s", used ? "; " : "",
                                     known[m].mark, known[m].meaning);
}

/* "mine (budget, n/a)"; returns its length. */
static size_t name_empty(const struct attn_view *view, const struct attn_series *all, size_t slot,
                         struct attn_marks *marks, char *text, size_t size)
{
    struct attn_marks here = {0};
    size_t used = (size_t)snprintf(text, size, "%.60s", view->backends[all->backends[slot]].label);
    for (size_t p = 0; p < all->n_points; p++)
        if (!attn_row_timed(all->cells[slot][p]))
            attn_marks_add(&here, attn_row_mark(all->cells[slot][p]));
    bool first = true;
    for (size_t m = 0; m < ATTN_MARKS && used < size; m++) {
        if (!here.seen[m])
            continue;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", first ? " (" : ", ", known[m].mark);
        first = false;
        marks->seen[m] = true;
    }
    if (!first && used < size)
        used += (size_t)snprintf(text + used, size - used, ")");
    return used;
}

void attn_series_keep(const struct attn_view *view, const struct attn_series *all,
                      bool (*has_figure)(const struct attn_view_row *row), struct attn_series *kept,
                      struct attn_marks *marks, char *names, size_t size)
{
    size_t used = 0;
    *kept = *all;
    kept->n_backends = 0;
    *names = '\0';
    for (size_t b = 0; b < all->n_backends; b++) {
        bool any = false;
        for (size_t p = 0; p < all->n_points; p++)
            any = any || (all->cells[b][p] && has_figure(all->cells[b][p]));
        if (any) {
            kept->backends[kept->n_backends] = all->backends[b];
            memcpy(kept->cells[kept->n_backends++], all->cells[b], sizeof all->cells[b]);
            continue;
        }
        if (used && used < size)
            used += (size_t)snprintf(names + used, size - used, ", ");
        if (used < size)
            used += name_empty(view, all, b, marks, names + used, size - used);
    }
}
