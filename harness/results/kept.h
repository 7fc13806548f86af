/* SPDX-License-Identifier: Apache-2.0 */
/* kept.h - file names of the weights that a run keeps, for the writer and for the report. */
#ifndef ATTN_KEPT_H
#define ATTN_KEPT_H

#include <stddef.h>

/* The folder within a run folder, and the backend name used for the reference's weights. */
#define ATTN_KEPT_FOLDER    "tensors"
#define ATTN_KEPT_REFERENCE "reference"

enum { ATTN_KEPT_NAME_MAX = 160 };

/* "tensors/ID-BACKEND.safetensors"; with options "tensors/ID-BACKEND-CRC32.safetensors", the 8 hex
 * digits are the CRC-32 of the options' text. Returns 0, or -1 if id or backend is empty, too long,
 * or contains anything but letters, digits, '_' and '-'; only a damaged record does. */
int attn_kept_name(const char *id, const char *backend, const char *options,
                   char name[ATTN_KEPT_NAME_MAX]);

#endif
