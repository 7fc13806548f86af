/* SPDX-License-Identifier: Apache-2.0 */
/* expected.c - compares the reference with the expected answers of a pack. */
#include "judge/expected.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/answers.h"
#include "tensor/units.h"

/* Do computed a and expected b agree, as packs define it? NaN agrees only with NaN: a score of NaN
 * makes its row NaN in a third party's answer, too. */
static bool agrees(double a, double b, double rtol, double atol)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return a == b;
    return fabs(a - b) <= atol + rtol * fabs(b);
}

static bool agree_all(const struct attn_expected *e, const double *got, const double *want,
                      int64_t n, const char *name, struct attn_judgement *v)
{
    bool ok = true;
    for (int64_t i = 0; i < n; i++) {
        double error = fabs(got[i] - want[i]);
        if (isfinite(error)) {
            v->max_abs = fmax(v->max_abs, error);
            if (error > 0)
                v->max_ratio = fmax(v->max_ratio, error / (e->atol + e->rtol * fabs(want[i])));
        }
        if (ok && !agrees(got[i], want[i], e->rtol, e->atol)) {
            ok = false;
            snprintf(v->worst, sizeof v->worst, "%s[%lld]", name, (long long)i);
            snprintf(v->reason, sizeof v->reason,
                     "the reference gives %.12g for %s[%lld], the pack expects %.12g (rtol %g, "
                     "atol %g)",
                     got[i], name, (long long)i, want[i], e->rtol, e->atol);
        }
    }
    return ok;
}

/* Compares the values of all units of output o, or of its shape, with a pack's expected answer. The
 * expected answer is in the order of the tensor. The result: ATTN_PASS, ATTN_FAIL, or ATTN_ERROR if
 * there is no memory. */
static enum attn_status agree_output(const struct attn_instance *instance, int o, const double *got,
                                     const double *want, const char *name, struct attn_judgement *v)
{
    struct attn_units units;
    attn_units_of(&instance->problem, o, &units);
    double *ordered = attn_answers_doubles(units.count, units.width);
    if (!ordered) {
        snprintf(v->reason, sizeof v->reason, "no memory to compare %s with the pack", name);
        return ATTN_ERROR;
    }
    attn_units_in_order(&units, got, ordered);
    bool ok = agree_all(&instance->expected, ordered, want, units.count * units.width, name, v);
    free(ordered);
    return ok ? ATTN_PASS : ATTN_FAIL;
}

/* Compares a reference of all units with the pack's expected answers. The result is as above. An
 * error ends the comparison. */
static enum attn_status agree_with_pack(const struct attn_instance *instance,
                                        const struct ref_result *r, struct attn_judgement *v)
{
    const struct attn_expected *e = &instance->expected;
    const struct ref_op *op = ref_op_find(instance->problem.op);
    const int weights = ref_output_of(op, ATTN_WEIGHTS); /* scores have its shape */
    enum attn_status all = ATTN_PASS, one;
    for (int o = 0; o < REF_OUTPUTS && op->outputs[o].role; o++) {
        const struct ref_output *output = &op->outputs[o];
        const double *want = e->output[o];
        if (!want)
            continue;
        one = agree_output(instance, o, r->output[o].value, want, output->name, v);
        if (one == ATTN_ERROR)
            return one;
        if (one == ATTN_FAIL) {
            v->ok &= ~(1u << o);
            all = ATTN_FAIL;
        }
    }
    if (e->scores && weights >= 0) {
        const double *scores = r->scores[e->scores_stage];
        one = agree_output(instance, weights, scores, e->scores, "scores", v);
        all = one == ATTN_PASS ? all : one;
    }
    return all;
}

void attn_expected_judge(const struct attn_instance *in, int threads, struct attn_judgement *v)
{
    const struct ref_op *op = ref_op_find(in->problem.op);
    const struct attn_problem *p = &in->problem;
    const struct attn_expected *e = &in->expected;
    memset(v, 0, sizeof *v);
    v->status = ATTN_SKIP;
    bool any = e->scores;
    for (int o = 0; o < REF_OUTPUTS && op->outputs[o].role; o++)
        any = any || e->output[o];
    if (!any) {
        snprintf(v->reason, sizeof v->reason, "the pack carries no expected answers");
        return;
    }
    struct ref_request request = {.fill = in->kind, .threads = threads};
    ref_request_all(p, &request);
    v->rows_checked = v->rows_total = request.units[0].count;
    v->ok = UINT32_MAX;
    v->has = 1; /* the first output is computed whatever the pack expects */
    for (int o = 0; o < REF_OUTPUTS && op->outputs[o].role; o++)
        v->has |= (uint32_t)(e->output[o] != NULL) << o;

    struct ref_result r = {0};
    v->status = ATTN_ERROR;
    if (e->scores)
        r.scores[e->scores_stage] = attn_answers_doubles(ref_requested_rows(p, &request), p->sk);
    if (attn_answers_allocate(p, &request, v->has, &r) ||
        (e->scores && !r.scores[e->scores_stage])) {
        snprintf(v->reason, sizeof v->reason, "no memory for the reference of a whole pack");
        goto out;
    }
    if (ref_compute(p, &request, &r, v->reason, sizeof v->reason) != ATTN_OK)
        goto out;
    v->status = agree_with_pack(in, &r, v);
out:
    attn_answers_free(&r);
}
