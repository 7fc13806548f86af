/* SPDX-License-Identifier: Apache-2.0 */
/* relation_results.c - reads the results of one run element by element, and says how far they may
 * be off. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/operands.h"
#include "run/relation.h"

static int64_t offset_of(const struct attn_tensor *tensor, const int64_t *at)
{
    int64_t index = 0;
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        index += at[axis] * tensor->stride[axis];
    return index;
}

static double *read_all(const struct attn_tensor *tensor)
{
    int64_t count = 1, at[ATTN_MAX_RANK] = {0};
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        count *= tensor->shape[axis];
    double *values = calloc((size_t)count + 1, sizeof *values);
    for (int64_t n = 0; values && n < count; n++) {
        values[n] = attn_dtype_load(tensor->dtype, tensor->data, offset_of(tensor, at));
        for (uint32_t axis = tensor->rank; axis-- > 0 && ++at[axis] == tensor->shape[axis];)
            at[axis] = 0;
    }
    return values;
}

void attn_results_free(struct attn_results *results)
{
    for (int o = 0; o < REF_OUTPUTS; o++) {
        free(results->value[o]);
        free(results->allowed[o]);
    }
    if (results->bounded)
        attn_allowance_free(&results->allowance);
    free(results->rows);
    *results = (struct attn_results){0};
}

static const struct ref_op *op_of(const struct attn_results *results)
{
    return ref_op_find(results->instance->problem.op);
}

int attn_results_take(const struct attn_instance *instance, struct attn_results *results)
{
    *results = (struct attn_results){.instance = instance};
    const struct ref_output *outputs = op_of(results)->outputs;
    for (int o = 0; outputs[o].role; o++) {
        const struct attn_tensor *tensor = attn_tensor_find(&instance->problem, outputs[o].role);
        if (!tensor || outputs[o].role == ATTN_WEIGHTS)
            continue;
        results->tensor[o] = tensor;
        results->value[o] = read_all(tensor);
        if (!results->value[o])
            return -1;
    }
    return 0;
}

/* Does reading the inputs leave numbers of 8 bits as they are? */
static bool reads_bits(const struct attn_numerics *numerics)
{
    int exponent;
    return numerics->u_in == 0 || (frexp(numerics->u_in, &exponent) == 0.5 && exponent <= -7);
}

static int64_t count_of(const struct attn_tensor *tensor)
{
    int64_t count = 1;
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        count *= tensor->shape[axis];
    return count;
}

/* What a stored number may be off by: it lies in the binade of the result, or at its edge. */
static double stored(const struct attn_results *results, int output, double value)
{
    return isfinite(value)
               ? ref_store_error(&results->allowance.arithmetic, results->tensor[output]->dtype,
                                 fabs(value), fabs(value))
               : 0;
}

/* How far the state that was handed over may be off. NULL: no memory. */
static double *handed_error(const struct attn_results *from, int output)
{
    const int64_t count = count_of(from->tensor[output]);
    double *error = calloc((size_t)count + 1, sizeof *error);
    for (int64_t n = 0; error && n < count; n++)
        error[n] = from->allowed[output][n] + stored(from, output, from->value[output][n]);
    return error;
}

/* The allowance of an operator that hands a state on. */
static int bound_stream(struct attn_results *results, const struct ref_stream *stream,
                        const struct attn_numerics *numerics, enum ref_fill_kind kind)
{
    const struct attn_problem *p = &results->instance->problem;
    const int state = ref_output_of(op_of(results), stream->out);
    struct ref_request all = {.fill = kind};
    struct ref_operands operands;
    double *handed = NULL;
    int status = 0;
    ref_request_all(p, &all);
    results->allowance.problem = p;
    ref_arithmetic_init(&results->allowance.arithmetic, p, numerics, kind, ref_chains(p, &all));
    for (int o = 0; o < REF_OUTPUTS && status == 0; o++)
        if (results->value[o]) {
            results->allowed[o] = calloc((size_t)count_of(results->tensor[o]) + 1, sizeof(double));
            status = results->allowed[o] ? 0 : -1;
        }
    if (status == 0 && results->handed) {
        handed = handed_error(results->handed, state);
        status = handed ? 0 : -1;
    }
    ref_operands_init(&operands, p);
    if (status == 0 && stream->allow(&operands, &results->allowance.arithmetic, handed,
                                     results->allowed) != ATTN_OK)
        status = -1;
    free(handed);
    results->bounded = status == 0;
    return status;
}

