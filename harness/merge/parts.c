/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c - sets of numbers of shards, by selection and by cut. */
#include "merge/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/field.h"

static json_int_t count_of(const json_t *part)
{
    return json_integer_value(json_object_get(part, "count"));
}

/* A part that is whole has no cut any more. */
static bool is_whole(const json_t *part)
{
    return count_of(part) == 0;
}

static bool same_selection(const json_t *a, const json_t *b)
{
    return strcmp(attn_field_text(a, "sha256"), attn_field_text(b, "sha256")) == 0;
}

static int by_number(const void *a, const void *b)
{
    const json_int_t x = *(const json_int_t *)a, y = *(const json_int_t *)b;
    return (x > y) - (x < y);
}

/* The numbers of both lists that are not in `less`, sorted, each once. NULL: no memory. */
static json_t *unite_numbers(const json_t *a, const json_t *b, const json_t *less)
{
    const size_t n = json_array_size(a), m = json_array_size(b), l = json_array_size(less);
    json_int_t *all = calloc(n + m + 1, sizeof *all), *not = calloc(l + 1, sizeof *not );
    json_t *list = all && not ? json_array() : NULL;
    for (size_t i = 0; list && i < n + m; i++)
        all[i] = json_integer_value(i < n ? json_array_get(a, i) : json_array_get(b, i - n));
    for (size_t i = 0; list && i < l; i++)
        not [i] = json_integer_value(json_array_get(less, i));
    if (list) {
        qsort(all, n + m, sizeof *all, by_number);
        qsort(not, l, sizeof *not, by_number);
    }
    for (size_t i = 0; list && i < n + m; i++)
        if ((i == 0 || all[i] != all[i - 1]) && !bsearch(&all[i], not, l, sizeof *not, by_number) &&
            json_array_append_new(list, json_integer(all[i]))) {
            json_decref(list);
            list = NULL;
        }
    free(all);
    free(not );
    return list;
}

/* All shards present: without its cut. Takes the reference. */
static json_t *simplify(json_t *part)
{
    if (part && (json_int_t)json_array_size(json_object_get(part, "present")) == count_of(part)) {
        json_object_del(part, "count");
        json_object_del(part, "present");
        json_object_del(part, "unfinished");
    }
    return part;
}

json_t *attn_parts_of(const json_t *machine, const json_t *parts, bool finished)
{
    if (parts)
        return json_deep_copy(parts);
    const json_t *shard = json_object_get(machine, "shard");
    const json_int_t count = json_integer_value(json_object_get(shard, "count"));
    const json_int_t index = json_integer_value(json_object_get(shard, "index"));
    const bool cut = count > 0 && index > 0 && index <= count;
    return json_pack(
        "[o]",
        simplify(json_pack(
            "{s:s, s:I, s:I, s:o, s:o}", "sha256", attn_field_text(machine, "selection.sha256"),
            "cases", json_integer_value(attn_field_at(machine, "selection.cases")), "count",
            cut ? count : 1, "present", finished ? json_pack("[I]", cut ? index : 1) : json_array(),
            "unfinished", finished ? json_array() : json_pack("[I]", cut ? index : 1))));
}

/* Both parts of one cut. NULL: no memory. */
static json_t *unite_part(const json_t *a, const json_t *b)
{
    json_t *part = json_deep_copy(a);
    json_t *present =
        unite_numbers(json_object_get(a, "present"), json_object_get(b, "present"), NULL);
    json_t *unfinished =
        unite_numbers(json_object_get(a, "unfinished"), json_object_get(b, "unfinished"), present);
    if (part && json_object_set_new(part, "present", present) == 0 &&
        json_object_set_new(part, "unfinished", unfinished) == 0)
        return simplify(part);
    json_decref(part);
    return NULL;
}

static int compare_parts(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    const int order = strcmp(attn_field_text(x, "sha256"), attn_field_text(y, "sha256"));
    return order ? order : (count_of(x) > count_of(y)) - (count_of(x) < count_of(y));
}

