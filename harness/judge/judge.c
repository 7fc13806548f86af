/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c - class first, then error against bound; nothing that is NaN can pass. */
#include "judge/judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/answers.h"
#include "judge/element.h"
#include "judge/every.h"
#include "judge/expected.h"
#include "judge/grade.h"
#include "judge/limits.h"
#include "judge/rows.h"
#include "reference/bound.h"
#include "reference/dtype.h"
#include "reference/every.h"
#include "tensor/units.h"

enum {
    MAX_REFERENCES = 8,  /* numerics kept at a time; more than backends that usually run */
    MAX_RATIOS = 1 << 16 /* ratios kept for the median; an even sample of all */
};

/* A pass below this was not computed independently: rounding alone gives a larger error. */
static const double least_ratio = 1e-6;
static const int64_t least_keys = 8;
/* ... unless every true value is a number of the output type to within this part of an ulp: the
 * value of a key that takes all the weight, the residual that pruned heads leave, an underflow. */
static const double exact_ulp = 1e-3;

#define OUT_OF_RANGE                                                                               \
    "%lld of %lld elements may be beyond the range of the declared types, so they are not judged"

struct answer {
    bool used;
    struct attn_numerics numerics;
    struct ref_result result;
};

struct attn_judge {
    const struct attn_instance *instance;
    const struct ref_op *op;
    struct ref_request request; /* the units to check */
    struct answer answers[MAX_REFERENCES];
    int next;
    struct attn_best *best;        /* for grades; NULL: not asked for yet */
    const struct ref_result *last; /* the reference of the last verdict; NULL: no verdict yet */
    bool every;                    /* every row can be judged, besides the sample */
    struct attn_judge *wrong;      /* of rows outside the sample that were wrong; NULL: none */
};

int attn_judge_create(const struct attn_instance *instance, double budget, int threads,
                      struct attn_judge **out, char *why, size_t size)
{
    struct attn_judge *judge = calloc(1, sizeof *judge);
    if (!judge)
        goto no_memory;
    judge->instance = instance;
    judge->op = ref_op_find(instance->problem.op);
    judge->request.fill = instance->kind;
    judge->request.threads = threads;
    int leaders = 0;
    for (int o = 0; judge->op->outputs[o].role; o++)
        leaders += judge->op->outputs[o].leader == o;
    for (int o = 0; judge->op->outputs[o].role; o++)
        if (judge->op->outputs[o].leader == o &&
            attn_rows_choose(&instance->problem, o, budget / leaders, instance->c.sample_seed,
                             &judge->request.units[o]))
            goto no_memory;
    judge->every = instance->c.fill == ATTN_FILL_FEW_QUERIES && judge->request.units[0].index &&
                   ref_every_fits(&instance->problem, NULL, 0);
    *out = judge;
    return 0;

no_memory:
    attn_judge_free(judge);
    snprintf(why, size, "no memory to choose rows");
    return -1;
}

void attn_judge_free(struct attn_judge *judge)
{
    if (!judge)
        return;
    for (int a = 0; a < MAX_REFERENCES; a++)
        attn_answers_free(&judge->answers[a].result);
    attn_best_free(judge->best);
    for (int o = 0; o < REF_OUTPUTS; o++)
        free((void *)(uintptr_t)judge->request.units[o].index);
    attn_judge_free(judge->wrong);
    free(judge);
}

/* The outputs that a problem asks for, one bit each. */
static uint32_t outputs_of(const struct attn_judge *judge)
{
    uint32_t outputs = 0;
    for (int o = 0; judge->op->outputs[o].role; o++)
        if (attn_tensor_find(&judge->instance->problem, judge->op->outputs[o].role))
            outputs |= 1u << o;
    return outputs;
}

