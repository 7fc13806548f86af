/* SPDX-License-Identifier: Apache-2.0 */
/* diagnose.c - the fills exact, one_hot and rounding; census has its own file. */
#include "explain/diagnose.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/census.h"
#include "explain/probe.h"
#include "reference/dtype.h"
#include "reference/score.h"
#include "tensor/inner.h"

/* The columns of a row share the roundings of its p, so the mean needs this many rows. */
static const int64_t least_rows = 64, least_keys = 8;

static void load_row(const struct attn_probe *probe, struct attn_probe_row at)
{
    for (int64_t c = 0; c < probe->instance->problem.dv; c++)
        probe->row[c] = attn_probe_element(probe->out, at.b, at.h, at.i, c);
}

/* If the number of scores that are 0 (of keys whose k is 0) is a power of two, their mean of v is
 * known to the bit. */
bool attn_exact_row(const struct attn_instance *instance, int64_t row, double *mean)
{
    const struct attn_problem *p = &instance->problem;
    if (!ref_op_is(p->op, REF_QKV) || !ref_is_softmax(p) || p->dtype == ATTN_F64 ||
        (ref_score_find(p->score)->traits & REF_SCORE_DISTANCE))
        return false; /* k = 0 does not give a score of 0, or exp(-200) is not negligible */
    const int64_t b = row / p->sq / p->hq, h = row / p->sq % p->hq, g = h / (p->hq / p->hkv);
    const struct attn_tensor *k = attn_probe_keys(p, b, row % p->sq);
    const struct attn_tensor *v = attn_probe_values(p, b, row % p->sq);
    int64_t zeros = 0;
    memset(mean, 0, (size_t)p->dv * sizeof *mean);
    for (int64_t j = 0; j < p->sk; j++) {
        if (!ref_allowed(p, b, h, row % p->sq, j) || attn_probe_element(k, b, g, j, 0) != 0)
            continue;
        for (int64_t c = 0; c < p->dv; c++)
            mean[c] += attn_probe_element(v, b, g, j, c);
        zeros++;
    }
    for (int64_t c = 0; c < p->dv && zeros > 0; c++)
        mean[c] /= (double)zeros;
    return zeros > 0 && (zeros & (zeros - 1)) == 0;
}

static bool check_exact(const struct attn_probe *probe, char *text, size_t size)
{
    const struct attn_problem *p = &probe->instance->problem;
    for (int64_t r = 0; r < probe->rows->count; r++) {
        const struct attn_probe_row at = attn_probe_row(probe, r);
        if (attn_inner_pruned(p, at.h) ||
            !attn_exact_row(probe->instance, (at.b * p->hq + at.h) * p->sq + at.i, probe->row))
            continue;
        for (int64_t c = 0; c < p->dv; c++) {
            const double got = attn_probe_element(probe->out, at.b, at.h, at.i, c);
            if (got == probe->row[c])
                continue;
            snprintf(text, size,
                     "exact: out[b%lld h%lld i%lld c%lld] is %.9g, but the mean of the values that "
                     "it reads is %.9g to the bit",
                     (long long)at.b, (long long)at.h, (long long)at.i, (long long)c, got,
                     probe->row[c]);
            return false;
        }
    }
    return true;
}

/* Is `row` row j of v, up to rounding? */
static bool is_value(const struct attn_probe *probe, const double *row, int64_t b, int64_t g,
                     int64_t j)
{
    const struct attn_problem *p = &probe->instance->problem;
    for (int64_t c = 0; c < p->dv; c++) {
        const double v = attn_probe_element(probe->v, b, g, j, c);
        if (!(fabs(row[c] - v) <= 1e-3 * fabs(v) + attn_dtype_ulp(p->dtype, fabs(v))))
            return false;
    }
    return true;
}

/* Finds a row among the rows of v, starting with its own head. */
static bool find_value(const struct attn_probe *probe, struct attn_probe_row at, const double *row,
                       int64_t found[3])
{
    const struct attn_problem *p = &probe->instance->problem;
    const int64_t heads = p->b * p->hkv, own = at.b * p->hkv + at.g;
    for (int64_t n = 0; n < heads; n++) {
        const int64_t head = (own + n) % heads;
        for (int64_t j = 0; j < p->sk; j++)
            if (is_value(probe, row, head / p->hkv, head % p->hkv, j)) {
                found[0] = head / p->hkv;
                found[1] = head % p->hkv;
                found[2] = j;
                return true;
            }
    }
    return false;
}

