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

json_t *attn_json_load(const char *path, size_t flags, json_error_t *error)
{
    const char *why;
    FILE *file = attn_regular_open(path, &why);
    json_t *value = file ? json_loadf(file, flags, error) : NULL;
    attn_json_clean(value);
    if (file && error)
        attn_text_clean(error->text); /* it quotes the file */
    if (!file && error) {
        *error = (json_error_t){.line = errno == EINVAL ? 0 : -1};
        snprintf(error->text, sizeof error->text, "%s", why);
    }
    if (file)
        fclose(file);
    return value;
}
