/* SPDX-License-Identifier: Apache-2.0 */
/* comparable.c - goes through what machine.json and the rounds say of two runs. */
#include "report/comparable.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"

static void as_text(const json_t *value, char *text, size_t size)
{
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(5);
    char *dumped = value ? json_dumps(value, flags) : NULL;
    snprintf(text, size, "%s", dumped ? dumped : "not stated");
    free(dumped);
}

static int add(struct attn_differences *out, bool stops, const char *what, const json_t *base,
               const json_t *next)
{
    struct attn_difference *items = reallocarray(out->items, out->count + 1, sizeof *items);
    if (!items)
        return -1;
    out->items = items;
    struct attn_difference *d = &items[out->count++];
    out->stopping += stops;
    d->stops = stops;
    snprintf(d->what, sizeof d->what, "%s", what);
    as_text(base, d->base, sizeof d->base);
    as_text(next, d->next, sizeof d->next);
    return 0;
}

static bool equal(const json_t *a, const json_t *b)
{
    return (!a && !b) || (a && b && json_equal(a, b));
}

/* What may not differ. The number of throttling events may not be above 0 in either run. */
static int compare_fields(const json_t *base, const json_t *next, struct attn_differences *out)
{
    static const char throttled[] = "throttled";
    static const struct {
        const char *path, *what;
        bool must; /* be stated by both */
    } fields[] = {{"cpu.model", "CPU model", true},
                  {"cpu.vendor", "CPU vendor", false},
                  {"cpu.family", "CPU family", false},
                  {"cpu.number", "CPU model number", false},
                  {"cpu.stepping", "CPU stepping", false},
                  {"cpu.l1d", "L1 data cache", false},
                  {"cpu.l2", "L2 cache", false},
                  {"cpu.l3", "L3 cache", false},
                  {"cpu.online", "number of processors", false},
                  {"threads", "number of threads", true},
                  {"affinity", "affinity", false},
                  {"governor", "frequency governor", false},
                  {"page_bytes", "page size", false},
                  {"thp", "setting of huge pages", false},
                  {"attnbench.build", "build", true},
                  {"compiler", "compiler", false},
                  {"compiler_flags", "set of compiler flags", false},
                  {"libc", "C library", false},
                  {throttled, "number of throttling events", false}};
    for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
        const json_t *a = attn_field_at(base, fields[f].path);
        const json_t *b = attn_field_at(next, fields[f].path);
        const bool unstated = !a && !b && fields[f].must;
        const bool held_down = fields[f].path == throttled && json_number_value(a) > 0;
        if ((unstated || held_down || !equal(a, b)) && add(out, true, fields[f].what, a, b) != 0)
            return -1;
    }
    return 0;
}

/* More rounds make an interval narrower and change no time; a budget ends a run early. */
static bool may_differ(const char *key)
{
    return strcmp(key, "rounds") == 0 || strcmp(key, "budget_s") == 0;
}

static int compare_protocols(json_t *base, json_t *next, struct attn_differences *out)
{
    const char *key;
    json_t *value;
    for (int side = 0; side < 2; side++) {
        json_object_foreach(side ? next : base, key, value)
        {
            const json_t *other = json_object_get(side ? base : next, key);
            char what[96];
            if (may_differ(key) || (side && other) || equal(value, other))
                continue;
            snprintf(what, sizeof what, "protocol's %.64s", key);
            if (add(out, true, what, side ? NULL : value, side ? value : NULL) != 0)
                return -1;
            if (other) /* of side 0: name both values */
                as_text(other, out->items[out->count - 1].next, sizeof out->items[0].next);
        }
    }
    return 0;
}

static int compare_rates(const json_t *a, const json_t *b, const char *what,
                         struct attn_differences *out)
{
    const double x = json_number_value(a), y = json_number_value(b);
    if ((x <= 0 && y <= 0) || (x > 0 && y > 0 && fabs(log(y / x)) <= log(ATTN_CEILINGS_FACTOR)))
        return 0;
    return add(out, true, what, a, b);
}

/* The item of a list whose `key` is `name`. */
static const json_t *named(const json_t *list, const char *key, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (strcmp(attn_field_text(item, key), name) == 0)
            return item;
    }
    return NULL;
}

