/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - one line of results.ndjson: a JSON object, sealed by a crc32. journal.h has the file.
 *
 * Field names are a stable interface; they are listed in harness/results/README.md. */
#ifndef ATTN_RECORD_H
#define ATTN_RECORD_H

#include <jansson.h>
#include <stddef.h>

/* JSON has no infinities and no NaN: a number that is not finite is null. */
json_t *attn_json_number(double value);

/* How many allocations of JSON have been refused in this process. Jansson leaves out what it found
 * no memory for, and goes on: a value is whole if this number is the same before and after. */
unsigned attn_json_refusals(void);
/* Counts one more: memory for something else was refused, and what is said lacks it. */
void attn_note_refusal(void);

/* A record is made from here on: what was refused memory before is no part of it. */
void attn_record_begin(void);

/* The line of a record, with its newline: the object's fields in the order they were set, then
 * "crc32" as the last field: 8 hex digits of the CRC-32 over the bytes of the line before
 * `,"crc32"`. The caller frees it. NULL with errno: EINVAL (no object, an empty object, or one that
 * has a crc32 already), or ENOMEM, also if any JSON was refused memory since attn_record_begin or
 * the last line: the record may lack a field. */
char *attn_record_seal(const json_t *record, size_t *length);

/* The same of a record that is text: `{` and its fields, without the closing brace. NULL: no
 * memory. */
char *attn_record_seal_text(const char *text, size_t summed, size_t *length);

/* Bytes at the end of a line, before its newline, that are no part of the record. */
enum { ATTN_RECORD_SEAL = 20 };

/* The record of a line without its newline, and without its crc32; cleaned (attn_json_clean,
 * field.h). NULL with what is wrong with the line, as words that follow "line 3". */
json_t *attn_record_unseal(const char *line, size_t length, const char **wrong);

#endif
