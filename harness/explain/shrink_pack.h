/* SPDX-License-Identifier: Apache-2.0 */
/* shrink_pack.h - cuts a smaller pack out of one that fails. Private to this folder. */
#ifndef ATTN_SHRINK_PACK_H
#define ATTN_SHRINK_PACK_H

#include <stdbool.h>
#include <stddef.h>

struct attn_shrink_pack_way {
    const char *from, *to; /* the pack, and the file that its part is written to */
    void *context;
    /* Does the pack in this file fail in the same way? */
    bool (*fails)(void *context, const char *path);
};

/* Leaves out expected answers, optional tensors and words of the case line, and cuts batches,
 * heads, queries, keys and columns off either end, as long as `fails` is true. In the end `to`
 * holds the last pack for which `fails` was true. Returns false with the reason, and then
 * leaves no file: it cannot be read or written, or does not fail. */
bool attn_shrink_pack(const struct attn_shrink_pack_way *way, char *why, size_t size);

#endif
