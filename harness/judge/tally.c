/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c - class first, then error against bound; nothing that is NaN can pass. */
#include "judge/tally.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/element.h"
#include "reference/dtype.h"
#include "tensor/units.h"

enum { MAX_RATIOS = 1 << 16 }; /* ratios kept for the median; an even sample of all */

/* A number of the output type, to within this part of an ulp: the value of a key that takes all the
 * weight, the residual that pruned heads leave, an underflow. */
static const double exact_ulp = 1e-3;

static void describe_failure(struct attn_tally *t, const char *where, double got, double want,
                             double bound)
{
    struct attn_judgement *v = t->verdict;
    snprintf(v->reason, sizeof v->reason,
             "%s is %.9g, the reference says %.9g, allowed error %.3g%s", where,
             isnan(got) ? NAN : got, isnan(want) ? NAN : want, bound,
             isnan(got) && !isnan(want) ? " (NaN: wrong, or never written)" : "");
}

/* Element c of a unit: what was computed, and what the reference says. */
struct element {
    const struct attn_units *units;
    int64_t unit, c;
    double got, want, bound;
};

/* Counts one element. Its place is written out only if it is the worst so far. */
static bool tally_element(struct attn_tally *t, const struct element *e, double threshold)
{
    struct attn_judgement *v = t->verdict;
    if (isinf(e->bound) && !isinf(e->want)) {
        t->unknown++;
        return true;
    }
    double ratio = attn_element_ratio(e->got, e->want, e->bound, threshold);
    if (t->seen++ % t->stride == 0 && t->kept < MAX_RATIOS)
        t->ratios[t->kept++] = ratio;
    bool bad = !(ratio <= 1);
    if (ratio > v->max_ratio || (t->seen == 1)) {
        int64_t at[ATTN_MAX_RANK];
        attn_unit_indices(e->units, e->unit, e->c, at);
        attn_unit_name(e->units, at, v->worst, sizeof v->worst);
        if (bad && (t->failures == 0 || ratio > v->max_ratio))
            describe_failure(t, v->worst, e->got, e->want, e->bound);
        v->max_ratio = ratio;
    }
    t->failures += bad;
    return !bad;
}

/* A value as the type can hold it. */
static double rounded(uint32_t dtype, double value)
{
    double stored;
    attn_dtype_store(dtype, &stored, 0, value);
    return attn_dtype_load(dtype, &stored, 0);
}

/* Figures that only the first output has. */
static void tally_first(struct attn_tally *t, const struct element *e, uint32_t dtype)
{
    t->out_elements++;
    if (!isfinite(e->got) || !isfinite(e->want) || !isfinite(e->bound))
        return;
    double error = fabs(e->got - e->want);
    t->sum_squares += error * error;
    t->verdict->max_abs = fmax(t->verdict->max_abs, error);
    double best = rounded(dtype, e->want);
    t->inexact += fabs(best - e->want) > exact_ulp * attn_dtype_ulp(dtype, fabs(e->want));
    t->zeros += e->got == 0 && best != 0;
    t->least = fmin(t->least, e->got), t->most = fmax(t->most, e->got);
    t->ref_least = fmin(t->ref_least, best), t->ref_most = fmax(t->ref_most, best);
    if (e->want != 0)
        t->verdict->max_rel = fmax(t->verdict->max_rel, error / fabs(e->want));
}

/* Output o, unit by unit, in the sample of its leader. */
static bool tally_output(const struct attn_instance *instance, const struct ref_request *request,
                         int o, const struct ref_values *ref, struct attn_tally *t)
{
    struct attn_units units;
    attn_units_of(&instance->problem, o, &units);
    const struct ref_units *leaders = &request->units[units.output->leader];
    const struct attn_tensor *tensor = units.tensor;
    double threshold = attn_overflow_threshold(tensor->dtype);
    const bool first = !(t->verdict->has & ((1u << o) - 1));
    bool ok = true;
    for (int64_t r = 0; r < leaders->count * units.followers; r++) {
        const int64_t unit =
            ref_unit_number(leaders, r / units.followers) * units.followers + r % units.followers;
        const int64_t base = attn_unit_base(&units, unit);
        for (int64_t c = 0; c < units.width; c++) {
            const int64_t k = r * units.width + c;
            const struct element e = {.units = &units,
                                      .unit = unit,
                                      .c = c,
                                      .got = attn_unit_read(&units, base, c),
                                      .want = ref->value[k],
                                      .bound = ref->bound[k]};
            ok &= tally_element(t, &e, threshold);
            if (first)
                tally_first(t, &e, tensor->dtype);
        }
    }
    return ok;
}

/* Elements of all outputs that are checked. */
static int64_t elements_of(const struct attn_problem *p, const struct ref_request *request,
                           uint32_t outputs)
{
    int64_t elements = 0;
    for (int o = 0; o < REF_OUTPUTS; o++)
        if (outputs >> o & 1)
            elements += ref_requested_units(p, request, o) * ref_output_width(p, o);
    return elements;
}

int attn_tally_outputs(const struct attn_instance *instance, const struct ref_request *request,
                       const struct ref_result *ref, struct attn_judgement *v,
                       struct attn_tally *tally)
{
    *tally = (struct attn_tally){
        .verdict = v,
        .stride = elements_of(&instance->problem, request, v->has) / MAX_RATIOS + 1,
        .least = INFINITY,
        .most = -INFINITY,
        .ref_least = INFINITY,
        .ref_most = -INFINITY};
    tally->ratios = malloc(MAX_RATIOS * sizeof *tally->ratios);
    if (!tally->ratios)
        return -1;
    for (int o = 0; o < REF_OUTPUTS; o++)
        if ((v->has >> o & 1) && !tally_output(instance, request, o, &ref->output[o], tally))
            v->ok &= ~(1u << o);
    v->median_ratio = attn_median_of(tally->ratios, tally->kept);
    v->rms = tally->out_elements ? sqrt(tally->sum_squares / (double)tally->out_elements) : 0;
    free(tally->ratios);
    tally->ratios = NULL;
    return 0;
}