/* A list of ceilings: what its items are called by, and the rates in each. */
struct ceiling_kind {
    const char *list, *name, *rates[4];
    bool reads;
};

static int compare_item(const json_t *base, const json_t *next, const struct ceiling_kind *kind,
                        const char *name, struct attn_differences *out)
{
    for (size_t r = 0; r < 4 && kind->rates[r]; r++) {
        char what[96];
        if (kind->reads)
            snprintf(what, sizeof what, "ceiling of reads from %.32s (GB/s)", name);
        else
            snprintf(what, sizeof what, "ceiling of %.32s in %.8s (GFLOP/s)", name, kind->rates[r]);
        if (compare_rates(json_object_get(base, kind->rates[r]),
                          json_object_get(next, kind->rates[r]), what, out) != 0)
            return -1;
    }
    return 0;
}

static int compare_ceilings(const json_t *base, const json_t *next, struct attn_differences *out)
{
    static const struct ceiling_kind kinds[] = {
        {"rungs", "isa", {"f32", "f64", "f16", "bf16"}, false}, {"reads", "level", {"gbs"}, true}};
    const bool has_base = json_is_object(base), has_next = json_is_object(next);
    if (has_base != has_next)
        return add(out, true, "instruction set of the ceilings",
                   has_base ? json_object_get(base, "isa") : NULL,
                   has_next ? json_object_get(next, "isa") : NULL);
    const size_t before = out->count;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const json_t *lists[2] = {json_object_get(base, kinds[k].list),
                                  json_object_get(next, kinds[k].list)};
        for (int side = 0; side < 2; side++) {
            size_t i;
            json_t *item;
            json_array_foreach(lists[side], i, item)
            {
                const char *name = attn_field_text(item, kinds[k].name);
                const json_t *other = named(lists[1 - side], kinds[k].name, name);
                if (side && other)
                    continue;
                if (compare_item(side ? other : item, side ? item : other, &kinds[k], name, out))
                    return -1;
            }
        }
    }
    out->ceilings = out->count - before;
    return 0;
}

/* What the rounds of a backend say of its device. */
struct device_state {
    json_t *throttled;      /* what held the clocks down in any round, or why that is not known */
    json_t *clock, *memory; /* the fastest of all readings, in MHz; 0: not known */
};

/* "none", or nothing: the clocks were free. "not known: ..." says neither. */
static bool is_held_down(const json_t *throttled)
{
    const char *text = json_string_value(throttled);
    return *text && strcmp(text, "none") != 0 && strncmp(text, "not known", 9) != 0;
}

static struct device_state state_of(const json_t *records, const json_t *backend)
{
    static const char *const ends[] = {"device.before", "device.after"};
    const char *throttled = "none";
    double clock = 0, memory = 0;
    size_t i;
    json_t *record;
    json_array_foreach(records, i, record)
    {
        if (strcmp(attn_field_text(record, "type"), "round") != 0 ||
            strcmp(attn_field_text(record, "backend"), attn_field_text(backend, "name")) != 0 ||
            strcmp(attn_field_text(record, "options"), attn_field_text(backend, "options")) != 0)
            continue;
        for (size_t e = 0; e < 2; e++) {
            const json_t *reading = attn_field_at(record, ends[e]);
            const char *what = attn_field_text(reading, "throttled");
            if (*what && strcmp(throttled, "none") == 0)
                throttled = what;
            clock = fmax(clock, attn_field_number(reading, "clock_mhz"));
            memory = fmax(memory, attn_field_number(reading, "memory_clock_mhz"));
        }
    }
    return (struct device_state){json_string(throttled), json_real(clock), json_real(memory)};
}

static int compare_states(const struct device_state *a, const struct device_state *b,
                          const char *name, struct attn_differences *out)
{
    char what[96];
    snprintf(what, sizeof what, "throttling of %.64s", name);
    if ((!equal(a->throttled, b->throttled) || is_held_down(a->throttled)) &&
        add(out, true, what, a->throttled, b->throttled) != 0)
        return -1;
    snprintf(what, sizeof what, "clock of %.64s in MHz", name);
    if (compare_rates(a->clock, b->clock, what, out) != 0)
        return -1;
    snprintf(what, sizeof what, "memory clock of %.64s in MHz", name);
    return compare_rates(a->memory, b->memory, what, out);
}

