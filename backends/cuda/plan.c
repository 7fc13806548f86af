/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - which kernel takes a problem, on how many blocks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cublas.h"
#include "instances.h"
#include "plan.h"
#include "unfused.h"

/* One tensor-core kernel. */
struct tile {
    int32_t width;
    const char *kind;
    int32_t rows, keys, threads;
    uint32_t shared;
    int masked, decode;
};

#define IS_decode 1
#define IS_masked 0
#define IS_plain  0
static const struct tile tiles[] = {
#define TILE(width, kind, tiles, warps, keys, masked)                                              \
    {width,  #kind,      16 * (tiles) * (warps),                                                   \
     keys,   32 * warps, ATTN_CUDA_SHARED(width, tiles, warps, keys),                              \
     masked, IS_##kind},
    ATTN_CUDA_TILES(TILE)
#undef TILE
};

/* What the smallest of the devices have: 99 KiB a block (8.6, 8.9, 12.0). */
#define SHARED_FITS(width, kind, tiles, warps, keys, masked)                                       \
    _Static_assert(ATTN_CUDA_SHARED(width, tiles, warps, keys) <= 99 * 1024, "shared memory");
ATTN_CUDA_TILES(SHARED_FITS)

/* Rows of a key/value head up to which the keys are split over blocks: beyond, rows give work
 * enough. */
#define DECODE_ROWS 64
/* A split has at least so many keys: below, merging costs what splitting gains. */
#define SPLIT_KEYS 256
/* Blocks that a multiprocessor should find to do when keys are split. */
#define SPLIT_BLOCKS 4

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static const char *type_name(uint32_t dtype)
{
    return dtype == ATTN_F16 ? "f16" : dtype == ATTN_BF16 ? "bf16" : "f32";
}

/* The narrowest tile that holds both widths; the first that does all that the problem asks. NULL:
 * what only flash_row does. */
static const struct tile *choose(const struct attn_problem *p)
{
    if (p->dtype == ATTN_F32 || p->score == ATTN_SCORE_GAUSSIAN || p->flags & ATTN_FLAG_DROPOUT ||
        attn_tensor_find(p, ATTN_WEIGHTS))
        return NULL;
    const int64_t width = p->dk > p->dv ? p->dk : p->dv;
    const int decode = p->sq * (p->hq / p->hkv) <= DECODE_ROWS;
    const int masked = !(p->scale > 0) || p->softcap > 0 || attn_tensor_find(p, ATTN_MASK) ||
                       attn_tensor_find(p, ATTN_BIAS) || attn_tensor_find(p, ATTN_ALIBI);
    const struct tile *t = tiles;
    while (t->width < width || t->decode != decode || t->masked < masked)
        t++;
    return t;
}

static int is_wide(const struct attn_tensor *tensor, int64_t width)
{
    int wide = width % 8 == 0 && (tensor->stride[3] == 1 || width == 1);
    for (int a = 0; a < 3; a++)
        wide = wide && (tensor->stride[a] % 8 == 0 || tensor->shape[a] == 1);
    return wide;
}

static int32_t window_side(int64_t side)
{
    return side > 1 << 30 ? 1 << 30 : (int32_t)side;
}

static int32_t flags_of(const struct attn_problem *p)
{
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    const struct attn_tensor *bias = attn_tensor_find(p, ATTN_BIAS);
    int32_t flags = 0;
    flags |= p->flags & ATTN_FLAG_CAUSAL ? ATTN_CUDA_CAUSAL : 0;
    flags |= p->flags & ATTN_FLAG_WINDOW ? ATTN_CUDA_WINDOW : 0;
    flags |= p->flags & ATTN_FLAG_OFF_BR ? ATTN_CUDA_OFF_BR : 0;
    flags |= p->flags & ATTN_FLAG_DROPOUT ? ATTN_CUDA_DROPOUT : 0;
    flags |= p->score == ATTN_SCORE_GAUSSIAN ? ATTN_CUDA_GAUSSIAN : 0;
    flags |= len && len->rank == 2 ? ATTN_CUDA_LEN_2D : 0;
    flags |= bias && bias->dtype == ATTN_F32 ? ATTN_CUDA_BIAS_F32 : 0;
    flags |= is_wide(attn_tensor_find(p, ATTN_Q), p->dk) ? ATTN_CUDA_WIDE_Q : 0;
    flags |= is_wide(attn_tensor_find(p, ATTN_K), p->dk) ? ATTN_CUDA_WIDE_K : 0;
    flags |= is_wide(attn_tensor_find(p, ATTN_V), p->dv) ? ATTN_CUDA_WIDE_V : 0;
    return flags;
}

struct attn_cuda_args attn_cuda_args_of(const struct attn_problem *p)
{
    return (struct attn_cuda_args){
        .b = (int32_t)p->b,
        .hq = (int32_t)p->hq,
        .hkv = (int32_t)p->hkv,
        .sq = (int32_t)p->sq,
        .sk = (int32_t)p->sk,
        .dk = (int32_t)p->dk,
        .dv = (int32_t)p->dv,
        .off = (int32_t)p->off,
        .window_left = window_side(p->window_left),
        .window_right = window_side(p->window_right),
        .splits = 1,
        .split_keys = (int32_t)p->sk,
        .flags = flags_of(p),
        .scale = (float)p->scale,
        .softcap = (float)p->softcap,
        .keep_by = (float)(1 / (1 - p->dropout_p)),
        .keep_from = (uint32_t)ceil(p->dropout_p * 0x1p24),
        .seed = p->dropout_seed,
    };
}

/* Blocks over rows, and splits of whole tiles where those are few. */
static void lay_out(struct attn_cuda_plan *plan, const struct tile *tile)
{
    struct attn_cuda_args *a = &plan->args;
    const int64_t rows = (int64_t)a->b * a->hq * a->sq, group = a->hq / a->hkv;
    const int64_t blocks = tile ? ceil_div(a->sq * group, tile->rows) * a->hkv * a->b
                                : ceil_div(rows, ATTN_CUDA_ROW_WARPS);
    int64_t splits = strtoll(attn_option_get(plan->services, "splits", "0"), NULL, 10);
    if (splits <= 0)
        splits = ceil_div((int64_t)SPLIT_BLOCKS * attn_gpu_processors(), blocks);
    if (splits > a->sk / SPLIT_KEYS && !attn_option_get(plan->services, "splits", NULL))
        splits = a->sk / SPLIT_KEYS;
    if ((tile && !tile->decode) || splits < 1)
        splits = 1;
    a->split_keys = (int32_t)(ceil_div(ceil_div(a->sk, splits), plan->key_tile) * plan->key_tile);
    a->splits = a->sk > 0 ? (int32_t)ceil_div(a->sk, a->split_keys) : 1;
    plan->grid.blocks_x = (uint32_t)blocks;
    plan->grid.blocks_z = (uint32_t)a->splits;
    plan->grid.threads = tile ? (uint32_t)tile->threads : 32 * ATTN_CUDA_ROW_WARPS;
    plan->grid.shared_bytes = tile ? tile->shared : 0;
    plan->merge_grid = (struct attn_gpu_grid){
        .blocks_x = (uint32_t)ceil_div(rows, ATTN_CUDA_ROW_WARPS),
        .blocks_z = 1,
        .threads = 32 * ATTN_CUDA_ROW_WARPS,
    };
    if (a->splits > 1)
        plan->partial_bytes =
            (uint64_t)a->splits * (uint64_t)rows * (uint64_t)(a->dv + 2) * sizeof(float);
}

static int find_kernels(struct attn_cuda_plan *plan, char *why, size_t size)
{
    char merge[32];
    snprintf(merge, sizeof merge, "merge_%s", type_name(plan->dtype));
    int status =
        attn_gpu_kernel(plan->kernel_name, plan->grid.shared_bytes, &plan->kernel, why, size);
    if (status == ATTN_OK && plan->args.splits > 1)
        status = attn_gpu_kernel(merge, 0, &plan->merge, why, size);
    return status;
}

int attn_cuda_plan_create(const struct attn_problem *problem, const struct attn_services *services,
                          struct attn_cuda_plan **out, char *why, size_t size)
{
    int status = attn_gpu_open(services, why, size);
    if (status != ATTN_OK)
        return status;
    struct attn_cuda_plan *plan = services->alloc(services->context, sizeof *plan, 64);
    if (!plan) {
        snprintf(why, size, "no memory for a plan");
        return ATTN_OUT_OF_MEMORY;
    }
    *plan = (struct attn_cuda_plan){
        .services = services, .args = attn_cuda_args_of(problem), .dtype = problem->dtype};
    const struct tile *tile = choose(problem);
    if (tile)
        snprintf(plan->kernel_name, sizeof plan->kernel_name, "flash_%s_%d_%s",
                 type_name(plan->dtype), (int)tile->width, tile->kind);
    else
        snprintf(plan->kernel_name, sizeof plan->kernel_name, "flash_%s_rows",
                 type_name(plan->dtype));
    plan->key_tile = tile ? tile->keys : 32;
    plan->tensor_cores = tile != NULL;
    lay_out(plan, tile);
    status = find_kernels(plan, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_queue_create(&plan->queue, why, size);
    void *partial = NULL;
    if (status == ATTN_OK && plan->partial_bytes)
        status = attn_gpu_allocate(plan->partial_bytes, &partial, why, size);
    plan->args.partial = partial;
    if (status == ATTN_OK)
        *out = plan;
    else
        attn_cuda_plan_destroy(plan);
    return status;
}

void attn_cuda_plan_destroy(struct attn_cuda_plan *plan)
{
    if (plan->unfused)
        attn_cuda_unfused_destroy(plan->unfused);
    attn_cublas_destroy(plan->cublas);
    attn_gpu_release(plan->args.partial);
    attn_gpu_queue_destroy(plan->queue);
    plan->services->free(plan->services->context, plan);
}

int attn_cuda_plan_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                         char *why, size_t size)
{
    if (plan->unfused)
        return attn_cuda_unfused_start(plan, args, why, size);
    int status = attn_gpu_launch(plan->queue, plan->kernel, &plan->grid, args, why, size);
    if (status == ATTN_OK && plan->merge)
        status = attn_gpu_launch(plan->queue, plan->merge, &plan->merge_grid, args, why, size);
    return status;
}
