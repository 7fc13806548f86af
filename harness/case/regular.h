/* SPDX-License-Identifier: Apache-2.0 */
/* regular.h - opens files that others have made, and nothing that could make us wait. */
#ifndef ATTN_REGULAR_H
#define ATTN_REGULAR_H

#include <stdio.h>

/* Opens a regular file for reading. NULL, with *why one phrase and errno: it cannot be read, or it
 * is a pipe, a device, a folder (errno: EINVAL). */
FILE *attn_regular_open(const char *path, const char **why);

#endif
