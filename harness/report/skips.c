/* SPDX-License-Identifier: Apache-2.0 */
/* skips.c - skips and missing timings, counted by reason and backend. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/grid.h"

static bool is_digit(char c)
{
    return isdigit((unsigned char)c) != 0;
}

/* Stands for a number in a pattern; no reason has it. */
#define NUMBER '\001'

/* The reason with a mark for each number; digits inside a word, as in f32, belong to the word. */
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
        pattern[used++] = NUMBER;
        before = '0';
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

/* Takes over those numbers of another reason with the item's pattern that are larger. After the
 * word "over" those that are smaller, because "over 8 times" is true of 9 times as well. */
static void widen(struct attn_skip_reason *item, const char *reason)
{
    static const char over[] = "over ";
    const size_t n_over = strlen(over);
    char merged[sizeof item->reason];
    size_t used = 0;
    const char *mine = item->reason;
    uint64_t bit = 1;
    for (const char *at = item->pattern; *at && *mine && *reason; at++) {
        if (*at != NUMBER) {
            merged[used++] = *at;
            mine++, reason++;
            continue;
        }
        const size_t m = number_length(mine), n = number_length(reason);
        const bool same = m == n && strncmp(mine, reason, n) == 0;
        const bool least = used >= n_over && memcmp(merged + used - n_over, over, n_over) == 0;
        const bool other = !same && (strtod(reason, NULL) > strtod(mine, NULL)) != least;
        if (used + (other ? n : m) + strlen(at) > sizeof merged)
            return; /* no room for the longer number */
        memcpy(merged + used, other ? reason : mine, other ? n : m);
        used += other ? n : m;
        item->differs |= same || least ? 0 : bit;
        mine += m, reason += n;
        bit <<= 1;
    }
    merged[used] = '\0';
    memcpy(item->reason, merged, used + 1);
}

/* Says of each number that is not the same for all that it is the largest. */
static void say_largest(struct attn_skip_reason *item)
{
    static const char up_to[] = "up to ";
    char said[sizeof item->reason];
    size_t used = 0;
    uint64_t bit = 1;
    const char *mine = item->reason;
    for (const char *at = item->pattern; *at && *mine; at++) {
        const size_t n = *at == NUMBER ? number_length(mine) : 1;
        const size_t before = *at == NUMBER && (item->differs & bit) ? strlen(up_to) : 0;
        if (used + before + n + 1 > sizeof said)
            break;
        memcpy(said + used, up_to, before);
        memcpy(said + used + before, mine, n);
        used += before + n;
        mine += n;
        bit <<= *at == NUMBER;
    }
    said[used] = '\0';
    memcpy(item->reason, said, used + 1);
}

/* The entry of this reason, added when new; NULL without memory. */
static struct attn_skip_reason *entry_of(struct attn_skips *skips, const char *reason,
                                         size_t n_backends)
{
    char pattern[sizeof skips->items->pattern], cut[sizeof skips->items->reason];
    snprintf(cut, sizeof cut, "%s", reason);
    pattern_of(cut, pattern, sizeof pattern);
    for (size_t i = 0; i < skips->count; i++) {
        struct attn_skip_reason *item = &skips->items[i];
        if (strcmp(item->pattern, pattern) != 0)
            continue;
        widen(item, cut);
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
    memcpy(item->reason, cut, sizeof cut);
    memcpy(item->pattern, pattern, sizeof pattern);
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
    for (size_t i = 0; i < skips->count; i++)
        say_largest(&skips->items[i]);
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
