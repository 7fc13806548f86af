/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - attention over a request: head by head, the rows of a head in parallel. */
#include <stdlib.h>

#include "reference/job.h"
#include "reference/ops/attention/attention.h"

static void load_queries(const struct ref_job *job, const struct ref_block *block, double *q)
{
    const struct attn_problem *problem = job->operands.problem;
    const struct attn_tensor *tensor = job->operands.by_role[ATTN_Q];

    for (int64_t r = 0; r < block->count; r++) {
        int64_t i = ref_row_index(job, block->first + r) % problem->sq;
        ref_load_vector(tensor, (const int64_t[]){block->b, block->h, i, 0}, problem->dq,
                        q + r * problem->dq);
    }
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

static void compute_head(const struct ref_job *job, struct ref_keys *keys, struct ref_block *block,
                         double *q)
{
    const struct ref_values *out = &job->result->output[0];

    ref_keys_load(job, keys, block->b, block->h);
    load_queries(job, block, q);
    block->keys = keys;
    block->q = q;
    block->out_stride = keys->dv;
    block->out = out->value ? out->value + block->first * keys->dv : NULL;
    block->error = job->bounds && out->bound ? out->bound + block->first * keys->dv : NULL;
    ref_block_compute(block);
}

int ref_attention_compute(const struct ref_job *job)
{
    const struct attn_problem *problem = job->operands.problem;
    int64_t count = job->request->units[0].count;
    int64_t most = count < problem->sq ? count : problem->sq;
    double *q = ref_alloc_doubles(most, problem->dq);
    struct ref_keys keys;
    int status = ref_keys_create(job, &keys);

    if (!q || status != ATTN_OK) {
        status = ATTN_OUT_OF_MEMORY;
        goto out;
    }
    for (int64_t first = 0, next; first < count; first = next) {
        int64_t head = ref_row_index(job, first) / problem->sq;
        struct ref_block block = {
            .job = job, .b = head / problem->hq, .h = head % problem->hq, .first = first};
        for (next = first; next < count && ref_row_index(job, next) / problem->sq == head;)
            next++;
        block.count = next - first;
        compute_head(job, &keys, &block, q);
        if (block.error)
            finish_bounds(job, first, block.count);
    }
out:
    ref_keys_free(&keys);
    free(q);
    return status;
}
