/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - which shards of which cases are there: a JSON list that does not depend on the order in
 * which runs were added.
 *
 * An item is {`sha256` `cases` `count` `present` `unfinished`}: the selection (run/shard.h), into
 * how many shards it was cut, and the numbers of those that are there and that are there and not
 * finished. Once all are present it is {`sha256` `cases`} alone, whatever the cut was. */
#ifndef ATTN_MERGE_PARTS_H
#define ATTN_MERGE_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The list of one run: of its machine.json, or, if it was merged itself, of its `parts` (else
 * NULL). NULL: no memory. */
json_t *attn_parts_of(const json_t *machine, const json_t *parts, bool finished);

/* The list of both. NULL: no memory. */
json_t *attn_parts_unite(const json_t *a, const json_t *b);

/* How many shards are missing or unfinished; (text, size) names them: "shard 3 of 8 is missing". */
size_t attn_parts_missing(const json_t *parts, char *text, size_t size);

#endif