/* The reference for these numerics, computed at most once. */
static const struct ref_result *reference_for(struct attn_judge *judge,
                                              const struct attn_numerics *numerics, char *why,
                                              size_t size)
{
    struct attn_numerics key = *numerics;
    key.source = NULL;
    for (int a = 0; a < MAX_REFERENCES; a++)
        /* Equal numerics with other bits (-0) only cost a second computation.
         * NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
        if (judge->answers[a].used && !memcmp(&judge->answers[a].numerics, &key, sizeof key))
            return &judge->answers[a].result;

    struct answer *slot = &judge->answers[judge->next];
    judge->next = (judge->next + 1) % MAX_REFERENCES;
    attn_answers_free(&slot->result);
    slot->used = false;
    const struct attn_problem *p = &judge->instance->problem;
    struct ref_request request = judge->request;
    request.numerics = &key;
    if (attn_answers_allocate(p, &request, outputs_of(judge), &slot->result)) {
        snprintf(why, size, "no memory for the reference of %lld rows",
                 (long long)request.units[0].count);
        attn_answers_free(&slot->result);
        return NULL;
    }
    if (ref_compute(p, &request, &slot->result, why, size) != ATTN_OK) {
        attn_answers_free(&slot->result);
        return NULL;
    }
    slot->numerics = key;
    slot->used = true;
    return &slot->result;
}

/* Running figures over the elements of a verdict. */
struct tally {
    struct attn_judgement *verdict;
    double *ratios;
    int64_t seen, kept, stride;
    double sum_squares;
    int64_t out_elements;
    int64_t zeros;   /* elements of out that are 0 where the reference is not */
    int64_t inexact; /* elements of its reference that must be rounded to be stored */
    double least, most, ref_least, ref_most; /* ranges of out and of its reference */
    int64_t failures;
    int64_t unknown; /* elements of which nothing is known; not counted in `seen` */
};

static void describe_failure(struct tally *t, const char *where, double got, double want,
                             double bound)
{
    struct attn_judgement *v = t->verdict;
    snprintf(v->reason, sizeof v->reason,
             "%s is %.9g, the reference says %.9g, allowed error %.3g%s", where, got, want, bound,
             isnan(got) && !isnan(want) ? " (NaN: wrong, or never written)" : "");
}

/* Element c of a unit: what was computed, and what the reference says. */
struct element {
    const struct attn_units *units;
    int64_t unit, c;
    double got, want, bound;
};

/* Counts one element. Its place is written out only if it is the worst so far. */
static bool tally_element(struct tally *t, const struct element *e, double threshold)
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

double attn_judge_ratio(uint32_t dtype, double got, double want, double bound)
{
    return attn_element_ratio(got, want, bound, attn_overflow_threshold(dtype));
}

/* A value as the type can hold it. */
static double rounded(uint32_t dtype, double value)
{
    double stored;
    attn_dtype_store(dtype, &stored, 0, value);
    return attn_dtype_load(dtype, &stored, 0);
}

/* Figures that only the first output has. */
static void tally_first(struct tally *t, const struct element *e, uint32_t dtype)
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
static bool tally_output(const struct attn_judge *judge, int o, const struct ref_values *ref,
                         struct tally *t)
{
    struct attn_units units;
    attn_units_of(&judge->instance->problem, o, &units);
    const struct ref_units *leaders = &judge->request.units[units.output->leader];
    const struct attn_tensor *tensor = units.tensor;
    double threshold = attn_overflow_threshold(tensor->dtype);
    bool ok = true;
    for (int64_t r = 0; r < leaders->count * units.followers; r++) {
        const int64_t unit =
            ref_unit_number(leaders, r / units.followers) * units.followers + r % units.followers;
        const int64_t base = attn_unit_base(&units, unit);
        for (int64_t c = 0; c < units.width; c++) {
            const int64_t k = r * units.width + c, at = attn_unit_element(&units, base, c);
            const struct element e = {.units = &units,
                                      .unit = unit,
                                      .c = c,
                                      .got = attn_dtype_load(tensor->dtype, tensor->data, at),
                                      .want = ref->value[k],
                                      .bound = ref->bound[k]};
            ok &= tally_element(t, &e, threshold);
            if (o == 0)
                tally_first(t, &e, tensor->dtype);
        }
    }
    return ok;
}

/* Does a pass of these rows prove too little? Rounding must show, and the output must vary if the
 * reference varies. */
static bool is_trivial(const struct attn_judge *judge, const struct ref_result *ref,
                       const struct attn_judgement *v, const struct tally *t, char *reason,
                       size_t size)
{
    const struct attn_instance *in = judge->instance;
    if (in->kind != REF_FILL_GENERIC || in->problem.dtype == ATTN_F64)
        return false;
    int64_t rich = 0;
    const int64_t rows = ref_requested_rows(&in->problem, &judge->request);
    for (int64_t r = 0; r < rows; r++)
        rich += ref->allowed[r] >= least_keys;
    if (rows > 0 && rich == 0)
        return false;
    if (t->zeros > t->out_elements / 2) {
        snprintf(reason, size, "%lld of %lld elements of out are 0 where the reference is not",
                 (long long)t->zeros, (long long)t->out_elements);
        return true;
    }
    if (t->least == t->most && t->ref_least < t->ref_most) {
        snprintf(reason, size, "out is constant where the reference is not");
        return true;
    }
    if (v->max_ratio >= least_ratio || t->inexact == 0)
        return false;
    snprintf(reason, size,
             "the largest error is %.1e of its bound: rounding in an independent computation would "
             "give more",
             v->max_ratio);
    return true;
}

/* Elements of all outputs that are checked. */
static int64_t elements_of(const struct attn_judge *judge, uint32_t outputs)
{
    const struct attn_problem *p = &judge->instance->problem;
    int64_t elements = 0;
    for (int o = 0; o < REF_OUTPUTS; o++)
        if (outputs >> o & 1)
            elements += ref_requested_units(p, &judge->request, o) * ref_output_width(p, o);
    return elements;
}

/* The rows that are checked, by the reference row by row. */
static void judge_sample(struct attn_judge *judge, const struct attn_numerics *numerics,
                         bool approximate, struct attn_judgement *v)
{
    const struct attn_problem *p = &judge->instance->problem;
    memset(v, 0, sizeof *v);
    judge->last = NULL;
    v->status = ATTN_ERROR;
    v->rows_checked = judge->request.units[0].count;
    v->rows_total = ref_output_units(p, 0);
    v->delta = ref_delta(numerics, judge->instance->kind);
    v->ok = UINT32_MAX;
    const struct ref_result *ref = reference_for(judge, numerics, v->reason, sizeof v->reason);
    if (!ref)
        return;

    v->has = outputs_of(judge);
    struct tally t = {.verdict = v,
                      .stride = elements_of(judge, v->has) / MAX_RATIOS + 1,
                      .least = INFINITY,
                      .most = -INFINITY,
                      .ref_least = INFINITY,
                      .ref_most = -INFINITY};
    t.ratios = malloc(MAX_RATIOS * sizeof *t.ratios);
    if (!t.ratios) {
        snprintf(v->reason, sizeof v->reason, "no memory to judge");
        return;
    }
    for (int o = 0; o < REF_OUTPUTS; o++)
        if ((v->has >> o & 1) && !tally_output(judge, o, &ref->output[o], &t))
            v->ok &= ~(1u << o);
    v->median_ratio = attn_median_of(t.ratios, t.kept);
    v->rms = t.out_elements ? sqrt(t.sum_squares / (double)t.out_elements) : 0;
    free(t.ratios);

    if (approximate) {
        v->status = ATTN_APPROX;
        snprintf(v->reason, sizeof v->reason, "approximate: measured, not judged");
    } else if (t.failures) {
        v->status = ATTN_FAIL;
        size_t n = strlen(v->reason);
        snprintf(v->reason + n, sizeof v->reason - n, "; %lld of %lld elements wrong",
                 (long long)t.failures, (long long)t.seen);
    } else if (t.unknown) {
        v->status = ATTN_MISTRUSTED;
        snprintf(v->reason, sizeof v->reason, OUT_OF_RANGE, (long long)t.unknown,
                 (long long)(t.unknown + t.seen));
    } else {
        v->status = is_trivial(judge, ref, v, &t, v->reason, sizeof v->reason) ? ATTN_MISTRUSTED
                                                                               : ATTN_PASS;
        if (v->status == ATTN_PASS && !attn_limits_hold(p, numerics, v->reason, sizeof v->reason))
            v->status = ATTN_MISTRUSTED;
    }
    v->unknown = t.unknown;
    judge->last = ref;
}

/* Judges wrong rows outside the sample one by one, so that the evidence is of them. */
static void judge_wrong(struct attn_judge *judge, const struct attn_numerics *numerics,
                        const struct attn_every *every, struct attn_judgement *v)
{
    struct attn_judge *wrong = calloc(1, sizeof *wrong);
    int64_t *index = calloc(ATTN_EVERY_KEPT, sizeof *index);
    v->status = ATTN_FAIL;
    v->ok &= ~1u;
    snprintf(v->reason, sizeof v->reason, "%s is beyond its bound", every->worst);
    if (wrong && index) {
        memcpy(index, every->kept, (size_t)every->n_kept * sizeof *index);
        *wrong = (struct attn_judge){.instance = judge->instance,
                                     .op = judge->op,
                                     .request = {.units = {{every->n_kept, index}},
                                                 .fill = judge->request.fill,
                                                 .threads = judge->request.threads}};
        struct attn_judgement alone;
        judge_sample(wrong, numerics, false, &alone);
        if (alone.status == ATTN_FAIL)
            *v = alone;
        judge->wrong = wrong;
    } else {
        free(wrong);
        free(index);
    }
    const size_t n = strlen(v->reason);
    snprintf(v->reason + n, sizeof v->reason - n, "; %lld of all %lld rows wrong",
             (long long)every->wrong, (long long)every->rows);
}

/* Every row, after the sample has passed. If the reference cannot do that, the sample stands, as
 * rows_checked says. */
static void judge_every(struct attn_judge *judge, const struct attn_numerics *numerics,
                        struct attn_judgement *v)
{
    struct attn_every every;
    char why[256];
    if (attn_every_judge(judge->instance, numerics, judge->request.threads, &every, why,
                         sizeof why) != ATTN_OK)
        return;
    if (every.wrong > 0)
        judge_wrong(judge, numerics, &every, v);
    else if (every.unknown > v->unknown) {
        v->status = ATTN_MISTRUSTED;
        v->unknown = every.unknown;
        snprintf(v->reason, sizeof v->reason, OUT_OF_RANGE, (long long)every.unknown,
                 (long long)every.rows * ref_output_width(&judge->instance->problem, 0));
    }
    if (every.max_ratio > v->max_ratio) {
        v->max_ratio = every.max_ratio;
        memcpy(v->worst, every.worst, sizeof v->worst);
    }
    v->rows_checked = every.rows;
    v->rows_every = every.rows;
}

void attn_judge_outputs(struct attn_judge *judge, const struct attn_numerics *numerics,
                        bool approximate, struct attn_judgement *v)
{
    attn_judge_free(judge->wrong);
    judge->wrong = NULL;
    judge_sample(judge, numerics, approximate, v);
    if (judge->every && (v->status == ATTN_PASS || v->status == ATTN_MISTRUSTED))
        judge_every(judge, numerics, v);
}

void attn_judge_grade(struct attn_judge *judge, struct attn_judgement *v)
{
    struct attn_evidence evidence;
    if (attn_judge_evidence(judge, &evidence))
        attn_grade(&judge->best, &evidence, v);
}

bool attn_judge_evidence(const struct attn_judge *judge, struct attn_evidence *evidence)
{
    if (judge->wrong && judge->wrong->last)
        return attn_judge_evidence(judge->wrong, evidence);
    *evidence = (struct attn_evidence){
        .instance = judge->instance, .request = judge->request, .ref = judge->last};
    return judge->last != NULL;
}

void attn_judge_reference(struct attn_judge *judge, struct attn_judgement *v)
{
    attn_expected_judge(judge->instance, judge->request.threads, v);
}
