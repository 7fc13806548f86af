/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - looks at text sequence by sequence. */
#include "case/text.h"

#include <string.h>

/* Beyond ASCII. U+2028 and U+2029 end lines. */
static bool steers_terminal(unsigned code)
{
    return (code >= 0x80 && code <= 0x9F) || code == 0x61C || code == 0x200E || code == 0x200F ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

/* Length of the UTF-8 sequence at `text` of at most `left` bytes; 0: none, or a control character.
 */
static size_t sequence_length(const unsigned char *text, size_t left)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (text[0] < 0x80)
        return text[0] >= 0x20 && text[0] != 0x7F;
    const size_t length = text[0] >= 0xF0 ? 4 : text[0] >= 0xE0 ? 3 : text[0] >= 0xC0 ? 2 : 0;
    if (length == 0 || text[0] > 0xF4 || length > left)
        return 0;
    unsigned code = text[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3Fu);
    }
    return code >= least[length] && code <= 0x10FFFF && !(code >= 0xD800 && code < 0xE000) &&
                   !steers_terminal(code)
               ? length
               : 0;
}

void attn_text_clean(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        const size_t sequence = sequence_length((const unsigned char *)text, left);
        if (sequence == 0)
            *text = '?';
        text += sequence ? sequence : 1;
        left -= sequence ? sequence : 1;
    }
}

bool attn_text_is_clean(const char *text)
{
    size_t left = strlen(text), sequence = 1;
    for (; left > 0 && sequence > 0; left -= sequence, text += sequence)
        sequence = sequence_length((const unsigned char *)text, left);
    return sequence > 0;
}

void attn_text_take(char *to, size_t size, const char *from, size_t from_size)
{
    const size_t length = strnlen(from, from_size);
    size_t i = 0, n = 0;
    while (i < length) {
        const size_t sequence = sequence_length((const unsigned char *)from + i, length - i);
        const size_t bytes = sequence ? sequence : 1;
        if (n + bytes >= size)
            break;
        if (sequence)
            memcpy(to + n, from + i, sequence);
        else
            to[n] = '?';
        n += bytes;
        i += bytes;
    }
    to[n] = 0;
}