/* A whole part of the same selection makes those of other cuts needless. Takes the references.
 * NULL: no memory. */
static json_t *list_of(json_t **parts, size_t count)
{
    json_t *list = json_array();
    qsort(parts, count, sizeof *parts, compare_parts);
    for (size_t i = 0; list && i < count; i++) {
        bool needless = false;
        for (size_t k = 0; k < count; k++)
            needless |= k != i && is_whole(parts[k]) && same_selection(parts[k], parts[i]);
        if (!needless && json_array_append(list, parts[i])) {
            json_decref(list);
            list = NULL;
        }
    }
    for (size_t i = 0; i < count; i++)
        json_decref(parts[i]);
    return list;
}

json_t *attn_parts_unite(const json_t *a, const json_t *b)
{
    const size_t room = json_array_size(a) + json_array_size(b);
    json_t **parts = calloc(room + 1, sizeof *parts);
    size_t count = 0, i;
    bool ok = parts != NULL;
    json_t *part;
    for (int side = 0; side < 2; side++) {
        json_array_foreach(side ? b : a, i, part)
        {
            size_t k = 0;
            while (ok && k < count && compare_parts(&parts[k], &part) != 0)
                k++;
            if (!ok)
                break;
            json_t *both = k < count ? unite_part(parts[k], part) : json_deep_copy(part);
            ok = both != NULL;
            if (k < count)
                json_decref(parts[k]);
            parts[k] = both;
            count += ok && k == count;
        }
    }
    json_t *list = ok ? list_of(parts, count) : NULL;
    for (i = 0; !ok && parts && i < count; i++)
        json_decref(parts[i]);
    free(parts);
    return list;
}

/* Which of a part's shards are not present: adds up to `most` of their names to the text. Returns
 * how many there are. The count may be any number: it is read from a file. */
static size_t name_missing(const json_t *part, size_t most, char *text, size_t size)
{
    json_t *none = json_array();
    json_t *there = unite_numbers(json_object_get(part, "present"), none, NULL);
    json_t *begun = unite_numbers(json_object_get(part, "unfinished"), none, there);
    const json_int_t count = count_of(part);
    size_t missing = count > 0 ? (size_t)count : 0, t = 0, b = 0, used = strlen(text), named = 0;
    for (size_t i = 0; i < json_array_size(there); i++) {
        const json_int_t shard = json_integer_value(json_array_get(there, i));
        missing -= shard >= 1 && shard <= count;
    }
    for (json_int_t shard = 1; shard <= count && named < most && named < missing; shard++) {
        while (t < json_array_size(there) && json_integer_value(json_array_get(there, t)) < shard)
            t++;
        while (b < json_array_size(begun) && json_integer_value(json_array_get(begun, b)) < shard)
            b++;
        if (json_integer_value(json_array_get(there, t)) == shard)
            continue;
        const bool unfinished = json_integer_value(json_array_get(begun, b)) == shard;
        const int n =
            snprintf(text + used, size - used, "%sshard %lld of %lld is %s", used ? ", " : "",
                     (long long)shard, (long long)count, unfinished ? "unfinished" : "missing");
        used = n > 0 && (size_t)n < size - used ? used + (size_t)n : size - 1;
        named++;
    }
    json_decref(none);
    json_decref(there);
    json_decref(begun);
    return missing;
}

size_t attn_parts_missing(const json_t *parts, char *text, size_t size)
{
    enum { NAMED = 8 };
    size_t missing = 0, i;
    json_t *part;
    text[0] = '\0';
    json_array_foreach(parts, i, part) missing +=
        name_missing(part, missing < NAMED ? NAMED - missing : 0, text, size);
    const size_t used = strlen(text);
    if (missing > NAMED)
        snprintf(text + used, size - used, ", and %zu more", missing - NAMED);
    return missing;
}
