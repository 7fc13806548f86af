/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - makes text that others have written safe to print. A terminal obeys control characters,
 * U+0080 to U+009F among them, and a page or a terminal shows text in another order after those
 * that turn its direction, as U+202E. */
#ifndef ATTN_TEXT_H
#define ATTN_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Each byte of such a character, and each that is no UTF-8, becomes '?'. */
void attn_text_clean(char *text);

/* Would attn_text_clean leave it as it is? */
bool attn_text_is_clean(const char *text);

/* Copies at most `from_size` bytes of a text, cleaned, and no part of a character. */
void attn_text_take(char *to, size_t size, const char *from, size_t from_size);

#endif
