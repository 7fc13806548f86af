/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - results.ndjson: one JSON object per line, append-only, each line sealed by a crc32.
 *
 * Field names are a stable interface; they are listed in harness/results/README.md. */
#ifndef ATTN_RECORD_H
#define ATTN_RECORD_H

#include <jansson.h>
#include <stddef.h>

/* JSON has no infinities and no NaN: a number that is not finite is null. */
json_t *attn_json_number(double value);

/* Appends one record to an open file descriptor: the object's fields in the order they were set,
 * then "crc32" as the last field: 8 hex digits of the CRC-32 over the bytes of the line before
 * `,"crc32"`. Syncs before it returns, and undoes a failed write. Takes no ownership. Returns 0, or
 * -1 with errno (EINVAL: no object, an empty object, or an object that has a crc32 already). */
int attn_record_append(int fd, const json_t *record);

/* Opens a results.ndjson for appending and creates it if needed. First cuts a torn last line, which
 * an interrupted run may have left; otherwise the next record would continue that line. Returns 0
 * with *fd, or -1 with the reason. */
int attn_record_open(const char *path, int *fd, char *why, size_t size);

/* Reads all records of a results.ndjson into a new array, in order and without their crc32. Drops a
 * torn last line (one without newline, left by an interrupted run) and counts it in *torn, which
 * may be NULL. Any other damage is an error that names the line: returns NULL with the reason. */
json_t *attn_record_read(const char *path, int *torn, char *why, size_t size);

#endif
