/* SPDX-License-Identifier: Apache-2.0 */
/* message.h - one sentence about a file that may be hostile. */
#ifndef ATTN_PACK_MESSAGE_H
#define ATTN_PACK_MESSAGE_H

#include <stddef.h>

/* Writes "PATH: text" to (why, size). Control characters from the file become '?', so that no pack
 * can control a terminal. Always returns -1. */
int attn_pack_fail(const char *path, char *why, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
