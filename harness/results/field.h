/* SPDX-License-Identifier: Apache-2.0 */
/* field.h - reads fields that may be missing or have another type. */
#ifndef ATTN_FIELD_H
#define ATTN_FIELD_H

#include <jansson.h>
#include <stdbool.h>

/* Read a field. They give "", NAN, false or NULL if it is missing or has another type. `object` may
 * be NULL. attn_field_at follows a dotted path ("cpu.model"). */
const json_t *attn_field_at(const json_t *object, const char *path);
const char *attn_field_text(const json_t *object, const char *path);
double attn_field_number(const json_t *object, const char *path);
bool attn_field_true(const json_t *object, const char *path);

/* Cleans all texts in it, as case/text.h says, and drops values whose key is not clean: nobody here
 * has written that. */
void attn_json_clean(json_t *value);

/* The object in a regular file, cleaned, without duplicate keys. Returns 0, with NULL where there
 * is no such file, or -1 with the reason. */
int attn_json_load_object(const char *path, json_t **object, char *why, size_t size);

#endif
