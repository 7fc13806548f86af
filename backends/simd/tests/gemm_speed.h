/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_speed.h - projections beside a library's product, one thread each, as a ratio in one
 * process: what test_simd_gemm_speed.c and test_simd_gemm_pairs_speed.c share. */
#ifndef ATTN_SIMD_GEMM_SPEED_H
#define ATTN_SIMD_GEMM_SPEED_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../tests/pace.h"
#include "../gemm.h"

/* Operations a sample takes at least: some 100 us. */
#define LEAST_OPERATIONS 1e7
#define PAIRS            75

struct shape {
    const char *name;
    int rows, inner, columns;
};

static const struct shape shapes[] = {
    {"BERT-base, 128 rows", 128, 768, 768},
    {"BERT-base, 384 rows", 384, 768, 768},
    {"BERT-base, 512 rows", 512, 768, 768},
    {"ViT-B/16, 197 rows", 197, 768, 768},
    {"MiniLM, 128 rows", 128, 384, 384},
    {"1 row", 1, 768, 768},
    {"2 rows", 2, 768, 768},
    {"4 rows", 4, 768, 768},
    {"8 rows", 8, 768, 768},
    {"16 rows", 16, 768, 768},
};

/* One product, dense operands: x [rows,inner], w [columns,inner], y and theirs [rows,columns]. */
struct product_pair {
    const struct attn_flash_isa *isa;
    const struct shape *shape;
    uint32_t dtype;
    void *x, *w, *y, *theirs, *packed;
    float *bias;
    struct attn_gemm_scratch *scratch;
    struct attn_gemm job;
    int times; /* products a sample */
    /* The library's product, with what it made of w beforehand. */
    void (*library)(const struct product_pair *pair);
    const char *name;
    void *context;
};

static void *lines(int64_t bytes)
{
    void *made = aligned_alloc(64, (size_t)attn_round_up(bytes, 64));
    assert_non_null(made);
    return made;
}

static void *elements(uint32_t dtype, int64_t count)
{
    void *made = lines(count * attn_element_bytes(dtype));
    for (int64_t n = 0; n < count; n++)
        attn_element_write(dtype, made, n, (float)(n * 7 % 13) * 0.1f - 0.6f);
    return made;
}

static double pair_operations(const struct product_pair *pair)
{
    return 2.0 * pair->shape->rows * pair->shape->inner * pair->shape->columns;
}

static void pair_open(struct product_pair *pair)
{
    const int64_t m = pair->shape->rows, e = pair->shape->inner, n = pair->shape->columns;
    const uint32_t dtype = pair->dtype;
    const struct attn_gemm_layout layout = attn_gemm_layout(pair->isa, dtype);
    const double operations = pair_operations(pair);
    pair->times = operations < LEAST_OPERATIONS ? (int)(LEAST_OPERATIONS / operations) + 1 : 1;
    pair->x = elements(dtype, m * e);
    pair->w = elements(dtype, n * e);
    pair->y = elements(dtype, m * n);
    pair->theirs = elements(dtype, m * n);
    pair->packed = lines(attn_gemm_packed(&layout, n, e));
    pair->bias = lines(attn_gemm_biases(&layout, n));
    pair->scratch = lines(sizeof *pair->scratch);
    const struct attn_tensor weights = {
        .dtype = dtype, .rank = 2, .shape = {n, e}, .stride = {e, 1}, .data = pair->w};
    attn_gemm_pack(&layout, &weights, pair->packed);
    attn_gemm_pack_bias(&layout, &(struct attn_tensor){.dtype = 0}, n, pair->bias);
    pair->job = (struct attn_gemm){.rows = m,
                                   .batch_rows = m,
                                   .inner = e,
                                   .columns = n,
                                   .x = {.data = pair->x, .stride = {m * e, e, 1}, .dtype = dtype},
                                   .y = {.data = pair->y, .stride = {m * n, n, 1}, .dtype = dtype},
                                   .layout = layout,
                                   .packed = pair->packed,
                                   .bias = pair->bias};
}

static void pair_close(struct product_pair *pair)
{
    free(pair->x), free(pair->w), free(pair->y), free(pair->theirs);
    free(pair->packed), free(pair->bias), free(pair->scratch);
}

static void run_ours(void *context)
{
    const struct product_pair *pair = context;
    const struct attn_gemm_part all = {0, pair->job.rows, 0, pair->job.columns};
    for (int t = 0; t < pair->times; t++)
        pair->isa->run_gemm(&pair->job, &all, pair->scratch);
}

static void run_library(void *context)
{
    const struct product_pair *pair = context;
    for (int t = 0; t < pair->times; t++)
        pair->library(pair);
}

/* Reading x and adding the bias is in our time, packing w is not, since `bind` does it. */
static double rate_once(void *context)
{
    const struct product_pair *pair = context;
    const struct pace_work ours = {run_ours, context}, library = {run_library, context};
    double seconds[2], giga = 1e-9 * pair_operations(pair) * pair->times;
    double ratio = pace_ratio(&ours, &library, PAIRS, seconds);
    print_message("%s %s, %s: %.1f GFLOP/s, %s %.1f, ratio %.3f\n", pair->isa->name,
                  pair->dtype == ATTN_F32 ? "f32" : "bf16", pair->shape->name, giga / seconds[0],
                  pair->name, giga / seconds[1], ratio);
    return ratio;
}

/* Asserts that ours reaches `bar` of the library's rate and that both products agree within
 * `tolerance`. */
static void hold_rate(struct product_pair *pair, double bar, double tolerance)
{
    pace_hold(rate_once, pair, bar);
    for (int64_t c = 0; c < pair->job.rows * pair->job.columns; c++) {
        double theirs = attn_element_read(pair->dtype, pair->theirs, c);
        assert_true(fabs(attn_element_read(pair->dtype, pair->y, c) - theirs) <=
                    tolerance * (1.0 + fabs(theirs)));
    }
}

#endif