/* Only finds words: the bound has already judged what is wrong. */
static void explain_one_hot(const struct attn_probe *probe, char *text, size_t size)
{
    const int64_t dv = probe->instance->problem.dv;
    for (int64_t r = 0; r < probe->rows->count; r++) {
        const struct attn_probe_row at = attn_probe_row(probe, r);
        const double *want = &probe->want[r * dv];
        int64_t read[3], due[3];
        load_row(probe, at);
        if (at.n == 0 || !find_value(probe, at, want, due) ||
            is_value(probe, probe->row, due[0], due[1], due[2]) ||
            !find_value(probe, at, probe->row, read))
            continue;
        snprintf(text, size,
                 "one_hot: b%lld h%lld query %lld reads key %lld of batch %lld, head %lld instead "
                 "of key %lld of batch %lld, head %lld",
                 (long long)at.b, (long long)at.h, (long long)at.i, (long long)read[2],
                 (long long)read[0], (long long)read[1], (long long)due[2], (long long)due[0],
                 (long long)due[1]);
        return;
    }
}

/* Only 16-bit roundings stand out against the errors of sums in f32. */
double attn_rounding_unit(const struct attn_instance *instance, const struct attn_numerics *n)
{
    const struct attn_problem *p = &instance->problem;
    const struct attn_case *c = &instance->c;
    const double out = attn_dtype_roundoff(p->dtype);
    const double u = n->p_type ? fmax(out, attn_dtype_roundoff(n->p_type)) : out;
    if (u < 1e-4 || n->acc_toward_zero || n->out_toward_zero)
        return 0;
    /* p may be alike in all rows, or nearly 1 or 0; then roundings are alike, too */
    const bool alike = !ref_score_find(p->score)->by_width || c->scale_given || c->softcap > 0 ||
                       c->bias_normal || c->alibi || c->sink || c->dropout;
    return alike ? 0 : u;
}

/* A row of zeros has lost all its weights. */
bool attn_rounding_counts(int64_t keys, double first)
{
    return keys >= least_keys && first != 0;
}

/* Mean signed error of rows whose values are all positive. */
static bool check_rounding(const struct attn_probe *probe, const struct attn_numerics *numerics,
                           char *text, size_t size)
{
    const struct attn_problem *p = &probe->instance->problem;
    const double u = attn_rounding_unit(probe->instance, numerics);
    if (u == 0)
        return true;
    double sum = 0;
    int64_t rows = 0;
    for (int64_t r = 0; r < probe->rows->count; r++) {
        const struct attn_probe_row at = attn_probe_row(probe, r);
        if (!attn_rounding_counts(at.n, probe->want[r * p->dv]))
            continue;
        rows++;
        for (int64_t e = 0; e < p->dv; e++) {
            const double want = probe->want[r * p->dv + e];
            sum += (attn_probe_element(probe->out, at.b, at.h, at.i, e) - want) / (u * fabs(want));
        }
    }
    const double mean = sum / (double)(rows * p->dv);
    if (rows < least_rows || fabs(mean) <= ATTN_ROUNDING_MOST)
        return true;
    snprintf(text, size,
             "rounding: over %lld rows the mean signed error is %+.2f units of rounding; with "
             "rounding to nearest it stays within 0.03, so something is truncated",
             (long long)rows, mean);
    return false;
}

/* Puts a sentence in front of the bound's own, which keeps the figures. */
static void say(struct attn_judgement *v, const char *text)
{
    char joined[sizeof v->reason];
    snprintf(joined, sizeof joined, "%s%s%s", text, *v->reason ? "; " : "", v->reason);
    memcpy(v->reason, joined, sizeof joined);
}

/* Sums in 16 bits may stall, as declared. Short partial sums do not: they hold whole numbers up to
 * 8 each, if p is not a fraction. */
bool attn_diagnose_counts(const struct attn_problem *p, const struct attn_numerics *n)
{
    const uint32_t acc = n->acc_type ? n->acc_type : p->dtype;
    const double partial = n->partial_type ? attn_dtype_roundoff(n->partial_type) : 0;
    return attn_dtype_roundoff(acc) < 1e-4 &&
           (partial < 1e-4 || (!n->p_normalised && 8 * n->partial_terms * partial <= 1));
}

/* Multi-head attention: every row of every head, as W_o shows it. A residual changes the last bit,
 * so only census can take it off. */
