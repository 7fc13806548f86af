/* SPDX-License-Identifier: Apache-2.0 */
/* match.c - the nearest legal word, and globs. */
#include <ctype.h>
#include <string.h>

#include "case/case.h"

enum { WORD_MAX = 40 }; /* longer words are not typing errors */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Edits (insert, drop, replace, swap neighbours) that turn a into b: optimal string alignment,
 * three rows at a time. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        above[j] = before[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = above[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
            row[j] = least(row[j], least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *free_row = before;
        before = above;
        above = row;
        row = free_row;
    }
    return above[m];
}

const char *attn_nearest(const char *word, const char *const *candidates, size_t count)
{
    size_t n = strlen(word);
    if (n == 0 || n > WORD_MAX)
        return NULL;
    /* One error per word, two from six letters on, three from nine; never every letter. */
    size_t limit = n < 2 ? 0 : n < 6 ? 1 : n < 9 ? 2 : 3, best = limit + 1;
    const char *nearest = NULL;
    for (size_t c = 0; c < count; c++) {
        size_t m = strlen(candidates[c]);
        if (m > WORD_MAX)
            continue;
        size_t edits = distance(word, n, candidates[c], m);
        if (edits < best) {
            best = edits;
            nearest = candidates[c];
        }
    }
    return nearest;
}

bool attn_glob(const char *pattern, const char *text)
{
    /* On a mismatch the last star takes one more character. No other star is tried again. */
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}
