/* SPDX-License-Identifier: Apache-2.0 */
/* index.c - keys of records, as numbers of names; sorts and compares them. */
#include "merge/index.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/field.h"

/* In this order. What another version may add has no place of its own in a key, so that only equal
 * records of it are one. */
static const char *const types[] = {"verify", "untimed", "round", "bench"};
enum { TYPES = sizeof types / sizeof *types };

static uint32_t type_of(const char *name)
{
    uint32_t type = 0;
    while (type < TYPES && strcmp(types[type], name) != 0)
        type++;
    return type;
}

static int32_t small_number(const json_t *record, const char *field)
{
    const json_int_t value = json_integer_value(json_object_get(record, field));
    return value >= INT32_MIN && value <= INT32_MAX ? (int32_t)value : INT32_MAX;
}

/* The name of two texts with a separator that is in neither: JSON has no NUL, and names.c no other
 * way to keep one. */
static int add_pair(struct attn_merge_names *names, const char *a, const char *b, uint32_t *number)
{
    char *text = NULL;
    if (asprintf(&text, "%s\x1f%s", a, b) < 0)
        return -1;
    const int status = attn_merge_names_add(names, text, number);
    free(text);
    return status;
}

int attn_merge_index_add(struct attn_merge_index *index, const json_t *record,
                         const struct attn_merge_entry *place)
{
    if (index->count == index->capacity) {
        const size_t capacity = index->capacity ? 2 * index->capacity : 1024;
        struct attn_merge_entry *items = reallocarray(index->items, capacity, sizeof *items);
        if (!items)
            return -1;
        index->items = items;
        index->capacity = capacity;
    }
    struct attn_merge_entry entry = *place;
    entry.type = type_of(attn_field_text(record, "type"));
    entry.threads = small_number(record, "threads");
    entry.round = small_number(record, "round");
    entry.judged = entry.type == 0 && strcmp(attn_field_text(record, "status"), "skip") != 0;
    if (attn_merge_names_add(&index->names, attn_field_text(record, "id"), &entry.id) ||
        add_pair(&index->names, attn_field_text(record, "name"), attn_field_text(record, "case"),
                 &entry.label) ||
        add_pair(&index->names, attn_field_text(record, "backend"),
                 attn_field_text(record, "options"), &entry.backend) ||
        attn_merge_names_add(&index->names, attn_field_text(record, "cache"), &entry.cache))
        return -1;
    index->items[index->count++] = entry;
    return 0;
}

/* Has the backend of this name and these options, in any run, a verdict that is no skip? */
static bool is_judged(const struct attn_merge_index *index, const bool *judged,
                      const json_t *backend)
{
    char label[512];
    snprintf(label, sizeof label, "%s\x1f%s", attn_field_text(backend, "name"),
             attn_field_text(backend, "options"));
    for (uint32_t n = 0; n < index->names.count; n++)
        if (judged[n] && strcmp(attn_merge_names_text(&index->names, n), label) == 0)
            return true;
    return false;
}

static bool same_plugin(const json_t *a, const json_t *b)
{
    return strcmp(attn_field_text(a, "plugin"), attn_field_text(b, "plugin")) == 0;
}

void attn_merge_index_unchecked(const struct attn_merge_index *index, const json_t *machine,
                                char *text, size_t size)
{
    json_t *list = json_object_get(machine, "backends"), *backend;
    bool *judged = calloc((size_t)index->names.count + 1, sizeof *judged);
    size_t i;
    text[0] = '\0';
    for (size_t e = 0; judged && e < index->count; e++)
        judged[index->items[e].backend] |= index->items[e].judged;
    json_array_foreach(list, i, backend)
    {
        const bool asked = attn_field_true(backend, "asked");
        bool found = !judged || !(asked || attn_field_true(backend, "named")) ||
                     strcmp(attn_field_text(backend, "exactness"), "none") == 0 ||
                     is_judged(index, judged, backend);
        for (size_t k = 0; !found && !asked && k < json_array_size(list); k++) {
            const json_t *sibling = json_array_get(list, k);
            found = same_plugin(backend, sibling) && is_judged(index, judged, sibling);
        }
        if (!found && !*text)
            snprintf(text, size, "%s", attn_field_text(backend, "name"));
    }
    free(judged);
}

#define COMPARE(field)                                                                             \
    if (a->field != b->field)                                                                      \
    return a->field < b->field ? -1 : 1

