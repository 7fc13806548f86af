/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - the argument of --shard: I/N, or "auto", which asks the engine that started us. */
#ifndef ATTN_CLI_SHARD_H
#define ATTN_CLI_SHARD_H

#include <stddef.h>

#include "run/shard.h"

/* The variable that holds N where an engine does not say it; where it does, both must agree. */
#define ATTN_SHARDS_VARIABLE "ATTNBENCH_SHARDS"

/* Reads "3/8", or with "auto" the environment (harness/cli/README.md lists the variables).
 * Returns 0, or -1 with the reason, which names the variables that are wrong or disagree. */
int attn_shard_parse(const char *text, struct attn_shard *shard, char *why, size_t size);

#endif
