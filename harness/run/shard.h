/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - the part of the cases that one process of many works on. */
#ifndef ATTN_SHARD_H
#define ATTN_SHARD_H

#include <stddef.h>

struct attn_shard {
    int index, count; /* 1-based part of how many; 0, 0: all cases */
    char from[32];    /* "--shard", or the variable that says so */
};

/* What a command's cases are before a shard is cut from them: the same in all shards of a run. */
struct attn_selection {
    size_t cases;    /* different ids */
    char sha256[65]; /* of the ids, sorted, a newline behind each */
};

/* Which of `count` shards, numbered from 1, has the case with this id. Depends on nothing else: the
 * id is the start of a SHA-256, and this is its 64 bits modulo `count`. */
int attn_shard_of(const char *id, int count);

#endif