/* Of gradients norms say too little: a key's column of weights has no sum. So the reference gives
 * the bound of each element. Where LSE and OUT are taken as given, a plan that has its own declares
 * so; two plans must agree in that. */
static int bound_gradients(struct attn_results *results, const struct attn_numerics *case_numerics,
                           enum ref_fill_kind kind)
{
    const struct attn_problem *p = &results->instance->problem;
    const struct attn_numerics *numerics = &results->numerics;
    struct ref_request all = {
        .numerics = numerics, .fill = kind, .threads = results->threads, .given = results->given};
    struct ref_result bounds = {0};
    char why[128];
    if (numerics->bwd_lse != case_numerics->bwd_lse ||
        numerics->bwd_delta != case_numerics->bwd_delta)
        return -1;
    ref_request_all(p, &all);
    for (int o = 0; o < REF_OUTPUTS; o++) {
        if (!results->value[o])
            continue;
        bounds.output[o].bound = calloc((size_t)count_of(results->tensor[o]) + 1, sizeof(double));
        results->allowed[o] = bounds.output[o].bound;
        if (!results->allowed[o])
            return -1;
    }
    results->final = true;
    results->bounded = ref_compute(p, &all, &bounds, why, sizeof why) == ATTN_OK;
    return results->bounded ? 0 : -1;
}

int attn_results_bound(struct attn_results *results, const struct attn_numerics *numerics,
                       enum ref_fill_kind kind, bool constant_v)
{
    const struct attn_problem *p = &results->instance->problem;
    const struct attn_instance *attention = results->attention;
    if (op_of(results)->stream)
        return bound_stream(results, op_of(results)->stream, numerics, kind);
    if (attn_tensor_find(p, ATTN_GRAD_OUT))
        return bound_gradients(results, numerics, kind);
    if (attention) { /* its allowance holds */
    } else if (ref_op_is(p->op, REF_PROJECTED | REF_SOFTMAX)) {
        /* Numbers on a grid: never generic. */
        if (!reads_bits(numerics) || !results->inner || !results->inner->exact)
            return -1;
        attention = &results->inner->instance;
        kind = REF_FILL_STRUCTURED;
    } else if (!ref_op_is(p->op, REF_QKV | REF_SOFTMAX)) {
        return 0;
    } else {
        attention = results->instance;
    }
    if (!results->rows)
        results->rows = calloc((size_t)results->instance->problem.hq, sizeof *results->rows);
    if (!results->rows ||
        attn_allowance_create(attention, numerics, kind, constant_v, &results->allowance))
        return -1;
    results->allowance.q_size = results->inner ? results->inner->q_size : NULL;
    results->bounded = true;
    return 0;
}

/* ---- places ---- */

struct attn_place attn_place_of(const struct ref_op *op, int output, const struct attn_place *at)
{
    struct attn_place place = *at;
    const char *shape = op->outputs[output].shape;
    place.output = output;
    for (int axis = 0; shape[axis]; axis++)
        place.at[axis] = shape[axis] == 'b'   ? at->b
                         : shape[axis] == 'h' ? at->h
                         : shape[axis] == 'i' ? at->i
                                              : at->c;
    return place;
}

struct attn_place attn_place_of_lse(const struct attn_results *results, const struct attn_place *at)
{
    struct attn_place row = *at;
    row.c = -1;
    return attn_place_of(op_of(results), ref_output_of(op_of(results), ATTN_LSE), &row);
}

