/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - packs: real tensors and third-party answers, as safetensors files with a case line. */
#ifndef ATTN_PACK_H
#define ATTN_PACK_H

#include "case/case.h"
#include "tensor/types.h"

/* Opens FILE.safetensors far enough to know its case: parses the case line of its metadata, takes
 * sizes and type from the tensors, checks every name, shape and type, hashes the bytes. The case
 * gets data = path; its name is the file's stem unless it has one. Returns 0, or -1 with one
 * sentence. */
int attn_pack_case(const char *path, struct attn_case *out, char *why, size_t size);

/* The same for a case line with data=: fills its sizes and hash, and refuses a line that
 * contradicts the pack. Does nothing for a case without data=. */
int attn_pack_resolve(struct attn_case *c, char *why, size_t size);

/* Fills an instance whose case names a pack (called by attn_instance_create). */
int attn_pack_load(struct attn_instance *instance, char *why, size_t size);

#endif
