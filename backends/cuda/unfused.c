/* SPDX-License-Identifier: Apache-2.0 */
/* unfused.c - see unfused.h */
#include "unfused.h"

#include <stdio.h>
#include <stdlib.h>

#include "host_args.h"
#include "instances.h"
#include "product.h"
#include "supports.h"

/* Keys that a warp of the softmax has at the least, and warps a row at the most. */
#define WARP_KEYS  128
#define MOST_WARPS 8

struct attn_cuda_unfused {
    struct attn_cuda_product scores, values;
    void *softmax, *repair; /* kernels */
    float *s;               /* [b,hq,sq,sk] */
    void *p;                /* the same in the type of q; is s where that is f32 */
    int32_t warps;
};

/* Cells of the score matrix, or -1. */
static int64_t cells_of(const struct attn_problem *p)
{
    int64_t cells, bytes;
    if (__builtin_mul_overflow(p->b * p->hq * p->sq, p->sk, &cells) ||
        __builtin_mul_overflow(cells, (int64_t)sizeof(float), &bytes))
        return -1;
    return cells;
}

int attn_cuda_unfused_supports(const struct attn_problem *p, char *why, size_t size)
{
    int status = attn_cuda_supports(p, why, size);
    const char *fault = NULL;
    if (status != ATTN_OK)
        return status;
    if (p->score != ATTN_SCORE_SCALED_DOT && p->score != ATTN_SCORE_DOT)
        fault = "only dot products are implemented as scores";
    else if (cells_of(p) < 0)
        fault = "the number of bytes of all scores exceeds 64 bits";
    if (!fault)
        return ATTN_OK;
    snprintf(why, size, "%s", fault);
    return ATTN_UNSUPPORTED;
}

/* [b,h,row,column] as a stack of b, key/value head, query head of the group. */
static struct attn_cuda_stack query_heads(uint32_t dtype, const int64_t *stride, int64_t group)
{
    return (struct attn_cuda_stack){
        .dtype = dtype, .stride = {stride[0], group * stride[1], stride[1], stride[2], stride[3]}};
}

/* Of k, and of v transposed. */
static struct attn_cuda_stack shared_heads(uint32_t dtype, const int64_t *stride, int transposed)
{
    return (struct attn_cuda_stack){.dtype = dtype,
                                    .stride = {stride[0], stride[1], 0, stride[transposed ? 3 : 2],
                                               stride[transposed ? 2 : 3]}};
}

static int create_products(struct attn_cuda_unfused *u, const struct attn_problem *p,
                           struct attn_cublas *cublas, char *why, size_t size)
{
    const int64_t group = p->hq / p->hkv, head = p->sq * p->sk;
    const int64_t dense[] = {p->hq * head, head, p->sk, 1};
    const struct attn_cuda_product either = {.cublas = cublas, .extent = {p->b, p->hkv, group}};
    u->scores = either;
    u->scores.m = p->sq;
    u->scores.n = p->sk;
    u->scores.inner = p->dk;
    u->scores.stack[0] = query_heads(p->dtype, attn_tensor_find(p, ATTN_Q)->stride, group);
    u->scores.stack[1] = shared_heads(p->dtype, attn_tensor_find(p, ATTN_K)->stride, 0);
    u->scores.stack[2] = query_heads(ATTN_F32, dense, group);
    u->values = either;
    u->values.m = p->sq;
    u->values.n = p->dv;
    u->values.inner = p->sk;
    u->values.stack[0] = query_heads(p->dtype, dense, group);
    u->values.stack[1] = shared_heads(p->dtype, attn_tensor_find(p, ATTN_V)->stride, 1);
    u->values.stack[2] = query_heads(p->dtype, attn_tensor_find(p, ATTN_OUT)->stride, group);
    int status = attn_cuda_product_create(&u->scores, why, size);
    return status == ATTN_OK ? attn_cuda_product_create(&u->values, why, size) : status;
}

