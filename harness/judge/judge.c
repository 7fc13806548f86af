/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c - the references of an instance, and the verdicts on its outputs. */
#include "judge/judge.h"

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
#include "judge/tally.h"
#include "reference/bound.h"
#include "reference/every.h"
#include "tensor/operand.h"

enum { MAX_REFERENCES = 8 }; /* numerics kept at a time; more than backends that usually run */

/* A pass below this was not computed independently: rounding alone gives a larger error. */
static const double least_ratio = 1e-6;
static const int64_t least_keys = 8;

#define OUT_OF_RANGE                                                                               \
    "%lld of %lld elements may be beyond the range of the declared types, so they are not judged"

struct answer {
    bool used;
    uint64_t chosen; /* see chosen_of */
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
    uint32_t every; /* a bit for each output of which all units can be judged, not a sample alone */
    struct attn_judge *wrong; /* of rows outside the sample that were wrong; NULL: none */
};

/* Does an output lead others, or itself, that the problem has? */
static bool leads(const struct attn_judge *judge, int leader)
{
    const struct ref_output *outputs = judge->op->outputs;
    bool any = false;
    for (int o = 0; outputs[o].role; o++)
        any = any || (outputs[o].leader == leader &&
                      attn_tensor_find(&judge->instance->problem, outputs[o].role));
    return any;
}

/* The leader of the first output that the problem has: its units are the rows of a verdict. */
static int rows_of(const struct attn_judge *judge)
{
    int o = 0;
    while (!attn_tensor_find(&judge->instance->problem, judge->op->outputs[o].role))
        o++;
    return judge->op->outputs[o].leader;
}

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
    judge->request.stored = judge->op->chosen != 0;
    judge->request.given = instance->given;
    int leaders = 0;
    for (int o = 0; judge->op->outputs[o].role; o++)
        leaders += leads(judge, o);
    for (int o = 0; judge->op->outputs[o].role; o++)
        if (leads(judge, o) && attn_rows_choose(&instance->problem, o, budget / leaders,
                                                instance->c.sample_seed, &judge->request.units[o]))
            goto no_memory;
    for (int o = 0; judge->op->outputs[o].role; o++)
        if (judge->request.units[o].index && attn_every_fits(instance, o)) /* else it has all */
            judge->every |= 1u << o;
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

/* A hash of what a backend stored where several values are right, for other outputs follow from it.
 * 0 if there is no such output. */
static uint64_t chosen_of(const struct attn_judge *judge)
{
    uint64_t hash = 0;
    for (int o = 0; judge->op->outputs[o].role; o++) {
        const struct attn_tensor *tensor =
            attn_tensor_find(&judge->instance->problem, judge->op->outputs[o].role);
        const size_t span = tensor && judge->op->chosen >> o & 1 ? attn_tensor_span(tensor) : 0;
        for (size_t at = 0; at < span; at++)
            hash = (hash ^ ((const unsigned char *)tensor->data)[at]) * UINT64_C(0x100000001b3) + 1;
    }
    return hash;
}

