/* SPDX-License-Identifier: Apache-2.0 */
/* backward.c - see backward.h. A run is a sequence of launches: delta of each row, then what is
 * asked for of dq, dk and dv, dbias, and the sums of dsink and dalibi. */
#include "backward.h"

#include <stdio.h>

#include "attnbench/problem.h"
#include "host_args.h"
#include "instances.h"

enum { MOST_STEPS = 5 };

struct attn_cuda_backward {
    struct step {
        void *kernel;
        struct attn_gpu_grid grid;
    } steps[MOST_STEPS];
    int count;
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int asks_for(const struct attn_problem *p, uint32_t role)
{
    return attn_tensor_find(p, role) != NULL;
}

/* Appends a launch. Without blocks, there is nothing to do. */
static int add_step(struct attn_cuda_plan *plan, const char *name, struct attn_gpu_grid grid,
                    char *why, size_t size)
{
    struct attn_cuda_backward *self = plan->backward;
    if (grid.blocks_x == 0)
        return ATTN_OK;
    struct step *step = &self->steps[self->count++];
    step->grid = grid;
    return attn_gpu_kernel(name, grid.shared_bytes, &step->kernel, why, size);
}

/* A step of backward_pairs.h: its last word, and its blocks. */
static int add_pairs(struct attn_cuda_plan *plan, const char *kind, int64_t blocks, int64_t parts,
                     char *why, size_t size)
{
    char name[32];
    snprintf(name, sizeof name, "backward_%s_%s", attn_cuda_type_name(plan->dtype), kind);
    return add_step(plan, name,
                    (struct attn_gpu_grid){.blocks_x = (uint32_t)blocks,
                                           .blocks_z = (uint32_t)parts,
                                           .threads = ATTN_CUDA_PAIR_THREADS,
                                           .shared_bytes = ATTN_CUDA_PAIR_SHARED},
                    why, size);
}

static int add_delta(struct attn_cuda_plan *plan, const struct attn_problem *p, char *why,
                     size_t size)
{
    char name[32];
    snprintf(name, sizeof name, "delta_%s", attn_cuda_type_name(plan->dtype));
    return add_step(plan, name,
                    (struct attn_gpu_grid){
                        .blocks_x = (uint32_t)ceil_div(p->b * p->hq * p->sq, ATTN_CUDA_ROW_WARPS),
                        .blocks_z = 1,
                        .threads = 32 * ATTN_CUDA_ROW_WARPS},
                    why, size);
}

static int64_t bias_blocks(const struct attn_problem *p)
{
    return attn_problem_bias_extent(p, 0) * attn_problem_bias_extent(p, 1) *
           ceil_div(attn_problem_bias_extent(p, 2), ATTN_CUDA_PAIR_ROWS) *
           ceil_div(attn_problem_bias_extent(p, 3), ATTN_CUDA_PAIR_KEYS);
}

static int add_steps(struct attn_cuda_plan *plan, const struct attn_problem *p, char *why,
                     size_t size)
{
    const int64_t query_blocks = ceil_div(p->sq, ATTN_CUDA_PAIR_ROWS) * p->hq * p->b;
    const int64_t key_blocks = ceil_div(p->sk, ATTN_CUDA_PAIR_ROWS) * p->hkv * p->b;
    const int key_parts = asks_for(p, ATTN_GRAD_K) + asks_for(p, ATTN_GRAD_V);
    const int slopes = asks_for(p, ATTN_GRAD_ALIBI), sinks = asks_for(p, ATTN_GRAD_SINK);
    int status = add_delta(plan, p, why, size);
    if (status == ATTN_OK && (slopes || asks_for(p, ATTN_GRAD_Q)))
        status = add_pairs(plan, "queries", query_blocks, 1, why, size);
    if (status == ATTN_OK && key_parts > 0)
        status = add_pairs(plan, "keys", key_blocks, key_parts, why, size);
    if (status == ATTN_OK && asks_for(p, ATTN_GRAD_BIAS))
        status = add_pairs(plan, "bias", bias_blocks(p), 1, why, size);
    if (status == ATTN_OK && (slopes || sinks))
        status = add_step(
            plan, "total_f32",
            (struct attn_gpu_grid){.blocks_x = (uint32_t)p->hq, .blocks_z = 1, .threads = 32}, why,
            size);
    return status;
}

/* delta, and the sums of slopes, of every row. */
static int allocate(struct attn_cuda_plan *plan, const struct attn_problem *p, char *why,
                    size_t size)
{
    const uint64_t bytes = (uint64_t)(p->b * p->hq * p->sq) * sizeof(float);
    void *delta = NULL, *slopes = NULL;
    int status = attn_gpu_allocate(bytes, &delta, why, size);
    if (status == ATTN_OK && asks_for(p, ATTN_GRAD_ALIBI))
        status = attn_gpu_allocate(bytes, &slopes, why, size);
    plan->args.delta = delta;
    plan->args.slopes = slopes;
    plan->step_bytes = slopes ? 2 * bytes : bytes;
    return status;
}

int attn_cuda_backward_create(const struct attn_problem *problem,
                              const struct attn_services *services, struct attn_cuda_plan **out,
                              char *why, size_t size)
{
    struct attn_cuda_plan *plan;
    int status = attn_cuda_plan_new(problem, services, &plan, why, size);
    if (status != ATTN_OK)
        return status;
    plan->key_tile = plan->query_tile = ATTN_CUDA_PAIR_KEYS;
    plan->batch_alone = 1;
    plan->backward = services->alloc(services->context, sizeof *plan->backward, 64);
    if (!plan->backward) {
        snprintf(why, size, "no memory for a plan");
        attn_cuda_plan_free(plan);
        return ATTN_OUT_OF_MEMORY;
    }
    *plan->backward = (struct attn_cuda_backward){.count = 0};
    status = add_steps(plan, problem, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_queue_create(&plan->queue, why, size);
    if (status == ATTN_OK)
        status = allocate(plan, problem, why, size);
    if (status == ATTN_OK)
        *out = plan;
    else
        attn_cuda_backward_destroy(plan);
    return status;
}

void attn_cuda_backward_destroy(struct attn_cuda_plan *plan)
{
    attn_gpu_release(plan->args.delta);
    attn_gpu_release(plan->args.slopes);
    plan->services->free(plan->services->context, plan->backward);
    attn_cuda_plan_free(plan);
}

int attn_cuda_backward_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                             char *why, size_t size)
{
    const struct attn_cuda_backward *self = plan->backward;
    int status = ATTN_OK;
    for (int n = 0; n < self->count && status == ATTN_OK; n++)
        status = attn_gpu_launch(plan->queue, self->steps[n].kernel, &self->steps[n].grid, args,
                                 why, size);
    return status;
}

void attn_cuda_backward_describe(const struct attn_cuda_plan *plan, char *text, size_t size)
{
    snprintf(text, size, "backward_%s, plain f32: %d queries or keys a block, %d launches",
             attn_cuda_type_name(plan->dtype), ATTN_CUDA_PAIR_ROWS, plan->backward->count);
}
