/* SPDX-License-Identifier: Apache-2.0 */
/* provenance.h - where the results of a run come from: the first line of its journal. */
#ifndef ATTN_PROVENANCE_H
#define ATTN_PROVENANCE_H

#include <jansson.h>

#include "run/session.h"

/* {`verb`, `machine` (as machine.json, without ceilings), `settings` {`cache` `fills` `checks`
 * `run_limit_s` `count`}}: all that makes results of one session unlike those of another. NULL: no
 * memory. */
json_t *attn_provenance_json(const struct attn_session *session, const char *verb);

/* How `next` differs from `base`, for a reader: "commit is "a", now "b"; number of rounds ...".
 * What compare would refuse between two runs counts, and so do commit, plugin files, rounds,
 * settings and shard; not the budget, nor which of the machine's processors are allowed. Returns
 * how many differences there are, or -1: no memory. */
int attn_provenance_compare(const json_t *base, const json_t *next, char *text, size_t size);

#endif
