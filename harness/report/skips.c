/* SPDX-License-Identifier: Apache-2.0 */
/* skips.c - skips and missing timings, counted by reason and backend. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/grid.h"

static bool is_digit(char c)
{
    return isdigit((unsigned char)c) != 0;
}

/* The reason with N for each number; digits inside a word, as in f32, belong to the word. */
static void pattern_of(const char *reason, char *pattern, size_t size)
{
    size_t used = 0;
    char before = ' ';
    while (*reason && used + 1 < size) {
        bool inside = isalnum((unsigned char)before) || before == '_';
        if (!is_digit(*reason) || inside) {
            before = *reason++;
            pattern[used++] = before;
            continue;
        }
        while (is_digit(*reason) || (*reason == '.' && is_digit(reason[1])))
            reason++;
        pattern[used++] = before = 'N';
    }
    pattern[used] = '\0';
}

static size_t number_length(const char *text)
{
    size_t n = 0;
    while (is_digit(text[n]) || (n > 0 && text[n] == '.' && is_digit(text[n + 1])))
        n++;
    return n;
}

/* Writes N for each number of the item's reason that the other has not. Both have the pattern. */
static void keep_common(struct attn_skip_reason *item, const char *reason, const char *pattern)
{
    char common[sizeof item->reason];
    size_t used = 0;
    const char *mine = item->reason;
    for (; *pattern && used + 1 < sizeof common; pattern++) {
        const size_t n = number_length(reason);
        if (*pattern != 'N' || n == 0) {
            common[used++] = *pattern;
            mine++, reason++;
            continue;
        }
        const size_t m = number_length(mine);
        const bool same = m == n && strncmp(mine, reason, n) == 0 && used + n < sizeof common;
        memcpy(common + used, same ? reason : pattern, same ? n : 1);
        used += same ? n : 1;
        mine += m ? m : 1;
        reason += n;
    }
    common[used] = '\0';
    memcpy(item->reason, common, used + 1);
}

/* The entry of this reason, added when new; NULL without memory. */
static struct attn_skip_reason *entry_of(struct attn_skips *skips, const char *reason,
                                         size_t n_backends)
{
    char pattern[sizeof skips->items->reason], other[sizeof pattern];
    pattern_of(reason, pattern, sizeof pattern);
    for (size_t i = 0; i < skips->count; i++) {
        struct attn_skip_reason *item = &skips->items[i];
        pattern_of(item->reason, other, sizeof other);
        if (strcmp(other, pattern) != 0)
            continue;
        /* The numbers stay as long as they agree. */
        if (strncmp(item->reason, reason, sizeof item->reason - 1) != 0)
            keep_common(item, reason, pattern);
        return item;
    }
    if (skips->count == skips->room) {
        size_t room = skips->room ? 2 * skips->room : 16;
        struct attn_skip_reason *more = reallocarray(skips->items, room, sizeof *more);
        if (!more)
            return NULL;
        skips->items = more;
        skips->room = room;
    }
    struct attn_skip_reason *item = &skips->items[skips->count];
    *item = (struct attn_skip_reason){.counts = calloc(n_backends, sizeof *item->counts)};
    if (!item->counts)
        return NULL;
    snprintf(item->reason, sizeof item->reason, "%s", reason);
    skips->count++;
    return item;
}

static int compare_skips(const void *a, const void *b)
{
    const struct attn_skip_reason *x = a, *y = b;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return strcmp(x->reason, y->reason);
}

/* NULL: it was not skipped. */
static const char *why_skipped(const struct attn_view_row *row)
{
    return row->status != ATTN_SKIP ? NULL : *row->reason ? row->reason : "no reason given";
}

/* NULL: it was timed, refused or wrong. One reason, whether it was verified or not. */
static const char *why_untimed(const struct attn_view_row *row)
{
    return *row->untimed               ? row->untimed
           : attn_row_lacks_means(row) ? attn_reason_text(row->reason)
                                       : NULL;
}

static int collect(const struct attn_view *view,
                   const char *(*reason_of)(const struct attn_view_row *row),
                   struct attn_skips *skips)
{
    *skips = (struct attn_skips){0};
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        const char *reason = reason_of(row);
        if (!row->first || !reason || !view->backends[row->backend].counted)
            continue;
        struct attn_skip_reason *item = entry_of(skips, reason, view->n_backends);
        if (!item) {
            attn_skips_free(skips);
            return -1;
        }
        item->counts[row->backend]++;
        item->total++;
    }
    if (skips->count)
        qsort(skips->items, skips->count, sizeof *skips->items, compare_skips);
    return 0;
}

int attn_skips_create(const struct attn_view *view, struct attn_skips *skips)
{
    return collect(view, why_skipped, skips);
}

int attn_untimed_create(const struct attn_view *view, struct attn_skips *skips)
{
    return collect(view, why_untimed, skips);
}

void attn_skips_free(struct attn_skips *skips)
{
    for (size_t i = 0; i < skips->count; i++)
        free(skips->items[i].counts);
    free(skips->items);
    *skips = (struct attn_skips){0};
}
