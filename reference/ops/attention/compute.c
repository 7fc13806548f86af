/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - attention over a request: head by head, the rows of a head in parallel. */
#include <stdlib.h>

#include "reference/job.h"
#include "reference/ops/attention/attention.h"

/* Keys, values and queries of one head. */
struct head {
    struct ref_keys keys;
    struct ref_keys global; /* of global rows, if they have projections of their own */
    bool projected;         /* they have */
    double *q;              /* [rows, Dq] */
};

/* Returns true if one of the rows is that of a global token, and q_global has its query. */
static bool load_queries(const struct ref_job *job, const struct ref_block *block,
                         const struct head *head)
{
    const struct attn_problem *problem = job->operands.problem;
    bool any = false;

    for (int64_t r = 0; r < block->count; r++) {
        int64_t i = ref_row_index(job, block->first + r) % problem->sq;
        bool global = head->projected && ref_is_global(&job->operands, block->b, i);
        ref_load_vector(job->operands.by_role[global ? ATTN_Q_GLOBAL : ATTN_Q],
                        (const int64_t[]){block->b, block->h, i, 0}, problem->dq,
                        head->q + r * problem->dq);
        any = any || global;
    }
    return any;
}

/* Rounding of the output type on top of E, in place. */
static void finish_bounds(const struct ref_job *job, int64_t first, int64_t count)
{
    const struct attn_problem *problem = job->operands.problem;
    const struct ref_values *out = &job->result->output[0];

    for (int64_t x = first * problem->dv; x < (first + count) * problem->dv; x++)
        out->bound[x] =
            ref_bound_final(&job->arithmetic, problem->dtype, out->value[x], out->bound[x]);
}

static void compute_head(const struct ref_job *job, struct head *head, struct ref_block *block)
{
    const struct ref_values *out = &job->result->output[0];
    const int64_t dv = head->keys.dv;

    ref_keys_load(job, &head->keys, block->b, block->h);
    block->keys = &head->keys;
    if (load_queries(job, block, head)) {
        ref_keys_load(job, &head->global, block->b, block->h);
        block->global = &head->global;
    }
    block->q = head->q;
    block->out_stride = dv;
    block->out = out->value ? out->value + block->first * dv : NULL;
    block->error = job->bounds && out->bound ? out->bound + block->first * dv : NULL;
    ref_block_compute(block);
}

static int create(const struct ref_job *job, int64_t rows, struct head *head)
{
    int status;

    *head = (struct head){.q = ref_alloc_doubles(rows, job->operands.problem->dq)};
    head->projected = job->operands.by_role[ATTN_K_GLOBAL];
    status = head->q ? ref_keys_create(job, &head->keys) : ATTN_OUT_OF_MEMORY;
    if (status != ATTN_OK || !head->projected)
        return status;
    status = ref_keys_create(job, &head->global);
    head->global.k_role = ATTN_K_GLOBAL;
    head->global.v_role = ATTN_V_GLOBAL;
    return status;
}

int ref_attention_compute(const struct ref_job *job)
{
    const struct attn_problem *problem = job->operands.problem;
    int64_t count = job->request->units[0].count;
    int64_t most = count < problem->sq ? count : problem->sq;
    struct head head;
    int status = create(job, most, &head);

    for (int64_t first = 0, next; status == ATTN_OK && first < count; first = next) {
        int64_t number = ref_row_index(job, first) / problem->sq;
        struct ref_block block = {
            .job = job, .b = number / problem->hq, .h = number % problem->hq, .first = first};
        for (next = first; next < count && ref_row_index(job, next) / problem->sq == number;)
            next++;
        block.count = next - first;
        compute_head(job, &head, &block);
        if (block.error)
            finish_bounds(job, first, block.count);
    }
    ref_keys_free(&head.keys);
    ref_keys_free(&head.global);
    free(head.q);
    return status;
}
