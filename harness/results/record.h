/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - results.ndjson: one JSON object a line, append-only, each line sealed by a crc32.
 *
 * Field names are a stable interface; they are listed in harness/results/README.md. */
#ifndef ATTN_RECORD_H
#define ATTN_RECORD_H

#include <jansson.h>
#include <stddef.h>

/* Appends one record to an open file descriptor: the object's fields, then "crc32" as the last
 * field: 8 hex digits of the CRC-32 over the bytes of the line before `,"crc32"`. Synced before it
 * returns. Takes no ownership. Returns 0, or -1 with errno. */
int attn_record_append(int fd, const json_t *record);

/* All intact records of a results.ndjson, in order, as a new array. A torn last line (a run cut
 * short) is dropped and counted in *torn; a damaged line elsewhere is an error that names it.
 * Returns NULL with the reason. */
json_t *attn_record_read(const char *path, int *torn, char *why, size_t size);

#endif
