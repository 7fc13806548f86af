/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - a comparison as a line of a table, and as JSON. */
#include <math.h>
#include <string.h>

#include "results/record.h"

#include "live/compare.h"

const char *attn_live_name(const struct attn_contestant *c, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s", c->info.name, *c->options ? ":" : "", c->options);
    return text;
}

/* Sums and medians over all pairs of a result. */
struct totals {
    double wall_ratio, processor_ratio; /* means of logarithms; NAN: none */
    enum attn_noise noise;
    uint64_t switches;
    uint32_t clock;
};

static struct totals totals_of(const struct attn_live_result *result)
{
    struct totals t = {0};
    double wall = 0, processor = 0;
    for (size_t p = 0; p < result->n_pairs; p++) {
        const struct attn_pair_figures *f = &result->pairs[p].figures;
        t.wall_ratio += f->wall_ratio;
        t.processor_ratio += f->processor_ratio;
        t.clock = f->clock;
        for (int s = 0; s < 2; s++) {
            wall += f->sides[s].wall_all;
            processor += f->sides[s].processor_all;
            t.switches += f->sides[s].switches;
        }
    }
    t.wall_ratio /= (double)result->n_pairs;
    t.processor_ratio /= (double)result->n_pairs;
    if (result->n_pairs > 0 && t.clock <= ATTN_CLOCK_PROCESS)
        t.noise = attn_noise_of(wall, processor);
    return t;
}

/* ---- the table ---- */

void attn_live_print_head(const struct attn_session *session, FILE *out)
{
    char a[600], b[600];
    fprintf(out, "A: %s\nB: %s\n\n%-8s %8s %18s %6s  %-9s %7s  %s\n",
            attn_live_name(&session->roster.items[0], a, sizeof a),
            attn_live_name(&session->roster.items[1], b, sizeof b), "verdict", "B/A",
            "99 % interval", "pairs", "noise", "seconds", "case");
}

void attn_live_print(const struct attn_live_result *result, FILE *out)
{
    const struct attn_paired *p = &result->paired;
    const struct attn_paired_look look = attn_paired_result(p);
    char label[ATTN_CASE_LINE_MAX], pairs[32], interval[64] = "-", ratio[32] = "-";
    attn_case_label(result->c, label, sizeof label);
    if (!result->compared) {
        fprintf(out, "%-8s %8s %18s %6s  %-9s %7s  %s\n    %s\n", "none", "-", "-", "-", "-", "-",
                label, result->reason);
        return;
    }
    snprintf(pairs, sizeof pairs, p->again ? "%zu+%zu" : "%zu", p->n[0], p->n[1]);
    if (isfinite(look.estimate))
        snprintf(ratio, sizeof ratio, "%.4f", exp(look.estimate));
    if (isfinite(look.lo) && isfinite(look.hi))
        snprintf(interval, sizeof interval, "%.4f..%.4f", exp(look.lo), exp(look.hi));
    fprintf(out, "%-8s %8s %18s %6s  %-9s %7.1f  %s\n", attn_paired_name(p->verdict), ratio,
            interval, pairs, attn_noise_name(totals_of(result).noise), result->seconds, label);
    if (result->out_of_time)
        fprintf(out, "    the budget is spent: --budget gives it more time\n");
    else if (p->verdict == ATTN_PAIRED_UNCLEAR && p->again)
        fprintf(out, "    slower by %.1f %% at first, but fresh pairs did not confirm it\n",
                100 * expm1(p->look[0].estimate));
    if (p->verdict == ATTN_PAIRED_UNCLEAR && isfinite(look.least))
        fprintf(out, "    a difference of %.1f %% or more would have been found\n",
                100 * expm1(look.least));
}

/* ---- JSON ---- */

/* The ratio whose logarithm this is. */
static json_t *ratio_of(double logarithm)
{
    return isfinite(logarithm) ? json_real(exp(logarithm)) : json_null();
}

static json_t *contestant_json(const struct attn_contestant *c)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "backend", c->info.name, "options", c->options,
                     "plugin", c->plugin, "version", c->info.version);
}

static json_t *side_json(const struct attn_side_figures *side)
{
    return json_pack("{s:I, s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "iterations",
                     (json_int_t)side->iterations, "clock", attn_clock_name(side->clock), "wall_ns",
                     attn_json_number(side->wall), "processor_ns",
                     attn_json_number(side->processor), "device_ns",
                     side->device > 0 ? attn_json_number(side->device) : json_null(), "least_ns",
                     attn_json_number(side->least), "switches", (json_int_t)side->switches, "bytes",
                     (json_int_t)side->bytes, "huge_bytes", (json_int_t)side->huge_bytes);
}

static json_t *pair_json(const struct attn_live_pair *pair, int series)
{
    const struct attn_pair_figures *f = &pair->figures;
    json_t *processors = json_array();
    for (uint32_t i = 0; i < pair->n_processors; i++)
        json_array_append_new(processors, json_integer(pair->processors[i]));
    return json_pack(
        "{s:i, s:s, s:o, s:o, s:o, s:o, s:I, s:f, s:s, s:o, s:b, s:f, s:o, s:o, s:o}", "series",
        series, "clock", attn_clock_name(f->clock), "ratio", ratio_of(f->ratio), "processor_ratio",
        ratio_of(f->processor_ratio), "wall_ratio", ratio_of(f->wall_ratio), "error",
        attn_json_number(f->error), "cycles", (json_int_t)f->cycles, "seconds", f->seconds, "noise",
        attn_noise_name(f->noise), "processors", processors, "alone", pair->alone, "steal",
        pair->steal, "load", pair->load < 0 ? json_null() : json_real(pair->load), "a",
        side_json(&f->sides[0]), "b", side_json(&f->sides[1]));
}

json_t *attn_live_json(const struct attn_live_result *result)
{
    const struct attn_paired *p = &result->paired;
    const struct attn_paired_look look = attn_paired_result(p);
    const struct totals t = totals_of(result);
    char line[ATTN_CASE_LINE_MAX];
    json_t *pairs = json_array();
    attn_case_canonical(result->c, line, sizeof line);
    for (size_t i = 0; pairs && i < result->n_pairs; i++)
        json_array_append_new(pairs, pair_json(&result->pairs[i], i < p->n[0] ? 1 : 2));
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:s, s:I, s:f, "
        "s:o}",
        "id", result->id, "case", line, "name", result->c->name, "a",
        contestant_json(result->sides[0]), "b", contestant_json(result->sides[1]), "verdict",
        result->compared ? attn_paired_name(p->verdict) : "none", "reason",
        result->out_of_time ? "the budget is spent" : result->reason, "ratio",
        ratio_of(look.estimate), "lo", ratio_of(look.lo), "hi", ratio_of(look.hi), "least",
        ratio_of(look.least), "clock", result->n_pairs > 0 ? attn_clock_name(t.clock) : "",
        "processor_ratio", ratio_of(t.processor_ratio), "wall_ratio", ratio_of(t.wall_ratio),
        "noise", attn_noise_name(t.noise), "switches", (json_int_t)t.switches, "seconds",
        result->seconds, "pairs", pairs);
}
