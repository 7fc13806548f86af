/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - results.ndjson: one JSON object a line, append-only, each line sealed by a crc32.
 *
 * Field names are a stable interface; they are listed in harness/results/README.md. */
#ifndef ATTN_RECORD_H
#define ATTN_RECORD_H

#include <jansson.h>
#include <stddef.h>

/* Appends one record to an open file descriptor: the object's fields in the order they were set,
 * then "crc32" as the last field: 8 hex digits of the CRC-32 over the bytes of the line before
 * `,"crc32"`. Synced before it returns; a failed write is taken back. Takes no ownership. Returns
 * 0, or -1 with errno (EINVAL: no object, an empty one, or one with a crc32 of its own). */
int attn_record_append(int fd, const json_t *record);

/* Opens a results.ndjson to append to, creating it, and first cuts the torn last line that a run
 * cut short may have left (the next record would otherwise be glued to it). Returns 0 with *fd, or
 * -1 with the reason. */
int attn_record_open(const char *path, int *fd, char *why, size_t size);

/* All intact records of a results.ndjson, in order, as a new array, without their crc32. A torn
 * last line (one without newline: a run cut short) is dropped and counted in *torn, which may be
 * NULL; any other damage is an error that names the line. Returns NULL with the reason. */
json_t *attn_record_read(const char *path, int *torn, char *why, size_t size);

#endif
