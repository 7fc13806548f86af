/* SPDX-License-Identifier: Apache-2.0 */
/* machines.c - unites two descriptions field by field. */
#include "merge/machines.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "results/field.h"

enum rule { LEAST, MOST, UNITED, NAMED };

static json_t *unite(const json_t *a, const json_t *b, enum rule rule);

/* As strcmp of their JSON. What finds no memory is last, and the caller notices elsewhere. */
static int compare_dumps(const json_t *a, const json_t *b)
{
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS;
    char *x = json_dumps(a, flags), *y = json_dumps(b, flags);
    const int order = x && y ? strcmp(x, y) : (x == NULL) - (y == NULL);
    free(x);
    free(y);
    return order;
}

static int by_value(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    if (json_is_number(x) && json_is_number(y)) {
        const double p = json_number_value(x), q = json_number_value(y);
        if (p != q)
            return p < q ? -1 : 1;
    }
    return compare_dumps(x, y);
}

/* By what names an item of `backends`, `rungs`, `reads` or `gemm`. */
static int by_name(const void *a, const void *b)
{
    static const char *const fields[] = {"name",    "options", "isa",  "level",
                                         "backend", "case",    "dtype"};
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int order = 0;
    for (size_t f = 0; f < sizeof fields / sizeof *fields && order == 0; f++)
        order = strcmp(attn_field_text(x, fields[f]), attn_field_text(y, fields[f]));
    return order;
}

/* Have the lists items of the same names, in the same order? */
static bool same_names(const json_t *a, const json_t *b)
{
    const size_t n = json_array_size(a);
    bool same = n == json_array_size(b);
    for (size_t i = 0; same && i < n; i++) {
        json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        same = by_name(&x, &y) == 0;
    }
    return same;
}

/* Item by item; a list that both have in the same order keeps it. */
static json_t *unite_items(const json_t *a, const json_t *b, enum rule rule)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(a); i++) {
        json_t *item = unite(json_array_get(a, i), json_array_get(b, i), rule);
        if (!item || json_array_append_new(list, item)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The items of both lists, sorted, each once. NAMED: items of one name become one. */
static json_t *unite_lists(const json_t *a, const json_t *b, enum rule rule)
{
    int (*const compare)(const void *, const void *) = rule == NAMED ? by_name : by_value;
    const size_t n = json_array_size(a), count = n + json_array_size(b);
    json_t **items = calloc(count + 1, sizeof *items), *list = items ? json_array() : NULL;
    for (size_t i = 0; list && i < count; i++)
        items[i] = i < n ? json_array_get(a, i) : json_array_get(b, i - n);
    if (list)
        qsort(items, count, sizeof *items, compare);
    for (size_t i = 0; list && i < count; i++) {
        const size_t last = json_array_size(list);
        json_t *before = last ? json_array_get(list, last - 1) : NULL;
        const bool again = before && compare(&before, &items[i]) == 0;
        int status = 0;
        if (!again)
            status = json_array_append(list, items[i]);
        else if (rule == NAMED)
            status = json_array_set_new(list, last - 1, unite(before, items[i], MOST));
        if (status) {
            json_decref(list);
            list = NULL;
        }
    }
    free(items);
    return list;
}

static enum rule rule_of(const char *key, enum rule rule)
{
    static const struct {
        const char *key;
        enum rule rule;
    } rules[] = {{"affinity", UNITED}, {"backends", NAMED}, {"rungs", NAMED},    {"reads", NAMED},
                 {"gemm", NAMED},      {"ceilings", MOST},  {"throttled", MOST}, {"load", MOST}};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        if (!strcmp(key, rules[r].key))
            return rules[r].rule;
    return rule;
}

static json_t *unite_objects(const json_t *a, const json_t *b, enum rule rule)
{
    const char *key;
    json_t *value, *object = json_object();
    for (int side = 0; side < 2; side++) {
        json_object_foreach((json_t *)(uintptr_t)(side ? b : a), key, value)
        {
            const json_t *other = json_object_get(side ? a : b, key);
            if (side && other)
                continue;
            json_t *one = unite(value, other, rule_of(key, rule));
            if (!object || !one || json_object_set_new(object, key, one)) {
                json_decref(object);
                return NULL;
            }
        }
    }
    return object;
}

static bool is_nothing(const json_t *value)
{
    return !value || json_is_null(value);
}

/* b may be NULL, and is nothing then. */
static json_t *unite(const json_t *a, const json_t *b, enum rule rule)
{
    if (is_nothing(b) || (!is_nothing(a) && json_equal(a, b)))
        return json_deep_copy(a);
    if (is_nothing(a))
        return json_deep_copy(b);
    if (json_is_object(a) && json_is_object(b))
        return unite_objects(a, b, rule);
    if (json_is_array(a) && json_is_array(b) && rule == NAMED && same_names(a, b))
        return unite_items(a, b, MOST); /* the best rate; `asked` if in any */
    if (json_is_array(a) && json_is_array(b) && (rule == UNITED || rule == NAMED))
        return unite_lists(a, b, rule);
    int order;
    if (json_is_number(a) && json_is_number(b) && json_number_value(a) != json_number_value(b))
        order = json_number_value(a) < json_number_value(b) ? -1 : 1;
    else
        order = compare_dumps(a, b); /* false before true */
    return json_deep_copy((order < 0) == (rule == MOST) ? b : a);
}

json_t *attn_machines_unite(const json_t *a, const json_t *b)
{
    json_t *machine = unite(a, b, LEAST);
    json_object_del(machine, "shard");
    json_object_del(machine, "selection");
    return machine;
}