static int compare_device(const struct attn_run_data *base, const struct attn_run_data *next,
                          const json_t *a, const json_t *b, struct attn_differences *out)
{
    const struct device_state states[] = {state_of(base->records, a), state_of(next->records, b)};
    const int status = compare_states(&states[0], &states[1], attn_field_text(a, "name"), out);
    for (size_t s = 0; s < 2; s++) {
        json_decref(states[s].throttled);
        json_decref(states[s].clock);
        json_decref(states[s].memory);
    }
    return status;
}

/* Are two backends held against each other, by their names or by --map? */
static bool belong(const json_t *a, const json_t *b, const struct attn_compare_options *options)
{
    const char *x = attn_field_text(a, "name"), *y = attn_field_text(b, "name");
    if (strcmp(x, y) == 0)
        return strcmp(attn_field_text(a, "options"), attn_field_text(b, "options")) == 0;
    for (int m = 0; options && m < options->n_map; m++) {
        const char *from = options->map[m][0], *to = options->map[m][1];
        if ((strcmp(x, from) == 0 && strcmp(y, to) == 0) ||
            (strcmp(x, to) == 0 && strcmp(y, from) == 0))
            return true;
    }
    return false;
}

/* Are both the same backend of a plugin, whatever the command line called them? */
static bool same_backend(const json_t *a, const json_t *b)
{
    const char *x = attn_field_text(a, "offered"), *y = attn_field_text(b, "offered");
    return strcmp(*x ? x : attn_field_text(a, "name"), *y ? y : attn_field_text(b, "name")) == 0;
}

/* The backends that both runs could use. */
static int compare_backends(const struct attn_run_data *base, const struct attn_run_data *next,
                            const struct attn_compare_options *options,
                            struct attn_differences *out)
{
    const json_t *others = json_object_get(next->machine, "backends");
    size_t i, j;
    json_t *a, *b;
    json_array_foreach(json_object_get(base->machine, "backends"), i, a)
    {
        json_array_foreach(others, j, b)
        {
            const bool device = attn_field_true(a, "device") && attn_field_true(b, "device");
            const char *name = attn_field_text(a, "name");
            char what[96];
            if (!belong(a, b, options) || !attn_field_true(a, "available") ||
                !attn_field_true(b, "available"))
                continue;
            if (device && compare_device(base, next, a, b, out) != 0)
                return -1;
            if (!same_backend(a, b))
                continue;
            const json_t *x = json_object_get(a, "version"), *y = json_object_get(b, "version");
            snprintf(what, sizeof what, "%s of %.64s", device ? "device or driver" : "version",
                     name);
            if (!equal(x, y) && add(out, true, what, x, y) != 0)
                return -1;
            x = json_object_get(a, "plugin_sha256");
            y = json_object_get(b, "plugin_sha256");
            snprintf(what, sizeof what, "plugin file of %.64s", name);
            if (!equal(x, y) && add(out, false, what, x, y) != 0)
                return -1;
        }
    }
    return 0;
}

int attn_differences_find(const struct attn_run_data *base, const struct attn_run_data *next,
                          const struct attn_compare_options *options, struct attn_differences *out)
{
    const json_t *a = base->machine, *b = next->machine;
    *out = (struct attn_differences){0};
    if (compare_fields(a, b, out) == 0 &&
        compare_protocols(json_object_get(a, "protocol"), json_object_get(b, "protocol"), out) ==
            0 &&
        compare_ceilings(json_object_get(a, "ceilings"), json_object_get(b, "ceilings"), out) ==
            0 &&
        compare_backends(base, next, options, out) == 0)
        return 0;
    attn_differences_free(out);
    return -1;
}

void attn_differences_free(struct attn_differences *differences)
{
    free(differences->items);
    *differences = (struct attn_differences){0};
}

json_t *attn_differences_json(const struct attn_differences *differences)
{
    json_t *list = json_array();
    for (size_t i = 0; i < differences->count; i++) {
        const struct attn_difference *d = &differences->items[i];
        json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:b}", "what", d->what, "base", d->base,
                                              "new", d->next, "stops", d->stops));
    }
    return list;
}
