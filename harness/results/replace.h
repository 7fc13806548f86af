/* SPDX-License-Identifier: Apache-2.0 */
/* replace.h - writes a file beside its place and renames it: a reader finds the old one or the new
 * one, whole. A link in that place is replaced, not followed. */
#ifndef ATTN_REPLACE_H
#define ATTN_REPLACE_H

#include <stddef.h>

/* Returns 0, or -1 with errno; then the old file is as it was, and nothing lies beside it. What is
 * there and is no regular file (a device, a pipe) is written to as it is. */
int attn_replace(const char *path, const char *text, size_t length);

/* Writes all bytes, over signals and short writes. Returns 0, or -1 with errno. */
int attn_write_all(int fd, const char *text, size_t length);

#endif