struct attn_place attn_place_in_batch(const struct attn_results *results,
                                      const struct attn_place *at, int64_t b)
{
    struct attn_place place = *at;
    const char *shape = op_of(results)->outputs[at->output].shape;
    place.b = b;
    place.at[strchr(shape, 'b') - shape] = b;
    return place;
}

/* The place of an element in dense order. */
static int64_t index_of(const struct attn_results *results, const struct attn_place *at)
{
    const struct attn_tensor *tensor = results->tensor[at->output];
    int64_t index = 0;
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        index = index * tensor->shape[axis] + at->at[axis];
    return index;
}

double attn_results_read(const struct attn_results *results, const struct attn_place *at)
{
    return results->value[at->output][index_of(results, at)];
}

double attn_results_compared(const struct attn_results *results, const struct attn_place *at)
{
    const struct attn_tensor *tensor = results->tensor[at->output];
    const int64_t width = tensor->shape[tensor->rank - 1], column = at->at[tensor->rank - 1];
    const struct ref_op *op = op_of(results);
    double unit[REF_COMPARABLE];
    if (!op->comparable || width > REF_COMPARABLE)
        return attn_results_read(results, at);
    memcpy(unit, results->value[at->output] + index_of(results, at) - column,
           (size_t)width * sizeof *unit);
    op->comparable(at->output, unit);
    return unit[column];
}

/* E of the attention inside, through W_o, bias and residual, as reference/ops/mha/OP.md has it.
 * Their values are known only together: their sizes are at most `size`. */
static double passed_on(const struct attn_results *results, const struct attn_place *at,
                        double value, double e)
{
    const struct attn_problem *p = &results->instance->problem;
    const struct ref_arithmetic *a = &results->allowance.arithmetic;
    const struct attn_tensor *b_o = attn_tensor_find(p, ATTN_B_O);
    const double weight = fabs(results->inner->sources[at->c].weight);
    double size = fabs(value) + (b_o ? fabs(ref_load(b_o, &at->c)) : 0);
    if (isinf(e))
        return e;
    if (p->flags & ATTN_FLAG_RESIDUAL)
        size += fabs(ref_load(attn_tensor_find(p, ATTN_X_Q), at->at));
    size *= 1.01; /* the true values are larger by the errors of value and its storage */
    if (attn_tensor_find(p, ATTN_W_O)) {
        e = weight * e + a->u_proj * (size + weight * e) + weight * a->eta_proj;
        e += ref_growth_rounded(a, 3) * (size + e) + a->omega * (4 + weight + size);
    }
    if (p->flags & ATTN_FLAG_RESIDUAL)
        e += (a->u_proj + 2 * a->u_op) * (size + e) + a->eta_proj + a->omega;
    return a->copies * e;
}

double attn_results_slack(struct attn_results *results, const struct attn_place *at)
{
    const struct attn_problem *p = &results->instance->problem;
    const bool inside = results->inner && at->c >= 0;
    const int64_t h = inside ? results->inner->sources[at->c].column / p->dv : at->h;
    const int64_t row = (at->b * p->hq + h) * p->sq + at->i;
    if (!results->bounded)
        return 0;
    if (results->final)
        return results->allowed[at->output][index_of(results, at)];
    if (results->allowed[at->output])
        return results->allowed[at->output][index_of(results, at)] +
               stored(results, at->output, attn_results_compared(results, at));
    struct attn_row_allowance *known = &results->rows[h];
    if (known->row != row + 1) {
        attn_allowance_row(&results->allowance, at->b, h, at->i, &known->out, &known->lse);
        known->row = row + 1;
    }
    const double value = attn_results_read(results, at);
    double error = at->c < 0 ? known->lse : known->out;
    if (inside)
        error = passed_on(results, at, isfinite(value) ? value : 0, error);
    return error + stored(results, at->output, value);
}
