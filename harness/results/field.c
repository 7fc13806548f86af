/* SPDX-License-Identifier: Apache-2.0 */
/* field.c - reads fields of records and of other JSON. */
#include "results/field.h"

#include <math.h>
#include <string.h>

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
