/* SPDX-License-Identifier: Apache-2.0 */
/* turns_record.c - rounds of turns to JSON and back. Times of batches are in whole picoseconds. */
#include "bench/turns_record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/field.h"
#include "results/record.h"

/* The numbers of a batch, each with the list that it is in. */
static const struct {
    const char *list;
    size_t at;
} batch_times[] = {{"own_ps", offsetof(struct attn_group_batch, own)},
                   {"wall_ps", offsetof(struct attn_group_batch, wall)},
                   {"side_ps", offsetof(struct attn_group_batch, side)},
                   {"anchor_ps", offsetof(struct attn_group_batch, anchor)}};
enum { BATCH_TIMES = sizeof batch_times / sizeof *batch_times };

static const struct {
    const char *key;
    size_t at;
} figures[] = {{"wall_ns", offsetof(struct attn_side_figures, wall)},
               {"processor_ns", offsetof(struct attn_side_figures, processor)},
               {"device_ns", offsetof(struct attn_side_figures, device)},
               {"least_ns", offsetof(struct attn_side_figures, least)},
               {"wall_all_ns", offsetof(struct attn_side_figures, wall_all)},
               {"processor_all_ns", offsetof(struct attn_side_figures, processor_all)}};
enum { FIGURES = sizeof figures / sizeof *figures };

static double *number_at(void *object, size_t at)
{
    return (double *)(void *)((char *)object + at);
}

static json_t *picoseconds(double ns)
{
    return isfinite(ns) && fabs(ns) < 1e15 ? json_integer(llround(1000 * ns)) : json_null();
}

static json_t *side_json(const struct attn_turns_side *of)
{
    const struct attn_group_side *side = &of->round->side;
    const struct attn_side_figures *f = &side->figures;
    json_t *json = json_pack(
        "{s:s, s:s, s:I, s:i, s:i, s:o, s:I, s:I, s:I}", "backend", of->contestant->info.name,
        "options", of->contestant->options, "iterations", (json_int_t)f->iterations, "clock",
        (int)f->clock, "ratio_clock", (int)side->ratio_clock, "low_ns", attn_json_number(side->low),
        "switches", (json_int_t)f->switches, "bytes", (json_int_t)f->bytes, "huge_bytes",
        (json_int_t)f->huge_bytes);
    json_t *switches = json_array();
    for (size_t i = 0; i < FIGURES; i++)
        json_object_set_new(json, figures[i].key,
                            attn_json_number(*number_at((void *)(uintptr_t)f, figures[i].at)));
    for (size_t t = 0; t < BATCH_TIMES; t++) {
        json_t *list = json_array();
        for (size_t i = 0; i < f->batches && side->batches; i++)
            json_array_append_new(list,
                                  picoseconds(*number_at(&side->batches[i], batch_times[t].at)));
        json_object_set_new(json, batch_times[t].list, list);
    }
    for (size_t i = 0; i < f->batches && side->batches; i++)
        json_array_append_new(switches, json_integer((json_int_t)side->batches[i].switches));
    json_object_set_new(json, "batches_switches", switches);
    return json;
}

json_t *attn_turns_record(const struct attn_entry *anchor, const struct attn_session *session,
                          const struct attn_turns_side *sides, size_t n, int put_off,
                          double seconds)
{
    json_t *record = attn_common_record("turns", anchor, session);
    const struct attn_paired_round *round = sides[0].round;
    json_t *list = json_array(), *processors = json_array();
    for (size_t s = 0; s < n; s++)
        json_array_append_new(list, side_json(&sides[s]));
    for (uint32_t i = 0; i < round->n_processors; i++)
        json_array_append_new(processors, json_integer(round->processors[i]));
    json_t *more =
        json_pack("{s:i, s:i, s:f, s:o, s:b, s:f, s:f, s:o}", "round", round->round, "put_off",
                  put_off, "seconds", seconds, "processors", processors, "alone", round->alone,
                  "steal", round->steal, "load", round->load, "sides", list);
    if (record && json_object_update(record, more) != 0) {
        json_decref(record);
        record = NULL;
    }
    json_decref(more);
    return record;
}

const json_t *attn_turns_side_of(const json_t *record, const struct attn_contestant *contestant)
{
    size_t i;
    json_t *side;
    json_array_foreach(json_object_get(record, "sides"), i, side)
    {
        if (strcmp(attn_field_text(side, "backend"), contestant->info.name) == 0 &&
            strcmp(attn_field_text(side, "options"), contestant->options) == 0)
            return side;
    }
    return NULL;
}

static json_int_t integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

int attn_turns_round(const json_t *record, const json_t *side, struct attn_paired_round *round)
{
    const json_t *processors = json_object_get(record, "processors");
    const json_t *switches = json_object_get(side, "batches_switches");
    const size_t n = json_array_size(switches);
    struct attn_side_figures f = {.iterations = integer(side, "iterations"),
                                  .clock = (uint32_t)integer(side, "clock"),
                                  .batches = n,
                                  .switches = (uint64_t)integer(side, "switches"),
                                  .bytes = (uint64_t)integer(side, "bytes"),
                                  .huge_bytes = (uint64_t)integer(side, "huge_bytes")};
    if (n == 0 || n > ATTN_CYCLES_MOST)
        return -1;
    for (size_t i = 0; i < FIGURES; i++)
        *number_at(&f, figures[i].at) = attn_field_number(side, figures[i].key);
    struct attn_group_batch *batches = calloc(n, sizeof *batches);
    for (size_t i = 0; batches && i < n; i++) {
        batches[i].switches = (uint64_t)json_integer_value(json_array_get(switches, i));
        for (size_t t = 0; t < BATCH_TIMES; t++) {
            const json_t *ps = json_array_get(json_object_get(side, batch_times[t].list), i);
            *number_at(&batches[i], batch_times[t].at) =
                json_is_integer(ps) ? (double)json_integer_value(ps) / 1000 : (double)NAN;
        }
    }
    *round =
        (struct attn_paired_round){.round = (int)integer(record, "round"),
                                   .side = {.figures = f,
                                            .low = attn_field_number(side, "low_ns"),
                                            .ratio_clock = (uint32_t)integer(side, "ratio_clock"),
                                            .batches = batches,
                                            .ratio = NAN},
                                   .alone = attn_field_true(record, "alone"),
                                   .steal = json_number_value(json_object_get(record, "steal")),
                                   .load = json_number_value(json_object_get(record, "load"))};
    for (size_t i = 0; i < json_array_size(processors) && i < ATTN_CLAIM_MAX; i++)
        round->processors[round->n_processors++] =
            (uint32_t)json_integer_value(json_array_get(processors, i));
    return batches ? 0 : -1;
}
