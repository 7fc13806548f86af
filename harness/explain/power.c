/* SPDX-License-Identifier: Apache-2.0 */
/* power.c - the list of mistakes, and whether a verdict would have refused each. */
#include "explain/power.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/census.h"
#include "explain/diagnose.h"
#include "explain/power_mistakes.h"
#include "explain/power_trials.h"
#include "reference/dtype.h"

/* Two answers are the same on paper if they differ by less: what double arithmetic leaves. */
static const double same = 1e-7;

static int bits(attn_power_set set)
{
    return __builtin_popcountll((uint64_t)set) + __builtin_popcountll((uint64_t)(set >> 64));
}

int attn_power_of(const struct attn_power *power)
{
    return bits(power->applies);
}

int attn_power_refused(const struct attn_power *power)
{
    return bits(power->refused & power->applies);
}

/* ---- one unit ---- */

/* One verdict: its evidence and numerics, and the trials of its instance. */
struct verdict {
    struct attn_power_trials *trials;
    const struct attn_evidence *evidence;
    const struct attn_numerics *numerics;
    bool counts; /* the exact rules of census and exact hold for these numerics */
    double *out, *lse, *mean;
};

static double rounded(uint32_t dtype, double value)
{
    double stored;
    attn_dtype_store(dtype, &stored, 0, value);
    return attn_dtype_load(dtype, &stored, 0);
}

static bool differs(double wrong, double right, double size)
{
    if (isnan(wrong) || isnan(right) || isinf(wrong) || isinf(right))
        return !(wrong == right || (isnan(wrong) && isnan(right)));
    return fabs(wrong - right) > same * size;
}

/* Would the judge refuse this element? */
static bool is_refused(uint32_t dtype, double wrong, double want, double bound)
{
    if (isinf(bound) && !isinf(want))
        return false; /* not judged */
    return !(attn_judge_ratio(dtype, rounded(dtype, wrong), want, bound) <= 1);
}

/* The keys of a unit if all of its lines see as many; else 0. */
static int64_t keys_of(const struct verdict *v, const struct attn_power_unit *unit)
{
    const int64_t lines = v->trials->lines_of_unit;
    const int64_t *n = v->evidence->ref->allowed + unit->place * lines;
    for (int64_t k = 1; k < lines; k++)
        if (n[k] != n[0])
            return 0;
    return n[0];
}

/* fill=census: out times the number of keys is a whole number. In multi-head attention it is one
 * where W_o shows the heads, as stored. */
static bool is_miscounted(const struct verdict *v, const struct attn_power_unit *unit)
{
    const struct attn_power_trials *t = v->trials;
    const int64_t n = keys_of(v, unit);
    const uint32_t type = t->problem->dtype, stored = v->numerics->proj_type;
    const bool coarser =
        t->projected && stored && attn_dtype_roundoff(stored) > attn_dtype_roundoff(type);
    bool wrong = false;
    for (int64_t c = 0; c < t->n_columns; c++) {
        const double sum = unit->out[c] * (double)n, got = rounded(type, v->out[c]);
        if (fabs(sum - round(sum)) > 1e-6)
            return false;
        wrong = wrong || !attn_census_counts(coarser ? stored : type, got, round(sum), n, 0);
    }
    return wrong;
}

/* fill=exact: the bits of out are known. */
static bool is_inexact(const struct verdict *v, const struct attn_power_unit *unit)
{
    const struct attn_power_trials *t = v->trials;
    const struct attn_problem *p = t->problem;
    const struct attn_power_line *line = &t->lines[unit->line];
    if (t->projected ||
        !attn_exact_row(t->instance, (line->b * p->hq + line->h) * p->sq + line->i, v->mean))
        return false;
    for (int64_t c = 0; c < t->n_columns; c++)
        if (rounded(p->dtype, v->out[c]) != v->mean[t->column[c]])
            return true;
    return false;
}

/* What a fill knows beyond the bound. */
static bool is_known_wrong(const struct verdict *v, const struct attn_power_unit *unit)
{
    const enum attn_fill fill = v->trials->instance->c.fill;
    return v->counts && (fill == ATTN_FILL_CENSUS  ? is_miscounted(v, unit)
                         : fill == ATTN_FILL_EXACT ? is_inexact(v, unit)
                                                   : false);
}

/* The answer of a unit with a mistake: does it differ, would it be refused? */
static void try_unit(const struct verdict *v, const struct attn_power_unit *unit,
                     const struct attn_wrong *wrong, bool *applies, bool *refused)
{
    struct attn_power_trials *t = v->trials;
    const struct attn_problem *p = t->problem;
    const struct ref_values *out = &v->evidence->ref->output[0];
    const struct ref_values lse = ref_values_of(p, v->evidence->ref, ATTN_LSE);
    const struct attn_tensor *lse_tensor = attn_tensor_find(p, ATTN_LSE);
    const int64_t width = ref_output_width(p, 0);
    bool other = false;
    if (unit->place < 0 || unit->empty || !attn_power_answer(t, unit, wrong, v->out, v->lse))
        return;
    for (int64_t c = 0; c < t->n_columns; c++) {
        const int64_t at = unit->place * width + t->column[c];
        if (!differs(v->out[c], unit->out[c], t->largest))
            continue;
        other = true;
        *refused = *refused || is_refused(p->dtype, v->out[c], out->value[at], out->bound[at]);
    }
    for (int64_t n = 0; lse_tensor && lse.value && n < t->lines_of_unit; n++) {
        const int64_t at = unit->place * t->lines_of_unit + n;
        if (!differs(v->lse[n], unit->lse[n], fmax(1, fabs(unit->lse[n]))))
            continue;
        other = true;
        *refused =
            *refused || is_refused(lse_tensor->dtype, v->lse[n], lse.value[at], lse.bound[at]);
    }
    *applies = *applies || other;
    *refused = *refused || (other && is_known_wrong(v, unit));
}

