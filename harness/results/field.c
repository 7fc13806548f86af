/* SPDX-License-Identifier: Apache-2.0 */
/* field.c - reads fields of records and of other JSON. */
#include "results/field.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "case/regular.h"
#include "case/text.h"

const json_t *attn_field_at(const json_t *object, const char *path)
{
    while (object) {
        size_t length = strcspn(path, ".");
        object = json_object_getn(object, path, length);
        if (path[length] == '\0')
            return object;
        path += length + 1;
    }
    return NULL;
}

const char *attn_field_text(const json_t *object, const char *path)
{
    const char *text = json_string_value(attn_field_at(object, path));
    return text ? text : "";
}

double attn_field_number(const json_t *object, const char *path)
{
    const json_t *value = attn_field_at(object, path);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

bool attn_field_true(const json_t *object, const char *path)
{
    return json_is_true(attn_field_at(object, path));
}

void attn_json_clean(json_t *value)
{
    const char *key;
    json_t *item;
    size_t i;
    void *next;
    if (json_is_string(value)) /* which keeps its length */
        attn_text_clean((char *)(uintptr_t)json_string_value(value));
    json_array_foreach(value, i, item) attn_json_clean(item);
    json_object_foreach_safe(value, next, key, item)
    {
        if (attn_text_is_clean(key))
            attn_json_clean(item);
        else
            json_object_del(value, key);
    }
}

int attn_json_load_object(const char *path, json_t **object, char *why, size_t size)
{
    const char *reason;
    json_error_t error;
    *object = NULL;
    FILE *file = attn_regular_open(path, &reason);
    if (!file && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (!file) {
        snprintf(why, size, "%s: %s", path, reason);
        return -1;
    }
    json_t *value = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    attn_json_clean(value);
    attn_text_clean(error.text); /* it quotes the file */
    if (json_is_object(value)) {
        *object = value;
        return 0;
    }
    if (value)
        snprintf(why, size, "%s, line 1: not a JSON object", path);
    else if (error.line < 0) /* the parser has not begun */
        snprintf(why, size, "%s: %s", path, strerror(ENOMEM));
    else
        snprintf(why, size, "%s, line %d: %s", path, error.line, error.text);
    json_decref(value);
    return -1;
}
