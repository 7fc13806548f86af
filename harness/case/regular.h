/* SPDX-License-Identifier: Apache-2.0 */
/* regular.h - opens files that others have made, and nothing that could make us wait. */
#ifndef ATTN_REGULAR_H
#define ATTN_REGULAR_H

#include <stdio.h>

/* Opens a regular file for reading. NULL, with *why one phrase and errno: it cannot be read, or it
 * is a pipe, a device, a folder (errno: EINVAL). */
FILE *attn_regular_open(const char *path, const char **why);

/* All bytes of one, and a NUL behind them; the caller frees it. NULL, with *why one phrase and
 * errno: it cannot be read, or has over `most` bytes (EFBIG). */
char *attn_regular_read(const char *path, size_t most, size_t *length, const char **why);

#endif