static enum attn_status check_heads(const struct attn_instance *instance,
                                    const struct attn_numerics *numerics, struct attn_judgement *v,
                                    char *text, size_t size)
{
    const struct attn_problem *p = &instance->problem;
    const uint32_t stored = numerics->proj_type ? numerics->proj_type : p->dtype;
    const bool census = instance->c.fill == ATTN_FILL_CENSUS;
    struct attn_inner inner;
    enum attn_status status = ATTN_PASS;
    if ((!census && instance->c.fill != ATTN_FILL_EXACT) || !attn_diagnose_counts(p, numerics))
        return ATTN_PASS;
    if (attn_inner_create(instance, &inner) != 0) {
        snprintf(text, size, "no memory to look into the heads");
        return ATTN_ERROR;
    }
    attn_inner_read(instance, &inner);
    if (attn_dtype_roundoff(stored) > attn_dtype_roundoff(p->dtype))
        inner.instance.problem.dtype = stored;
    struct attn_problem *own = &inner.instance.problem;
    const struct ref_units all = {.count = own->b * own->hq * own->sq};
    struct ref_result ref = {.allowed = calloc((size_t)all.count, sizeof *ref.allowed)};
    struct attn_probe probe = {.instance = &inner.instance,
                               .rows = &all,
                               .ref = &ref,
                               .k = attn_tensor_find(own, ATTN_K),
                               .v = attn_tensor_find(own, ATTN_V),
                               .out = attn_tensor_find(own, ATTN_OUT),
                               .row = calloc((size_t)own->dv, sizeof *probe.row),
                               .beside = inner.beside};
    if (!probe.row || !ref.allowed) {
        snprintf(text, size, "no memory to look into the heads");
        status = ATTN_ERROR;
    } else if (inner.visible && census) {
        status = attn_census_check(&probe, &v->rows_counted, text, size) ? ATTN_PASS : ATTN_FAIL;
        v->rows_counted = ref_output_units(p, 0);
    } else if (inner.visible && inner.beside == 0) {
        status = check_exact(&probe, text, size) ? ATTN_PASS : ATTN_FAIL;
    }
    free(probe.row);
    free(ref.allowed);
    attn_inner_free(&inner);
    return status;
}

static enum attn_status check_fill(const struct attn_instance *instance,
                                   const struct ref_request *request, const struct ref_result *ref,
                                   struct attn_judgement *v, char *text, size_t size)
{
    const struct attn_problem *p = &instance->problem;
    const enum attn_fill fill = instance->c.fill;
    struct attn_probe probe = {.instance = instance,
                               .rows = &request->units[0],
                               .ref = ref,
                               .want = ref->output[0].value,
                               .k = attn_tensor_find(p, ATTN_K),
                               .v = attn_tensor_find(p, ATTN_V),
                               .out = attn_tensor_find(p, ATTN_OUT),
                               .row = calloc((size_t)p->dv, sizeof *probe.row)};
    if (!probe.row) {
        snprintf(text, size, "no memory to look into fill=%s", attn_fill_name(fill));
        return ATTN_ERROR;
    }
    bool ok = true;
    const bool counts = attn_diagnose_counts(p, request->numerics);
    if (fill == ATTN_FILL_CENSUS && counts)
        ok = attn_census_check(&probe, &v->rows_counted, text, size);
    else if (fill == ATTN_FILL_EXACT && counts)
        ok = check_exact(&probe, text, size);
    else if (fill == ATTN_FILL_ROUNDING)
        ok = check_rounding(&probe, request->numerics, text, size);
    else if (fill == ATTN_FILL_ONE_HOT && v->status == ATTN_FAIL)
        explain_one_hot(&probe, text, size);
    free(probe.row);
    return ok ? ATTN_PASS : ATTN_FAIL;
}

void attn_diagnose(const struct attn_instance *instance, const struct ref_request *request,
                   const struct ref_result *ref, struct attn_judgement *v)
{
    const struct attn_problem *p = &instance->problem;
    char text[320] = "";
    enum attn_status status = ATTN_PASS;
    const bool counted = instance->c.fill == ATTN_FILL_CENSUS && ref_op_is(p->op, REF_UNIFORM);
    if (instance->c.data || instance->c.fill < ATTN_FILL_CENSUS || (!ref_is_softmax(p) && !counted))
        return;
    if (ref_op_is(p->op, REF_QKV))
        status = check_fill(instance, request, ref, v, text, sizeof text);
    else if (ref_op_is(p->op, REF_PROJECTED))
        status = check_heads(instance, request->numerics, v, text, sizeof text);
    if (*text)
        say(v, text);
    if (status != ATTN_PASS) {
        v->status = status;
        v->ok &= ~1u;
    }
}
