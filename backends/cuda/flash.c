/* SPDX-License-Identifier: Apache-2.0 */
/* flash.c - see flash.h. */
#include "flash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_args.h"
#include "instances.h"

/* One kernel that computes attention. `splits`: keys may be split over its blocks. */
struct tile {
    int32_t width; /* 0: any, without tensor cores */
    const char *kind;
    int32_t rows, keys, threads;
    uint32_t shared;
    int masked, splits;
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
static const struct tile hopper_tiles[] = {
#define TILE(type, width, groups, keys, stages)                                                    \
    {width,                                                                                        \
     "hopper",                                                                                     \
     64 * (groups),                                                                                \
     keys,                                                                                         \
     128 * ((groups) + 1),                                                                         \
     ATTN_CUDA_HOPPER_SHARED(width, groups, keys, stages),                                         \
     0,                                                                                            \
     0},
    ATTN_CUDA_HOPPER_TILES(any, TILE)
#undef TILE
};
static const struct tile by_rows = {0, "rows", ATTN_CUDA_ROW_WARPS, 32, 32 * ATTN_CUDA_ROW_WARPS, 0,
                                    1, 1};
static const struct tile by_pairs = {0,
                                     "pairs",
                                     ATTN_CUDA_PAIR_ROWS,
                                     ATTN_CUDA_PAIR_KEYS,
                                     ATTN_CUDA_PAIR_THREADS,
                                     ATTN_CUDA_PAIR_SHARED,
                                     1,
                                     1};

/* 8.6, 8.9 and 12.0 have the smallest shared memory: 99 KiB per block. */
#define SHARED_FITS(width, kind, tiles, warps, keys, masked)                                       \
    _Static_assert(ATTN_CUDA_SHARED(width, tiles, warps, keys) <= 99 * 1024, "shared memory");
ATTN_CUDA_TILES(SHARED_FITS)

/* The keys are split over blocks if a key/value head has at most this number of rows. More rows
 * give enough work. */
#define DECODE_ROWS 64
/* Dot products of f32 use tiles of pairs if a head has at least this number of rows. With fewer,
 * most of a tile of 32 rows would be empty. */
#define PAIRS_ROWS 8
/* A split has at least this number of keys. With fewer, merging costs what splitting gains. */
#define SPLIT_KEYS 256
/* Keys are split until each multiprocessor has this number of blocks. */
#define SPLIT_BLOCKS 4
/* A grid has at most this number of blocks on its third axis. */
#define MOST_SPLITS 65535

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Can the copies of Hopper read and its stores write this operand, or of each batch entry if
 * `first` is 1: rows at multiples of 16 bytes, no axis that stands still. */
static int in_chunks(const struct attn_problem *p, uint32_t role, int first)
{
    const struct attn_tensor *tensor = attn_tensor_find(p, role);
    int fits = tensor->shape[3] % 8 == 0 && tensor->stride[3] == 1;
    for (int axis = first; axis < 3; axis++)
        fits = fits && (tensor->shape[axis] == 1 ||
                        (tensor->stride[axis] > 0 && tensor->stride[axis] % 8 == 0));
    return fits;
}

/* Of the plain tiles, by its width, or NULL. Query heads of a group are not joined there, so rows
 * of one head must fill a warpgroup. */
static const struct tile *hopper_tile(const struct attn_problem *p,
                                      const struct attn_services *services,
                                      const struct tile *plain, int first)
{
    if (!attn_gpu_hopper() || strcmp(plain->kind, "plain") != 0 || p->sq < 64 || p->sk < 1 ||
        strcmp(attn_option_get(services, "hopper", "1"), "0") == 0 ||
        p->score == ATTN_SCORE_BILINEAR || !in_chunks(p, ATTN_Q, first) ||
        !in_chunks(p, ATTN_K, first) || !in_chunks(p, ATTN_V, first) ||
        !in_chunks(p, ATTN_OUT, first))
        return NULL;
    const struct tile *t = hopper_tiles;
    while (t->width < plain->width)
        t++;
    return t;
}

/* The narrowest tile that holds both widths, and of these the first that has every feature of the
 * problem. q^T M may be rounded to bf16, because numerics can declare that. In f16 it might
 * overflow. */
static const struct tile *choose(const struct attn_problem *p, const struct attn_services *services)
{
    const int plain =
        p->dtype == ATTN_F32 || p->flags & ATTN_FLAG_DROPOUT || attn_tensor_find(p, ATTN_WEIGHTS);
    if (p->score == ATTN_SCORE_ADDITIVE ||
        (p->score == ATTN_SCORE_BILINEAR && (plain || p->dtype != ATTN_BF16)))
        return &by_pairs;
    if (p->dtype == ATTN_F32 && p->score != ATTN_SCORE_GAUSSIAN && p->sq >= PAIRS_ROWS)
        return &by_pairs;
    if (p->score == ATTN_SCORE_GAUSSIAN || plain)
        return &by_rows;
    const int64_t width = p->dk > p->dv ? p->dk : p->dv;
    const int decode = p->sq * (p->hq / p->hkv) <= DECODE_ROWS;
    const int masked = !((float)p->scale > 0) || p->softcap > 0 || attn_tensor_find(p, ATTN_MASK) ||
                       attn_tensor_find(p, ATTN_BIAS) || attn_tensor_find(p, ATTN_ALIBI);
    const struct tile *t = tiles;
    while (t->width < width || t->splits != decode || t->masked < masked)
        t++;
    const struct tile *hopper = hopper_tile(p, services, t, 0);
    return hopper ? hopper : t;
}

static int is_hopper(const struct tile *tile)
{
    return strcmp(tile->kind, hopper_tiles->kind) == 0;
}

/* Blocks for `batch` batch entries, over rows. A tile with a width has the query heads of a group
 * side by side. */
static int64_t blocks_for(const struct attn_cuda_args *a, const struct tile *tile, int64_t batch)
{
    if (tile == &by_rows)
        return ceil_div(batch * a->hq * a->sq, tile->rows);
    if (tile == &by_pairs || is_hopper(tile))
        return ceil_div(a->sq, tile->rows) * a->hq * batch;
    return ceil_div((int64_t)a->sq * (a->hq / a->hkv), tile->rows) * a->hkv * batch;
}

/* Keys of a split, in whole tiles, so that few rows make many blocks. Keys are not split if weights
 * are asked for, because weights need a finished row. */
static int32_t split_keys_for(const struct attn_cuda_plan *plan, const struct tile *tile,
                              int64_t batch, int weights)
{
    const int64_t sk = plan->args.sk;
    int64_t splits = strtoll(attn_option_get(plan->services, "splits", "0"), NULL, 10);
    if (splits <= 0)
        splits = ceil_div((int64_t)SPLIT_BLOCKS * attn_gpu_processors(),
                          blocks_for(&plan->args, tile, batch));
    if (splits > sk / SPLIT_KEYS && !attn_option_get(plan->services, "splits", NULL))
        splits = sk / SPLIT_KEYS;
    if (!tile->splits || weights || splits < 1)
        splits = 1;
    if (splits > MOST_SPLITS)
        splits = MOST_SPLITS;
    return (int32_t)(ceil_div(ceil_div(sk, splits), tile->keys) * tile->keys);
}

static void lay_out(struct attn_cuda_plan *plan, const struct tile *tile, int weights)
{
    struct attn_cuda_args *a = &plan->args;
    const int64_t rows = (int64_t)a->b * a->hq * a->sq;
    a->split_keys = split_keys_for(plan, tile, a->b, weights);
    a->splits = a->sk > 0 ? (int32_t)ceil_div(a->sk, a->split_keys) : 1;
    plan->batch_alone = a->split_keys == split_keys_for(plan, tile, 1, weights);
    plan->grid = (struct attn_gpu_grid){
        .blocks_x = (uint32_t)blocks_for(a, tile, a->b),
        .blocks_z = (uint32_t)a->splits,
        .threads = (uint32_t)tile->threads,
        .shared_bytes = tile->shared,
    };
    plan->merge_grid = (struct attn_gpu_grid){
        .blocks_x = (uint32_t)ceil_div(rows, ATTN_CUDA_ROW_WARPS),
        .blocks_z = 1,
        .threads = 32 * ATTN_CUDA_ROW_WARPS,
    };
    if (a->splits > 1)
        plan->partial_bytes =
            (uint64_t)a->splits * (uint64_t)rows * (uint64_t)(a->dv + 2) * sizeof(float);
}

/* Projections, whose views replace q and k (flash_pairs.h). supports.c has checked that the
 * products do not overflow. */
static void lay_out_projections(struct attn_cuda_plan *plan)
{
    const struct attn_cuda_args *a = &plan->args;
    const int additive = a->flags & ATTN_CUDA_ADDITIVE;
    const int64_t width = additive ? a->dh : a->dk,
                  rows = a->sk > a->sq && additive ? a->sk : a->sq;
    const uint64_t element = a->flags & ATTN_CUDA_ROUND_Q ? 2 : sizeof(float);
    const uint64_t per_row = (uint64_t)a->b * (uint64_t)a->hq * (uint64_t)width * element;
    plan->projected_q_bytes = (uint64_t)a->sq * per_row;
    plan->projected_k_bytes = additive ? (uint64_t)a->sk * per_row : 0;
    plan->project_grid = (struct attn_gpu_grid){
        .blocks_x = (uint32_t)(ceil_div(rows, ATTN_CUDA_PAIR_ROWS) * a->hq * a->b),
        .blocks_z = additive ? 2 : 1,
        .threads = ATTN_CUDA_PAIR_THREADS,
        .shared_bytes = ATTN_CUDA_PROJECT_SHARED,
    };
}

static struct attn_cuda_view projected(const struct attn_cuda_args *a, void *data, int32_t rows)
{
    const int64_t width = a->flags & ATTN_CUDA_ADDITIVE ? a->dh : a->dk;
    return (struct attn_cuda_view){data, {width * rows * a->hq, width * rows, width, 1}};
}

static int find_kernels(struct attn_cuda_plan *plan, char *why, size_t size)
{
    int status =
        attn_gpu_kernel(plan->kernel_name, plan->grid.shared_bytes, &plan->kernel, why, size);
    if (status == ATTN_OK && plan->args.splits > 1)
        status = attn_cuda_find_step("merge", plan->dtype, 0, &plan->merge, why, size);
    if (status == ATTN_OK && plan->projected_q_bytes)
        status = attn_cuda_find_step("project", plan->dtype, plan->project_grid.shared_bytes,
                                     &plan->project, why, size);
    return status;
}

static int allocate(struct attn_cuda_plan *plan, char *why, size_t size)
{
    struct attn_cuda_args *a = &plan->args;
    void *partial = NULL;
    int status = ATTN_OK;
    if (plan->partial_bytes)
        status = attn_gpu_allocate(plan->partial_bytes, &partial, why, size);
    a->partial = partial;
    if (status == ATTN_OK && plan->projected_q_bytes)
        status = attn_gpu_allocate(plan->projected_q_bytes, &a->projected_q, why, size);
    if (status == ATTN_OK && plan->projected_k_bytes)
        status = attn_gpu_allocate(plan->projected_k_bytes, &a->projected_k, why, size);
    return status;
}

/* q^T M is rounded to the type of q, and its rows are dense. */
static void round_q(struct attn_cuda_args *args)
{
    args->flags |= ATTN_CUDA_ROUND_Q;
    args->flags &= ~(int32_t)ATTN_CUDA_WIDE_Q;
    args->flags |= args->dk % 8 == 0 ? ATTN_CUDA_WIDE_Q : 0;
}

int attn_cuda_flash_create(const struct attn_problem *problem, const struct attn_services *services,
                           struct attn_cuda_plan **out, char *why, size_t size)
{
    struct attn_cuda_plan *plan;
    int status = attn_cuda_plan_new(problem, services, &plan, why, size);
    if (status != ATTN_OK)
        return status;
    const struct tile *tile = choose(problem, services);
    char width[8] = "";
    if (tile->width)
        snprintf(width, sizeof width, "%d_", (int)tile->width);
    snprintf(plan->kernel_name, sizeof plan->kernel_name, "flash_%s_%s%s",
             attn_cuda_type_name(plan->dtype), width, tile->kind);
    plan->key_tile = tile->keys;
    plan->tensor_cores = tile->width > 0;
    if (is_hopper(tile)) {
        plan->hopper_rows = (uint32_t)tile->rows;
        plan->hopper_keys = (uint32_t)tile->keys;
    }
    if (problem->score == ATTN_SCORE_BILINEAR && tile->width)
        round_q(&plan->args);
    lay_out(plan, tile, attn_tensor_find(problem, ATTN_WEIGHTS) != NULL);
    if (!is_hopper(tile) && hopper_tile(problem, services, tile, 1))
        plan->batch_alone = 0; /* one batch entry alone would take the other kernel */
    if (problem->score == ATTN_SCORE_BILINEAR || problem->score == ATTN_SCORE_ADDITIVE)
        lay_out_projections(plan);
    status = find_kernels(plan, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_queue_create(&plan->queue, why, size);
    if (status == ATTN_OK)
        status = allocate(plan, why, size);
    if (status == ATTN_OK)
        *out = plan;
    else
        attn_cuda_plan_free(plan);
    return status;
}

/* The kernel's copies take operands as maps. */
static int start_hopper(const struct attn_cuda_plan *plan, const struct attn_cuda_args *a,
                        char *why, size_t size)
{
    struct attn_cuda_hopper_args args = {.a = *a};
    const int bf16 = plan->dtype == ATTN_BF16;
    const int32_t q[4] = {a->b, a->hq, a->sq, a->dk}, k[4] = {a->b, a->hkv, a->sk, a->dk},
                  v[4] = {a->b, a->hkv, a->sk, a->dv};
    int status = attn_gpu_map(&args.q, &a->q, q, bf16, plan->hopper_rows, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_map(&args.k, &a->k, k, bf16, plan->hopper_keys, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_map(&args.v, &a->v, v, bf16, plan->hopper_keys, why, size);
    if (status == ATTN_OK)
        status = attn_gpu_launch(plan->queue, plan->kernel, &plan->grid, &args, why, size);
    return status;
}

int attn_cuda_flash_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                          char *why, size_t size)
{
    struct attn_cuda_args a = *args;
    int status = ATTN_OK;
    if (plan->hopper_rows)
        return start_hopper(plan, args, why, size);
    if (plan->project) {
        status = attn_gpu_launch(plan->queue, plan->project, &plan->project_grid, args, why, size);
        a.q = projected(&a, a.projected_q, a.sq);
        if (a.projected_k)
            a.k = projected(&a, a.projected_k, a.sk);
    }
    if (status == ATTN_OK)
        status = attn_gpu_launch(plan->queue, plan->kernel, &plan->grid, &a, why, size);
    if (status == ATTN_OK && plan->merge)
        status = attn_gpu_launch(plan->queue, plan->merge, &plan->merge_grid, &a, why, size);
    return status;
}
