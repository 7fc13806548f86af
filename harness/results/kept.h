/* SPDX-License-Identifier: Apache-2.0 */
/* kept.h - what the weights that a run keeps are called, so that the report finds them. */
#ifndef ATTN_KEPT_H
#define ATTN_KEPT_H

#include <stddef.h>

/* The folder within a run folder, and the backend under which the reference's own are kept. */
#define ATTN_KEPT_FOLDER    "tensors"
#define ATTN_KEPT_REFERENCE "reference"

enum { ATTN_KEPT_NAME_MAX = 160 };

/* "tensors/ID-BACKEND.safetensors"; with options "tensors/ID-BACKEND-CRC32.safetensors", the 8 hex
 * digits being the CRC-32 of the options' text. Returns 0, or -1 where id or backend is empty, too
 * long, or holds anything but letters, digits, '_' and '-', as only a strange record can. */
int attn_kept_name(const char *id, const char *backend, const char *options,
                   char name[ATTN_KEPT_NAME_MAX]);

#endif
