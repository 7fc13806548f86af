/* SPDX-License-Identifier: Apache-2.0 */
/* machines.c - identities of machines, and their names. */
#include "history/machines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/comparable.h"
#include "report/summary.h"
#include "report/text.h"

/* Of backends on a device, the device and its driver, which their version names. */
static json_t *devices_of(const json_t *machine)
{
    json_t *list = json_array(), *backend;
    size_t i;
    json_array_foreach(json_object_get(machine, "backends"), i, backend)
    {
        if (!attn_field_true(backend, "device") || !attn_field_true(backend, "available"))
            continue;
        json_t *copy = json_copy(backend);
        json_object_del(copy, "plugin");
        json_object_del(copy, "plugin_sha256");
        json_object_del(copy, "source_sha256");
        json_object_del(copy, "description");
        json_array_append_new(list, copy);
    }
    return list;
}

char *attn_machine_identity(const json_t *machine)
{
    static const char *const states[] = {"ceilings",  "throttled",    "date",      "harness_ns",
                                         "kernel",    "memory_bytes", "isolation", "shard",
                                         "selection", "confinement",  "load"};
    json_t *identity = json_copy((json_t *)machine);
    const char *build = attn_field_text(machine, "attnbench.build");
    for (size_t s = 0; s < sizeof states / sizeof states[0]; s++)
        json_object_del(identity, states[s]);
    json_object_set_new(identity, "attnbench", json_pack("{s:s}", "build", build));
    json_object_set_new(identity, "backends", devices_of(machine));
    char *text = json_dumps(identity, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    json_decref(identity);
    return text;
}

/* A machine with a name, as attn_differences_find wants it. */
static struct attn_run_data run_of(const json_t *identity)
{
    return (struct attn_run_data){.machine = (json_t *)identity};
}

static int is_same(const json_t *a, const json_t *b)
{
    const struct attn_run_data x = run_of(a), y = run_of(b);
    struct attn_differences differences;
    if (attn_differences_find(&x, &y, NULL, &differences) != 0)
        return -1;
    const int same = differences.stopping == 0;
    attn_differences_free(&differences);
    return same;
}

/* What differs from machine 1. */
static json_t *differences_json(const json_t *first, const json_t *other)
{
    const struct attn_run_data x = run_of(first), y = run_of(other);
    struct attn_differences differences;
    if (attn_differences_find(&x, &y, NULL, &differences) != 0)
        return NULL;
    json_t *list = attn_differences_json(&differences);
    attn_differences_free(&differences);
    return list;
}

/* Of the names so far, the one of this machine. Returns its place, or the number of names; -1
 * without memory. */
static int place_of(const json_t *identities, const json_t *identity)
{
    size_t i;
    json_t *known;
    json_array_foreach(identities, i, known)
    {
        const int same = is_same(known, identity);
        if (same != 0)
            return same < 0 ? -1 : (int)i;
    }
    return (int)json_array_size(identities);
}

json_t *attn_machines_name(const json_t *list, json_t **named)
{
    json_t *names = json_object(), *known = json_array(), *texts = json_array(), *machine;
    size_t i;
    int failed = !names || !known || !texts;
    json_array_foreach(list, i, machine)
    {
        json_t *identity = json_loads(attn_field_text(machine, "identity"), 0, NULL);
        if (!json_is_object(identity)) { /* of an index that somebody has edited */
            json_decref(identity);
            identity = json_object();
        }
        const int place = failed ? -1 : place_of(known, identity);
        char number[32], name[32], text[256];
        snprintf(number, sizeof number, "%.0f", attn_field_number(machine, "machine"));
        snprintf(name, sizeof name, "%d", place + 1);
        failed |= place < 0;
        if (!failed && (size_t)place == json_array_size(known)) {
            attn_machine_text(identity, text, sizeof text);
            json_t *first = place ? json_array_get(known, 0) : identity;
            json_t *differences = differences_json(first, identity);
            failed |= !differences || json_array_append(known, identity) ||
                      json_array_append_new(texts, json_pack("{s:s,s:s,s:o}", "name", name, "text",
                                                             text, "differences", differences));
        }
        failed |= json_object_set_new(names, number, json_string(name));
        json_decref(identity);
    }
    json_decref(known);
    if (failed) {
        json_decref(names);
        json_decref(texts);
        return NULL;
    }
    *named = texts;
    return names;
}
