/* SPDX-License-Identifier: Apache-2.0 */
/* describe.h - an open, checked pack: its file, case and extents. Private to this folder. */
#ifndef ATTN_PACK_DESCRIBE_H
#define ATTN_PACK_DESCRIBE_H

#include "pack/safetensors.h"
#include "tensor/schema.h"
#include "tensor/types.h"

struct attn_pack {
    struct attn_st_file file;
    struct attn_case c;     /* complete: sizes, type, hash; data and name are not set */
    struct ref_shape shape; /* extents, with the tensors' own widths */
    double rtol, atol;
    int scores_stage; /* 0 raw, 1 softcap, 2 bias; 0 if there are no scores */
};

/* Opens a pack. Refuses it, with one sentence, unless names, types, shapes, lengths and metadata
 * all agree. Returns 0 or -1. Close the pack only after 0. */
int attn_pack_open(const char *path, struct attn_pack *pack, char *why, size_t size);
void attn_pack_close(struct attn_pack *pack);

/* describe.c: fills shape and case from the tensors. */
int attn_pack_describe(const char *path, struct attn_pack *pack, char *why, size_t size);

/* answers.c: metadata that belongs to the answers (rtol, atol, scores_stage, tokens), checked and
 * read; then the answers and tokens themselves, into an instance. */
int attn_pack_read_notes(const char *path, struct attn_pack *pack, char *why, size_t size);
int attn_pack_load_answers(const char *path, const struct attn_pack *pack,
                           struct attn_instance *instance, char *why, size_t size);

#endif
