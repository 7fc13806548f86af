/* SPDX-License-Identifier: Apache-2.0 */
/* shrink_words.h - leaves words out of a case line. Private to this folder. */
#ifndef ATTN_SHRINK_WORDS_H
#define ATTN_SHRINK_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct attn_words {
    void *context;
    /* The current line. */
    void (*line)(void *context, char *text, size_t size);
    /* Tries a shorter one; true: it is kept. */
    bool (*keep)(void *context, const char *line);
};

/* Tries the line without each word (and the words that need it), and without each part of a word.
 * Returns whether anything was left out. */
bool attn_words_shrink(const struct attn_words *words);

#endif