/* Equal only for records of one key. */
static int compare_keys(const struct attn_merge_entry *a, const struct attn_merge_entry *b)
{
    COMPARE(id);
    COMPARE(backend);
    COMPARE(threads);
    COMPARE(type);
    COMPARE(round);
    COMPARE(cache);
    return 0;
}

static int by_key(const void *x, const void *y)
{
    const struct attn_merge_entry *a = x, *b = y;
    const int order = compare_keys(a, b);
    if (order)
        return order;
    COMPARE(run);
    COMPARE(offset);
    return 0;
}

/* By the ranks of names, which `fill` has put in their places. */
static int by_order(const void *x, const void *y)
{
    const struct attn_merge_entry *a = x, *b = y;
    COMPARE(label);
    const int order = compare_keys(a, b);
    if (order)
        return order;
    COMPARE(crc);
    COMPARE(length);
    return 0;
}

/* Of each run, keeps the last record of a key, as reports do. */
static size_t drop_superseded(struct attn_merge_index *index)
{
    struct attn_merge_entry *items = index->items;
    size_t kept = 0;
    for (size_t i = 0; i < index->count; i++) {
        const bool last = i + 1 == index->count || items[i + 1].run != items[i].run ||
                          compare_keys(&items[i], &items[i + 1]) != 0;
        if (last || items[i].type == TYPES)
            items[kept++] = items[i];
    }
    const size_t dropped = index->count - kept;
    index->count = kept;
    return dropped;
}

/* Keeps one of equal records. Returns 0, or -1: one cannot be read. */
static int drop_repeated(struct attn_merge_index *index, attn_merge_equal *equal, void *context,
                         struct attn_merge_settled *settled)
{
    struct attn_merge_entry *items = index->items;
    size_t kept = 0, first = 0; /* of the key, among those kept */
    for (size_t i = 0; i < index->count; i++) {
        if (kept > 0 && compare_keys(&items[first], &items[i]) != 0)
            first = kept;
        int same = 0;
        for (size_t k = first; k < kept && same == 0; k++)
            same = equal(&items[k], &items[i], context);
        if (same < 0)
            return -1;
        if (same == 0 && first < kept && items[i].type < TYPES) {
            settled->one = &items[first];
            settled->other = &items[i];
            return 0;
        }
        if (same == 0)
            items[kept++] = items[i];
        settled->repeated += same > 0;
    }
    index->count = kept;
    return 0;
}

/* A case may have several names; its place is that of the first. */
static int unite_labels(struct attn_merge_index *index, const uint32_t *ranks)
{
    uint32_t *least = malloc(((size_t)index->names.count + 1) * sizeof *least);
    if (!least)
        return -1;
    memset(least, 0xff, ((size_t)index->names.count + 1) * sizeof *least);
    for (size_t i = 0; i < index->count; i++) {
        const struct attn_merge_entry *entry = &index->items[i];
        if (ranks[entry->label] < least[entry->id])
            least[entry->id] = ranks[entry->label];
    }
    for (size_t i = 0; i < index->count; i++) {
        struct attn_merge_entry *entry = &index->items[i];
        entry->label = least[entry->id];
        entry->id = ranks[entry->id];
        entry->backend = ranks[entry->backend];
        entry->cache = ranks[entry->cache];
    }
    free(least);
    return 0;
}

int attn_merge_index_settle(struct attn_merge_index *index, attn_merge_equal *equal, void *context,
                            struct attn_merge_settled *settled, char *why, size_t size)
{
    *settled = (struct attn_merge_settled){0};
    if (index->count == 0)
        return 0;
    qsort(index->items, index->count, sizeof *index->items, by_key);
    settled->superseded = drop_superseded(index);
    if (drop_repeated(index, equal, context, settled)) {
        snprintf(why, size, "a record cannot be read again: %m");
        return -1;
    }
    if (settled->other)
        return 0;
    uint32_t *ranks = attn_merge_names_ranks(&index->names);
    const int status = ranks ? unite_labels(index, ranks) : -1;
    free(ranks);
    if (status)
        snprintf(why, size, "no memory for %zu records", index->count);
    else
        qsort(index->items, index->count, sizeof *index->items, by_order);
    for (size_t i = 0; i < index->count && status == 0; i++)
        settled->cases += i == 0 || index->items[i].id != index->items[i - 1].id;
    return status;
}

void attn_merge_index_free(struct attn_merge_index *index)
{
    free(index->items);
    attn_merge_names_free(&index->names);
    *index = (struct attn_merge_index){0};
}
