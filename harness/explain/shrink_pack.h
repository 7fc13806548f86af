/* SPDX-License-Identifier: Apache-2.0 */
/* shrink_pack.h - cuts a smaller pack out of one that fails. Private to this folder. */
#ifndef ATTN_SHRINK_PACK_H
#define ATTN_SHRINK_PACK_H

#include <stdbool.h>
#include <stddef.h>

struct attn_shrink_pack_way {
    const char *from, *to; /* the pack, and the file that its part is written to */
    void *context;
    /* Does the pack in this file fail so. */
    bool (*fails)(void *context, const char *path);
};

/* Leaves out expected answers, tensors that need not be there and words of the case line, and cuts
 * batches, heads, queries, keys and columns off either end, as long as `fails` says so. The last
 * call of it that is true is of what `to` holds in the end. Returns false with the reason, and then
 * leaves no file: it cannot be read or written, or does not fail. */
bool attn_shrink_pack(const struct attn_shrink_pack_way *way, char *why, size_t size);

#endif