/* The reference for these numerics, computed at most once for each choice of a backend. */
static const struct ref_result *reference_for(struct attn_judge *judge,
                                              const struct attn_numerics *numerics, char *why,
                                              size_t size)
{
    struct attn_numerics key = *numerics;
    const uint64_t chosen = chosen_of(judge);
    key.source = NULL;
    for (int a = 0; a < MAX_REFERENCES; a++)
        /* Equal numerics with other bits (-0) only cost a second computation.
         * NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
        if (judge->answers[a].used && judge->answers[a].chosen == chosen &&
            !memcmp(&judge->answers[a].numerics, &key, sizeof key))
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
    slot->chosen = chosen;
    slot->used = true;
    return &slot->result;
}

double attn_judge_ratio(uint32_t dtype, double got, double want, double bound)
{
    return attn_element_ratio(got, want, bound, attn_overflow_threshold(dtype));
}

/* Does a pass of these rows prove too little? Rounding must show, and the output must vary if the
 * reference varies. */
static bool is_trivial(const struct attn_judge *judge, const struct ref_result *ref,
                       const struct attn_judgement *v, const struct attn_tally *t, char *reason,
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

/* The rows that are checked, by the reference row by row. */
static void judge_sample(struct attn_judge *judge, const struct attn_numerics *numerics,
                         bool approximate, struct attn_judgement *v)
{
    const struct attn_problem *p = &judge->instance->problem;
    memset(v, 0, sizeof *v);
    judge->last = NULL;
    v->status = ATTN_ERROR;
    v->rows_checked = judge->request.units[rows_of(judge)].count;
    v->rows_total = ref_output_units(p, rows_of(judge));
    for (int o = 0; o < REF_OUTPUTS; o++)
        v->sampled = v->sampled || judge->request.units[o].index;
    v->delta = ref_delta(numerics, judge->instance->kind);
    v->ok = UINT32_MAX;
    const struct ref_result *ref = reference_for(judge, numerics, v->reason, sizeof v->reason);
    if (!ref)
        return;

    v->has = outputs_of(judge);
    struct attn_tally t;
    if (attn_tally_outputs(judge->instance, &judge->request, ref, v, &t) != 0) {
        snprintf(v->reason, sizeof v->reason, "no memory to judge");
        return;
    }

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
    }
    char limit[256];
    if (attn_status_holds(v->status) && !approximate &&
        !attn_limits_hold(p, numerics, limit, sizeof limit)) {
        const size_t n = strlen(v->reason);
        snprintf(v->reason + n, sizeof v->reason - n, "%s%s", n ? "; " : "", limit);
        v->status = ATTN_MISTRUSTED;
    }
    v->unknown = t.unknown;
    judge->last = ref;
}

/* Judges wrong rows outside the sample one by one, so that the evidence is of them. */
static void judge_wrong(struct attn_judge *judge, const struct attn_numerics *numerics,
                        const struct attn_every *every, struct attn_judgement *v)
{
    const bool all = every->rows == ref_output_units(&judge->instance->problem, every->leader);
    struct attn_judge *wrong = calloc(1, sizeof *wrong);
    int64_t *index = calloc(ATTN_EVERY_KEPT, sizeof *index);
    v->status = ATTN_FAIL;
    v->ok &= ~(1u << every->leader);
    snprintf(v->reason, sizeof v->reason, "%s is beyond its bound", every->worst);
    if (wrong && index) {
        memcpy(index, every->kept, (size_t)every->n_kept * sizeof *index);
        *wrong = (struct attn_judge){.instance = judge->instance,
                                     .op = judge->op,
                                     .request = {.fill = judge->request.fill,
                                                 .threads = judge->request.threads,
                                                 .stored = judge->request.stored,
                                                 .given = judge->request.given}};
        wrong->request.units[every->leader] = (struct ref_units){every->n_kept, index};
        struct attn_judgement alone;
        judge_sample(wrong, numerics, false, &alone);
        alone.rows_checked = v->rows_checked;
        if (alone.status == ATTN_FAIL)
            *v = alone;
        judge->wrong = wrong;
    } else {
        free(wrong);
        free(index);
    }
    const size_t n = strlen(v->reason);
    snprintf(v->reason + n, sizeof v->reason - n, "; %lld of %s%lld %s wrong",
             (long long)every->wrong, all ? "all " : "", (long long)every->rows,
             every->leader == rows_of(judge) ? "rows" : "keys");
}

/* Every row of a leader, after the sample has passed. If the reference cannot do that, the sample
 * stands, as rows_checked says. */
static void judge_every(struct attn_judge *judge, const struct attn_numerics *numerics, int leader,
                        struct attn_judgement *v)
{
    struct attn_every every = {.leader = leader};
    char why[256];
    if (attn_every_judge(judge->instance, &judge->request, numerics, &every, why, sizeof why) !=
        ATTN_OK)
        return;
    if (every.wrong > 0)
        judge_wrong(judge, numerics, &every, v);
    else if (every.unknown > v->unknown) {
        v->status = ATTN_MISTRUSTED;
        v->unknown = every.unknown;
        snprintf(v->reason, sizeof v->reason, OUT_OF_RANGE, (long long)every.unknown,
                 (long long)every.rows * ref_output_width(&judge->instance->problem, every.leader));
    }
    if (every.max_ratio > v->max_ratio) {
        v->max_ratio = every.max_ratio;
        memcpy(v->worst, every.worst, sizeof v->worst);
    }
    if (every.leader != rows_of(judge)) {
        v->keys_every = every.rows;
        return;
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
    for (int o = 0; o < REF_OUTPUTS; o++)
        if (judge->every >> o & 1 && (v->status == ATTN_PASS || v->status == ATTN_MISTRUSTED))
            judge_every(judge, numerics, o, v);
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

void attn_judge_approximation(const struct attn_judge *judge, struct ref_approximation *a)
{
    char why[256];
    *a = (struct ref_approximation){0};
    if (ref_approximates(&judge->instance->problem))
        ref_approximation(&judge->instance->problem, &judge->request, a, why, sizeof why);
}
