/* SPDX-License-Identifier: Apache-2.0 */
/* paired_record.c - what rounds of turns say of one backend, as JSON. */
#include <math.h>
#include <stdlib.h>

#include "bench/paired_record.h"
#include "results/figures.h"
#include "results/record.h"

void attn_paired_free(struct attn_paired_rounds *p)
{
    for (int r = 0; r < p->n; r++)
        free(p->rounds[r].side.batches);
    free(p->rounds);
    *p = (struct attn_paired_rounds){0};
}

int attn_paired_ratios(struct attn_paired_rounds *p)
{
    struct attn_group_side **sides = calloc((size_t)p->n + 1, sizeof *sides);
    size_t n = 0;
    for (int r = 0; r < p->n && sides; r++)
        if (!p->rounds[r].no_ratio)
            sides[n++] = &p->rounds[r].side;
    const int result = sides ? attn_group_ratios(sides, n) : -1;
    free(sides);
    return result;
}

static int count_undisturbed(const struct attn_paired_rounds *p)
{
    int n = 0;
    for (int r = 0; r < p->n; r++)
        n += !p->rounds[r].side.disturbed;
    return n;
}

static double low_of(const struct attn_paired_round *round)
{
    return round->side.low;
}

static double ratio_of(const struct attn_paired_round *round)
{
    /* One that was made before its anchor failed is to another backend. */
    return round->no_ratio ? (double)NAN : exp(round->side.ratio);
}

/* A figure of the rounds that have it: of the undisturbed ones, if there are enough. */
static bool over_rounds(const struct attn_paired_rounds *p,
                        double (*figure)(const struct attn_paired_round *),
                        struct attn_interval *out)
{
    double values[ATTN_ROUNDS_MAX];
    const bool all = count_undisturbed(p) < ATTN_UNDISTURBED_ROUNDS_LEAST;
    size_t n = 0;
    for (int r = 0; r < p->n; r++) {
        const double value = figure(&p->rounds[r]);
        if ((all || !p->rounds[r].side.disturbed) && value > 0 && isfinite(value))
            values[n++] = value;
    }
    if (n > 0)
        attn_turns_summarise(values, n, out);
    return n > 0;
}

bool attn_paired_low(const struct attn_paired_rounds *p, struct attn_interval *low)
{
    return over_rounds(p, low_of, low);
}

bool attn_paired_to_anchor(const struct attn_paired_rounds *p, struct attn_interval *ratio)
{
    return p->anchor && over_rounds(p, ratio_of, ratio);
}

static json_t *limits(const struct attn_interval *i)
{
    return isfinite(i->lo) && isfinite(i->hi) ? json_pack("[f, f]", i->lo, i->hi) : json_null();
}

/* Time in ns, to about four digits. */
static json_t *rounded(double ns)
{
    return ns < 1000 ? json_real(round(10 * ns) / 10) : json_integer(llround(ns));
}

/* Adds each batch to a round: by the clock of `low_ns`, on the wall, and its switches. */
static void put_batches(json_t *json, const struct attn_group_side *side)
{
    json_t *own = json_array(), *wall = json_array(), *switches = json_array();
    for (size_t i = 0; i < side->figures.batches && side->batches; i++) {
        json_array_append_new(own, rounded(side->batches[i].own));
        json_array_append_new(wall, rounded(side->batches[i].wall));
        json_array_append_new(switches, json_integer((json_int_t)side->batches[i].switches));
    }
    json_object_set_new(json, "batches_ns", own);
    json_object_set_new(json, "batches_wall_ns", wall);
    json_object_set_new(json, "batches_switches", switches);
}

static json_t *round_json(const struct attn_paired_round *round)
{
    const struct attn_side_figures *f = &round->side.figures;
    const bool processor = f->clock <= ATTN_CLOCK_PROCESS;
    json_t *processors = json_array();
    for (uint32_t i = 0; i < round->n_processors; i++)
        json_array_append_new(processors, json_integer(round->processors[i]));
    json_t *json = json_pack(
        "{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:s, s:f, s:o, s:o, s:b, s:b}",
        "round", round->round, "low_ns", attn_json_number(round->side.low), "least_ns",
        attn_json_number(f->least), "wall_ns", attn_json_number(f->wall), "processor_ns",
        attn_json_number(f->processor), "device_ns",
        f->device > 0 ? attn_json_number(f->device) : json_null(), "ratio",
        attn_json_number(ratio_of(round)), "batches", (json_int_t)f->batches, "cycles",
        (json_int_t)round->side.cycles, "undisturbed_cycles", (json_int_t)round->side.undisturbed,
        "switches", (json_int_t)f->switches, "noise",
        attn_noise_name(processor ? attn_noise_of(f->wall_all, f->processor_all)
                                  : ATTN_NOISE_UNKNOWN),
        "steal", round->steal, "load", round->load < 0 ? json_null() : json_real(round->load),
        "processors", processors, "alone", round->alone, "disturbed", round->side.disturbed);
    put_batches(json, &round->side);
    return json;
}

static json_t *pair_json(const struct attn_paired_rounds *p)
{
    struct attn_interval ratio;
    json_int_t cycles = 0;
    if (!attn_paired_to_anchor(p, &ratio))
        return json_null();
    for (int r = 0; r < p->n; r++)
        cycles += (json_int_t)p->rounds[r].side.cycles;
    return json_pack("{s:s, s:s, s:f, s:o, s:s, s:I, s:I}", "anchor", p->anchor->info.name,
                     "anchor_options", p->anchor->options, "ratio", ratio.value, "ci95",
                     limits(&ratio), "clock", attn_clock_name(p->rounds[0].side.ratio_clock),
                     "rounds", (json_int_t)ratio.n, "cycles", cycles);
}

json_t *attn_paired_json(const struct attn_paired_rounds *p)
{
    struct attn_interval low;
    if (!attn_paired_low(p, &low))
        return *p->why_not ? json_pack("{s:s}", "reason", p->why_not) : json_null();
    const struct attn_side_figures *first = &p->rounds[0].side.figures;
    double wall = 0, processor = 0, steal = 0, load = -1;
    json_int_t switches = 0, batches = 0;
    json_t *rounds = json_array();
    for (int r = 0; r < p->n; r++) {
        const struct attn_paired_round *round = &p->rounds[r];
        wall += round->side.figures.wall_all;
        processor += round->side.figures.processor_all;
        switches += (json_int_t)round->side.figures.switches;
        batches += (json_int_t)round->side.figures.batches;
        steal += round->steal / p->n;
        load = fmax(load, round->load);
        json_array_append_new(rounds, round_json(round));
    }
    const bool by_processor = first->clock <= ATTN_CLOCK_PROCESS;
    return json_pack(
        "{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:f, s:o, s:I, s:I, s:o, s:f, s:s, s:o}",
        "low_ns", json_pack("{s:f, s:o}", "value", low.value, "ci95", limits(&low)), "clock",
        attn_clock_name(first->clock), "rounds", (json_int_t)p->n, "undisturbed",
        (json_int_t)count_undisturbed(p), "put_off", (json_int_t)p->put_off, "batches", batches,
        "iterations", (json_int_t)first->iterations, "noise",
        attn_noise_name(by_processor ? attn_noise_of(wall, processor) : ATTN_NOISE_UNKNOWN),
        "switches", switches, "steal", steal, "load", load < 0 ? json_null() : json_real(load),
        "bytes", (json_int_t)first->bytes, "huge_bytes", (json_int_t)first->huge_bytes, "paired",
        pair_json(p), "seconds", p->seconds, "reason", p->why_not, "in_rounds", rounds);
}
