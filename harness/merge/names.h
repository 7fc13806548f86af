/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - texts, each kept once and numbered, so that a million records share them. */
#ifndef ATTN_MERGE_NAMES_H
#define ATTN_MERGE_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct attn_merge_names {
    char *text; /* one behind the other, each with its NUL */
    size_t used, room;
    size_t *at;      /* where name i begins */
    uint32_t *slots; /* hash table: the number of a name and 1; 0: free */
    uint32_t count, n_slots;
};

/* The number of a text, which is added when it is new. Returns 0, or -1: no memory, or too many. */
int attn_merge_names_add(struct attn_merge_names *names, const char *text, uint32_t *number);

/* Valid until the next attn_merge_names_add. */
const char *attn_merge_names_text(const struct attn_merge_names *names, uint32_t number);

/* The place of each name in order, by attn_merge_names_compare. NULL: no memory. The caller frees
 * it. */
uint32_t *attn_merge_names_ranks(const struct attn_merge_names *names);

/* As strcmp, but digits that follow each other are a number: "s=512" before "s=4096". */
int attn_merge_names_compare(const char *a, const char *b);

void attn_merge_names_free(struct attn_merge_names *names);

#endif