static int create_steps(struct attn_cuda_plan *plan, const struct attn_problem *p, char *why,
                        size_t size)
{
    struct attn_cuda_unfused *u = plan->unfused;
    const uint64_t cells = (uint64_t)cells_of(p), narrow = p->dtype == ATTN_F32 ? 0 : 2;
    const int64_t warps = (p->sk + WARP_KEYS - 1) / WARP_KEYS;
    void *s = NULL;
    u->warps = warps < 1 ? 1 : warps > MOST_WARPS ? MOST_WARPS : (int32_t)warps;
    int status = attn_cuda_find_step("repair", p->dtype, 0, &u->repair, why, size);
    if (status == ATTN_OK)
        status = attn_cuda_find_step("softmax", p->dtype, ATTN_CUDA_SOFTMAX_SHARED(MOST_WARPS),
                                     &u->softmax, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_allocate(cells * sizeof(float), &s, why, size);
    u->s = s;
    u->p = narrow ? NULL : s;
    if (status == ATTN_OK && narrow)
        status = attn_gpu_allocate(cells * narrow, &u->p, why, size);
    if (status == ATTN_OK)
        status = create_products(u, p, plan->cublas, why, size);
    plan->step_bytes =
        attn_cublas_bytes() + cells * (sizeof(float) + narrow) + u->scores.bytes + u->values.bytes;
    return status;
}

int attn_cuda_unfused_create(const struct attn_problem *problem,
                             const struct attn_services *services, struct attn_cuda_plan **out,
                             char *why, size_t size)
{
    struct attn_cuda_plan *plan;
    int status = attn_cuda_plan_new(problem, services, &plan, why, size);
    if (status != ATTN_OK)
        return status;
    plan->key_tile = 32; /* that of flash_row, which repairs rows */
    plan->tensor_cores = problem->dtype != ATTN_F32;
    plan->unfused = calloc(1, sizeof *plan->unfused);
    if (!plan->unfused) {
        snprintf(why, size, "no memory for a plan");
        status = ATTN_OUT_OF_MEMORY;
    }
    if (status == ATTN_OK)
        status = attn_gpu_queue_create(&plan->queue, why, size);
    if (status == ATTN_OK)
        status = attn_cublas_create(plan->queue, &plan->cublas, why, size);
    if (status == ATTN_OK)
        status = create_steps(plan, problem, why, size);
    if (status == ATTN_OK)
        *out = plan;
    else
        attn_cuda_unfused_destroy(plan);
    return status;
}

static void release_steps(struct attn_cuda_unfused *u)
{
    attn_cuda_product_destroy(&u->scores);
    attn_cuda_product_destroy(&u->values);
    if (u->p != u->s)
        attn_gpu_release(u->p);
    attn_gpu_release(u->s);
    free(u);
}

void attn_cuda_unfused_destroy(struct attn_cuda_plan *plan)
{
    if (plan->unfused)
        release_steps(plan->unfused);
    attn_cuda_plan_free(plan);
}

int attn_cuda_unfused_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                            char *why, size_t size)
{
    const struct attn_cuda_unfused *u = plan->unfused;
    const uint32_t rows = (uint32_t)(args->b * args->hq * args->sq);
    const struct attn_cuda_softmax softmax = {*args, u->s, u->p, u->warps};
    const struct attn_gpu_grid row = {.blocks_x = rows,
                                      .blocks_z = 1,
                                      .threads = 32 * (uint32_t)u->warps,
                                      .shared_bytes = ATTN_CUDA_SOFTMAX_SHARED((uint32_t)u->warps)};
    const struct attn_gpu_grid warp = {.blocks_x =
                                           (rows + ATTN_CUDA_ROW_WARPS - 1) / ATTN_CUDA_ROW_WARPS,
                                       .blocks_z = 1,
                                       .threads = 32 * ATTN_CUDA_ROW_WARPS};
    int status =
        attn_cuda_product_start(&u->scores, args->q.data, args->k.data, u->s, 0, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_launch(plan->queue, u->softmax, &row, &softmax, why, size);
    if (status == ATTN_OK)
        status =
            attn_cuda_product_start(&u->values, u->p, args->v.data, args->out.data, 0, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_launch(plan->queue, u->repair, &warp, args, why, size);
    return status;
}

void attn_cuda_unfused_describe(const struct attn_cuda_plan *plan, char *text, size_t size)
{
    static const char *const names[] = {"q", "k", "v", "out"};
    const struct attn_cuda_unfused *u = plan->unfused;
    void *const dense[] = {u->scores.dense[0], u->scores.dense[1], u->values.dense[1],
                           u->values.dense[2]};
    int at = snprintf(text, size, "GEMM, softmax of %d threads per row, GEMM", 32 * (int)u->warps);
    int n = 0;
    for (int d = 0; d < 4; d++)
        if (dense[d])
            at += snprintf(text + at, size - (size_t)at, "%s %s", n++ ? "," : "; copies", names[d]);
}
