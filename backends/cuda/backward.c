/* SPDX-License-Identifier: Apache-2.0 */
/* backward.c - see backward.h. A run is a sequence of launches: delta of each row, then what is
 * asked for of dq, dk and dv, dbias, and the sums of dsink and dalibi. */
#include "backward.h"

#include <stdio.h>

#include "attnbench/problem.h"
#include "host_args.h"
#include "instances.h"

enum { MOST_STEPS = 5 };

/* One pair of tensor-core kernels (backward_tile.h). */
struct tile {
    int32_t width, step;
    uint32_t shared;
};

struct attn_cuda_backward {
    const struct tile *tile; /* NULL: plain f32 (backward_pairs.h) */
    struct step {
        void *kernel;
        struct attn_gpu_grid grid;
    } steps[MOST_STEPS];
    int count;
};

static const struct tile tiles[] = {
#define TILE(width, step) {width, step, ATTN_CUDA_BACKWARD_SHARED(width, step)},
    ATTN_CUDA_BACKWARD_TILES(TILE)
#undef TILE
};

/* 8.6, 8.9 and 12.0 have the smallest shared memory: 99 KiB per block. */
#define SHARED_FITS(width, step)                                                                   \
    _Static_assert(ATTN_CUDA_BACKWARD_SHARED(width, step) <= 99 * 1024, "shared memory");
ATTN_CUDA_BACKWARD_TILES(SHARED_FITS)

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

/* The narrowest tile that holds both widths. NULL if there is none, or if a cell takes more than
 * its scale, its row and its place. */
static const struct tile *choose(const struct attn_problem *p)
{
    const int64_t width = p->dk > p->dv ? p->dk : p->dv;
    if (p->dtype == ATTN_F32 || p->flags & (ATTN_FLAG_SOFTCAP | ATTN_FLAG_DROPOUT) ||
        asks_for(p, ATTN_MASK) || asks_for(p, ATTN_BIAS) || asks_for(p, ATTN_ALIBI))
        return NULL;
    for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++)
        if (tiles[t].width >= width)
            return &tiles[t];
    return NULL;
}

/* A step of backward_tile.h: its last word, and its rows, over all blocks. */
static int add_tile(struct attn_cuda_plan *plan, const char *kind, int64_t rows, int64_t heads,
                    char *why, size_t size)
{
    const struct tile *tile = plan->backward->tile;
    char name[32];
    snprintf(name, sizeof name, "backward_%s_%d_%s", attn_cuda_type_name(plan->dtype),
             (int)tile->width, kind);
    return add_step(plan, name,
                    (struct attn_gpu_grid){
                        .blocks_x = (uint32_t)(ceil_div(rows, ATTN_CUDA_BACKWARD_ROWS) * heads),
                        .blocks_z = 1,
                        .threads = 32 * ATTN_CUDA_BACKWARD_WARPS,
                        .shared_bytes = tile->shared},
                    why, size);
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

/* dq, dk and dv. dk and dv have one block for both in a tile, else one for each. */
static int add_products(struct attn_cuda_plan *plan, const struct attn_problem *p, char *why,
                        size_t size)
{
    const int key_parts = asks_for(p, ATTN_GRAD_K) + asks_for(p, ATTN_GRAD_V);
    const int queries = asks_for(p, ATTN_GRAD_ALIBI) || asks_for(p, ATTN_GRAD_Q);
    const int64_t heads = p->b * p->hkv;
    int status = ATTN_OK;
    if (queries && plan->backward->tile)
        status = add_tile(plan, "queries", p->sq * (p->hq / p->hkv), heads, why, size);
    else if (queries)
        status = add_pairs(plan, "queries", ceil_div(p->sq, ATTN_CUDA_PAIR_ROWS) * p->hq * p->b, 1,
                           why, size);
    if (status != ATTN_OK || key_parts == 0)
        return status;
    return plan->backward->tile
               ? add_tile(plan, "keys", p->sk, heads, why, size)
               : add_pairs(plan, "keys", ceil_div(p->sk, ATTN_CUDA_PAIR_ROWS) * heads, key_parts,
                           why, size);
}

static int add_steps(struct attn_cuda_plan *plan, const struct attn_problem *p, char *why,
                     size_t size)
{
    const int slopes = asks_for(p, ATTN_GRAD_ALIBI), sinks = asks_for(p, ATTN_GRAD_SINK);
    int status = add_delta(plan, p, why, size);
    if (status == ATTN_OK)
        status = add_products(plan, p, why, size);
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
    const struct tile *tile = choose(problem);
    plan->key_tile = plan->query_tile = tile ? tile->step : ATTN_CUDA_PAIR_KEYS;
    plan->tensor_cores = tile != NULL;
    plan->batch_alone = 1;
    plan->backward = services->alloc(services->context, sizeof *plan->backward, 64);
    if (!plan->backward) {
        snprintf(why, size, "no memory for a plan");
        attn_cuda_plan_free(plan);
        return ATTN_OUT_OF_MEMORY;
    }
    *plan->backward = (struct attn_cuda_backward){.tile = tile};
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
    const struct tile *tile = plan->backward->tile;
    char width[16] = ", plain f32";
    if (tile)
        snprintf(width, sizeof width, "_%d", (int)tile->width);
    snprintf(text, size, "backward_%s%s: %d queries or keys a block, %d at a time, %d launches",
             attn_cuda_type_name(plan->dtype), width,
             tile ? ATTN_CUDA_BACKWARD_ROWS : ATTN_CUDA_PAIR_ROWS, (int)plan->key_tile,
             plan->backward->count);
}
