/* SPDX-License-Identifier: Apache-2.0 */
/* draft.c - draws of a random case line, and its words. */
#include "case/draft.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool attn_draft_percent(struct attn_draft *draft, unsigned share)
{
    return attn_draw_below(draft->state, 100) < share;
}

int64_t attn_draft_range(struct attn_draft *draft, int64_t low, int64_t high)
{
    return low + attn_draw_below(draft->state, (unsigned)(high - low) + 1);
}

int64_t attn_draft_number(struct attn_draft *draft, const int64_t *values, unsigned count)
{
    return values[attn_draw_below(draft->state, count)];
}

const char *attn_draft_name(struct attn_draft *draft, const char *const *names, unsigned count)
{
    return names[attn_draw_below(draft->state, count)];
}

void attn_draft_real(struct attn_draft *draft, double low, double high, char text[32])
{
    static const char *const formats[] = {"%.1f", "%.17g", "%.3g", "%.6f", "%.2e"};
    double value = low + (high - low) * ((double)(attn_draw(draft->state) >> 11) * 0x1p-53);
    const char *format = attn_draft_name(draft, formats, 5);
    do
        snprintf(text, 32, format, value);
    while (strtod(text, NULL) >= high && (value = low, true)); /* rounded up to the open end */
}

void attn_draft_axes(struct attn_draft *draft, char text[8])
{
    char letters[] = "bhqk";
    unsigned count = 1 + attn_draw_below(draft->state, 4);
    for (unsigned i = 0; i < count; i++) {
        unsigned other = i + attn_draw_below(draft->state, 4 - i);
        char letter = letters[i];
        letters[i] = letters[other];
        letters[other] = letter;
    }
    text[0] = '\0';
    if (attn_draft_percent(draft, 50))
        snprintf(text, 8, ":%.*s", (int)count, letters);
}

void attn_draft_word(struct attn_draft *draft, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(draft->words[draft->count++], ATTN_DRAFT_WORD_MAX, format, arguments);
    va_end(arguments);
    assert(length > 0 && length < ATTN_DRAFT_WORD_MAX && draft->count < ATTN_DRAFT_WORDS);
    (void)length;
}

/* Appends the texts in random order, with the separator between them. */
static size_t join(uint64_t *state, char texts[][ATTN_DRAFT_WORD_MAX], unsigned count,
                   char separator, char *to, size_t size)
{
    size_t length = 0;
    to[0] = '\0';
    while (count > 0) {
        unsigned chosen = attn_draw_below(state, count);
        if (length > 0)
            to[length++] = separator;
        length += (size_t)snprintf(to + length, size - length, "%s", texts[chosen]);
        assert(length + 1 < size);
        memmove(texts[chosen], texts[--count], ATTN_DRAFT_WORD_MAX);
    }
    return length;
}

void attn_draft_parts(struct attn_draft *draft, const char *key, const char *none,
                      char parts[][ATTN_DRAFT_WORD_MAX], unsigned count)
{
    char joined[ATTN_DRAFT_WORD_MAX];
    if (join(draft->state, parts, count, '+', joined, sizeof joined) > 0)
        attn_draft_word(draft, "%s=%s", key, joined);
    else if (attn_draft_percent(draft, 10))
        attn_draft_word(draft, "%s=%s", key, none);
}

void attn_draft_write(struct attn_draft *draft, char *text, size_t size)
{
    join(draft->state, draft->words, draft->count, ' ', text, size);
}
