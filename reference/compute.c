/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - ref_compute: checks a request, prepares what all of it shares, and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/job.h"
#include "reference/op_shared.h"
#include "reference/score.h"
#include "reference/weight.h"

/* Units that are asked of an output with `total` of them. */
static bool units_fit(const struct ref_units *units, int64_t total, char *why, size_t size)
{
    if (!units->index && units->count != 0 && units->count != total) {
        snprintf(why, size, "all rows asked for, but the count is not that of all rows");
        return false;
    }
    for (int64_t r = 0; units->index && r < units->count; r++)
        if (units->index[r] < 0 || units->index[r] >= total ||
            (r > 0 && units->index[r] <= units->index[r - 1])) {
            snprintf(why, size, "row %lld of the request is out of range or order", (long long)r);
            return false;
        }
    return true;
}

static int check_request(const struct attn_problem *problem, const struct ref_request *request,
                         char *why, size_t size)
{
    const struct ref_op *op = ref_op_find(problem->op);

    if (ref_check_problem(problem, why, size) != ATTN_OK)
        return ATTN_UNSUPPORTED;
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        uint32_t role = problem->tensors[t].role;
        if (ref_output_of(op, role) < 0 && !problem->tensors[t].data && problem->sk > 0) {
            snprintf(why, size, "tensor of role %u has no data", role);
            return ATTN_UNSUPPORTED;
        }
    }
    for (int o = 0; op->outputs[o].role; o++)
        if (op->outputs[o].leader == o &&
            !units_fit(&request->units[o], ref_output_units(problem, o), why, size))
            return ATTN_UNSUPPORTED;
    return ATTN_OK;
}

/* The bound of an output is a function of its value: one that is not wanted is made. */
static int add_values(const struct ref_job *job, double *own[REF_OUTPUTS])
{
    for (int o = 0; job->op->outputs[o].role; o++) {
        const struct ref_output *output = &job->op->outputs[o];
        struct ref_values *values = &job->result->output[o];
        if (!values->bound || values->value)
            continue;
        values->value = own[o] =
            ref_alloc_doubles(ref_requested_units(job->operands.problem, job->request, o),
                              ref_unit_width(output, &job->shape));
        if (!own[o])
            return ATTN_OUT_OF_MEMORY;
    }
    return ATTN_OK;
}

/* Rows of one head to each unit of output 0. */
static int64_t heads_of(const struct attn_problem *problem)
{
    return strchr(ref_op_find(problem->op)->outputs[0].unit, 'h') ? 1 : problem->hq;
}

/* What only a softmax needs. */
static int prepare_rows(struct ref_job *job)
{
    const struct attn_problem *problem = job->operands.problem;
    const struct ref_result *result = job->result;
    const struct ref_values lse = ref_values_of(problem, result, ATTN_LSE);
    const struct ref_values weights = ref_values_of(problem, result, ATTN_WEIGHTS);

    job->rows = (struct ref_row_results){
        .lse = lse.value,
        .lse_bound = lse.bound,
        .weights = weights.value,
        .weights_bound = weights.bound,
        .scores = {result->scores[0], result->scores[1], result->scores[2]},
        .allowed = result->allowed,
        .heads = heads_of(problem)};
    job->weight = ref_weight_of(problem);
    job->scratch = ref_scratch_create(problem, job->threads);
    return job->scratch ? ATTN_OK : ATTN_OUT_OF_MEMORY;
}

bool ref_is_softmax(const struct attn_problem *problem)
{
    return ref_op_is(problem->op, REF_SOFTMAX) && !(problem->flags & ATTN_FLAG_WEIGHT) &&
           !attn_tensor_find(problem, ATTN_GATE);
}

int ref_compute(const struct attn_problem *problem, const struct ref_request *request,
                struct ref_result *result, char *why, size_t size)
{
    const struct attn_numerics *numerics = request->numerics;
    struct ref_result wanted = *result;
    struct ref_job job = {.op = ref_op_find(problem->op),
                          .request = request,
                          .result = &wanted,
                          .bounds = numerics != NULL};
    double *own[REF_OUTPUTS] = {NULL};
    int status = check_request(problem, request, why, size);

    if (status != ATTN_OK)
        return status;
    ref_operands_init(&job.operands, problem);
    ref_shape_of_problem(job.op, problem, &job.shape);
    job.threads = request->threads > 1 ? request->threads : 1;
    if (numerics) {
        ref_arithmetic_init(&job.arithmetic, problem, numerics, request->fill,
                            ref_chains(problem, request));
        job.empty_row = numerics->empty_row;
    }
    for (int o = 0; !numerics && o < REF_OUTPUTS; o++)
        wanted.output[o].bound = NULL;
    status = add_values(&job, own);
    if (status == ATTN_OK && (job.op->traits & REF_SOFTMAX))
        status = prepare_rows(&job);
    if (status == ATTN_OK)
        status = job.op->compute(&job);
    if (status == ATTN_OUT_OF_MEMORY)
        snprintf(why, size, "the reference has no memory for its working arrays");
    ref_scratch_free(job.scratch, job.threads);
    for (int o = 0; o < REF_OUTPUTS; o++)
        free(own[o]);
    return status;
}

void ref_request_all(const struct attn_problem *problem, struct ref_request *request)
{
    const struct ref_op *op = ref_op_find(problem->op);

    for (int o = 0; op->outputs[o].role; o++)
        request->units[o] = (struct ref_units){.count = ref_output_units(problem, o)};
}

int64_t ref_requested_units(const struct attn_problem *problem, const struct ref_request *request,
                            int output)
{
    const struct ref_op *op = ref_op_find(problem->op);
    struct ref_shape shape;

    ref_shape_of_problem(op, problem, &shape);
    return request->units[op->outputs[output].leader].count * ref_followers(op, output, &shape);
}

int64_t ref_requested_rows(const struct attn_problem *problem, const struct ref_request *request)
{
    if (!ref_op_is(problem->op, REF_SOFTMAX))
        return 0;
    return request->units[0].count * heads_of(problem);
}

struct ref_values ref_values_of(const struct attn_problem *problem, const struct ref_result *result,
                                uint32_t role)
{
    int output = ref_output_of(ref_op_find(problem->op), role);

    return output < 0 ? (struct ref_values){NULL, NULL} : result->output[output];
}

double ref_head_cost(const struct attn_problem *problem)
{
    const struct ref_score *score = ref_score_find(problem->score);
    double keys = (double)problem->sk, dk = (double)problem->dk;
    /* Scores and out, with six more sums of the bound, over all keys of one head. */
    double head = keys * (4.0 * dk + 5.0 * (double)problem->dv + 100.0);

    if (score->cost)
        head += score->cost(problem);
    return head;
}
