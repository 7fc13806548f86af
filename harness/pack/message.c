/* SPDX-License-Identifier: Apache-2.0 */
/* message.c - one sentence about a file that may be hostile. */
#include "pack/message.h"

#include <stdarg.h>
#include <stdio.h>

#include "case/text.h"

int attn_pack_fail(const char *path, char *why, size_t size, const char *format, ...)
{
    const int used = snprintf(why, size, "%s: ", path);
    if (used >= 0 && (size_t)used < size) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(why + used, size - (size_t)used, format, arguments);
        va_end(arguments);
    }
    if (size > 0)
        attn_text_clean(why);
    return -1;
}
