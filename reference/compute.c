/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - ref_compute: checks a request, prepares what all of it shares, and runs it. */
#include <stdio.h>
#include <stdlib.h>

#include "reference/job.h"
#include "reference/op_shared.h"

static int check_request(const struct attn_problem *problem, const struct ref_rows *rows, char *why,
                         size_t size)
{
    const struct ref_op *op = ref_op_find(problem->op);
    int64_t total;

    if (ref_check_problem(problem, why, size) != ATTN_OK)
        return ATTN_UNSUPPORTED;
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        uint32_t role = problem->tensors[t].role;
        if (ref_output_of(op, role) < 0 && !problem->tensors[t].data && problem->sk > 0) {
            snprintf(why, size, "tensor of role %u has no data", role);
            return ATTN_UNSUPPORTED;
        }
    }
    total = ref_row_count(problem);
    if (!rows->index && rows->count != total) {
        snprintf(why, size, "all rows asked for, but the count is not that of all rows");
        return ATTN_UNSUPPORTED;
    }
    for (int64_t r = 0; rows->index && r < rows->count; r++)
        if (rows->index[r] < 0 || rows->index[r] >= total ||
            (r > 0 && rows->index[r] <= rows->index[r - 1])) {
            snprintf(why, size, "row %lld of the request is out of range or order", (long long)r);
            return ATTN_UNSUPPORTED;
        }
    return ATTN_OK;
}

int ref_compute(const struct attn_problem *problem, const struct ref_rows *rows,
                const struct attn_numerics *numerics, enum ref_fill_kind fill, int threads,
                struct ref_result *result, char *why, size_t size)
{
    struct ref_result wanted = *result;
    struct ref_job job = {.rows = rows, .result = &wanted, .bounds = numerics != NULL};
    double *own_out = NULL;
    int status = check_request(problem, rows, why, size);

    if (status != ATTN_OK)
        return status;
    ref_operands_init(&job.operands, problem);
    job.threads = threads > 1 ? threads : 1;
    job.result_heads = problem->op == ATTN_OP_MHA ? problem->hq : 1;
    if (numerics) {
        ref_arithmetic_init(&job.arithmetic, problem, numerics, fill);
        job.empty_row = numerics->empty_row;
    } else {
        wanted.out_bound = wanted.lse_bound = wanted.weights_bound = NULL;
    }
    /* The bound of out is a function of out. */
    if (wanted.out_bound && !wanted.out)
        wanted.out = own_out = ref_alloc_doubles(rows->count, ref_row_width(problem));
    job.scratch = ref_scratch_create(problem, job.threads);
    if (!job.scratch || (wanted.out_bound && !wanted.out))
        status = ATTN_OUT_OF_MEMORY;
    else
        status = ref_op_find(problem->op)->compute(&job);
    if (status == ATTN_OUT_OF_MEMORY)
        snprintf(why, size, "the reference has no memory for its working arrays");
    ref_scratch_free(job.scratch, job.threads);
    free(own_out);
    return status;
}

double ref_head_cost(const struct attn_problem *problem)
{
    double keys = (double)problem->sk, dq = (double)problem->dq, dk = (double)problem->dk;
    /* Scores and out, with six more sums of the bound, over all keys of one head. */
    double head = keys * (4.0 * dk + 5.0 * (double)problem->dv + 100.0);

    /* A tanh, and what the bound makes of it, are some 30 multiply-adds. */
    if (problem->score == ATTN_SCORE_ADDITIVE)
        head += keys * (double)problem->dh * 30.0;
    if (problem->score == ATTN_SCORE_BILINEAR)
        head += 2.0 * dq * dk;
    return head;
}

double ref_row_cost(const struct attn_problem *problem)
{
    return ref_op_find(problem->op)->unit_cost(problem, 0);
}