/* The rule for rows without keys is compared exactly, so any such row that was judged will do. */
static bool has_empty(const struct attn_power_trials *t)
{
    bool any = false;
    for (int64_t u = 0; u < t->n_units; u++)
        any = any || (t->units[u].empty && t->units[u].place >= 0);
    return any;
}

static void try_mistake(const struct verdict *v, int mistake, struct attn_power *power)
{
    struct attn_wrong wrong;
    bool applies = false, refused = false;
    if (!attn_power_wrong(mistake, v->trials->problem, &wrong))
        return;
    if (wrong.empty)
        applies = refused = has_empty(v->trials);
    for (int64_t u = 0; u < v->trials->n_units && !wrong.empty && !refused; u++)
        try_unit(v, &v->trials->units[u], &wrong, &applies, &refused);
    power->applies |= (attn_power_set)applies << mistake;
    power->refused |= (attn_power_set)refused << mistake;
}

/* ---- one verdict ---- */

/* The mistakes that are still to be tried. What made no difference on the first inputs, which are
 * the case's own, is none in the case. */
static attn_power_set left(const struct attn_power *power)
{
    return power->measured ? power->applies & ~power->refused : ~(attn_power_set)0;
}

static struct attn_power measure(const struct verdict *v, struct attn_power power)
{
    const attn_power_set todo = left(&power);
    power.measured = true;
    for (int m = 0; attn_power_name(m); m++)
        if (todo >> m & 1)
            try_mistake(v, m, &power);
    return power;
}

static const struct attn_power *find(const struct attn_power_trials *t,
                                     const struct attn_numerics *key,
                                     const struct attn_power *before)
{
    for (int k = 0; k < t->n_kept; k++)
        if (memcmp(&t->kept[k].numerics, key, sizeof *key) == 0 &&
            t->kept[k].before.applies == before->applies &&
            t->kept[k].before.refused == before->refused)
            return &t->kept[k].after;
    return NULL;
}

void attn_power_measure(struct attn_power_trials **trials, const struct attn_evidence *evidence,
                        const struct attn_numerics *numerics, struct attn_power *power)
{
    if (left(power) == 0)
        return;
    if (!*trials)
        *trials = attn_power_trials_make(evidence);
    struct attn_power_trials *t = *trials;
    if (!t || !t->usable)
        return;
    struct attn_numerics key = *numerics;
    key.source = NULL;
    const struct attn_power before = *power, *known = find(t, &key, power);
    if (known) {
        *power = *known;
        return;
    }
    struct verdict v = {.trials = t,
                        .evidence = evidence,
                        .numerics = numerics,
                        .counts = attn_diagnose_counts(t->problem, numerics),
                        .out = calloc((size_t)(t->n_columns + t->lines_of_unit), sizeof(double)),
                        .mean = calloc((size_t)t->problem->dv + 1, sizeof(double))};
    if (v.out && v.mean) {
        v.lse = v.out + t->n_columns;
        *power = measure(&v, *power);
        if (t->n_kept < ATTN_POWER_NUMERICS)
            t->kept[t->n_kept++] = (struct attn_power_kept){key, before, *power};
    }
    free(v.out);
    free(v.mean);
}

void attn_power_trials_free(struct attn_power_trials *trials)
{
    attn_power_trials_drop(trials);
}

void attn_power_refuse_scales(struct attn_power *power)
{
    power->refused |= ATTN_POWER_SCALES & power->applies;
}

bool attn_power_enough(const struct attn_power *power, double slack, char *why, size_t size)
{
    const int of = attn_power_of(power), refused = attn_power_refused(power);
    const attn_power_set missed = power->applies & ~power->refused;
    if (!power->measured || of == 0)
        return true;
    if (missed >> ATTN_POWER_UNIFORM & 1) {
        snprintf(why, size, "uniform weights would have passed (power %d of %d)", refused, of);
        return false;
    }
    if ((missed >> ATTN_POWER_SCALE & 1) && slack > ATTN_POWER_SLACK) {
        snprintf(why, size,
                 "a scale 2 %% off would have passed (power %d of %d), with a declared bound %.3g "
                 "times that of the best arithmetic",
                 refused, of, slack);
        return false;
    }
    if (refused >= ATTN_POWER_LEAST * of)
        return true;
    int n =
        snprintf(why, size, "power %d of %d is too little: these would have passed:", refused, of);
    for (int m = 0; attn_power_name(m) && n > 0 && (size_t)n < size; m++)
        if (missed >> m & 1)
            n += snprintf(why + n, size - (size_t)n, " %s", attn_power_name(m));
    return false;
}
