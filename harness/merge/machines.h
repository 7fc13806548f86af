/* SPDX-License-Identifier: Apache-2.0 */
/* machines.h - one description (machine.json) of two that are alike. */
#ifndef ATTN_MERGE_MACHINES_H
#define ATTN_MERGE_MACHINES_H

#include <jansson.h>

/* A new description without `shard` and `selection`, from one or (b NULL) two. Where both agree,
 * that. Elsewhere a rule for which neither the order nor the number of descriptions matters:
 * `affinity` and `backends` are united; of `ceilings` and `throttled` the highest; of all else the
 * one whose JSON is less: the earliest `date`. NULL: no memory. */
json_t *attn_machines_unite(const json_t *a, const json_t *b);

#endif
