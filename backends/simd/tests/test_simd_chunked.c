/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_chunked.c - chunked with operands of bf16 that no fill has, on every instance that this
 * machine has: infinities and NaN that meet a state, and a state beyond the largest bf16.
 * cases/chunked.cases has the rest. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/services.h"
#include "../amx_probe.h"
#include "../recurrent.h"

enum { STEPS = 40, CHUNK = 16, DK = 12, DL = 10, DV = 20, MOST = 20, TENSORS = 6 };

static const uint32_t roles[TENSORS] = {ATTN_Q, ATTN_K, ATTN_LIN_Q, ATTN_LIN_K, ATTN_V, ATTN_OUT};
static const int64_t widths[TENSORS] = {DK, DK, DL, DL, DV, DV};
enum { Q, K, LIN_Q, LIN_K, V, OUT };

/* One number of an operand that is replaced. `large` makes column COLUMN of the state LARGE, which
 * is rounded to infinity in bf16. */
struct change {
    int operand;
    int64_t at; /* step */
    float value;
    bool large;
};

enum { COLUMN = 3 };
#define LARGEST 0x1.fep127f /* of bf16 */
#define MORE    0x1.8p119f

static const struct change changes[] = {
    {0},
    {LIN_Q, 20, INFINITY, false},
    {LIN_Q, 20, -INFINITY, true},
    {LIN_Q, 39, NAN, false},
    {LIN_K, 5, INFINITY, false},
    {LIN_K, 20, NAN, false},
    {V, 5, -INFINITY, false},
    {V, 20, INFINITY, false},
    {V, 20, NAN, false},
    {Q, 20, INFINITY, false},
    {K, 20, NAN, false},
    {K, 30, INFINITY, true},
};

struct trial {
    bool causal;
    uint16_t of[TENSORS][STEPS * MOST]; /* bf16, widths apart */
};

static void set(struct trial *t, int operand, int64_t step, int64_t c, float value)
{
    attn_element_write(ATTN_BF16, t->of[operand], step * widths[operand] + c, value);
}

static double get(const struct trial *t, int operand, int64_t step, int64_t c)
{
    return (double)attn_element_read(ATTN_BF16, t->of[operand], step * widths[operand] + c);
}

/* Steps 3 and 4 give column 0 of the state their v, and take no part otherwise. */
static void enlarge(struct trial *t)
{
    for (int64_t step = 3; step <= 4; step++) {
        for (int64_t c = 0; c < DK; c++)
            set(t, K, step, c, 0);
        for (int64_t c = 0; c < DL; c++)
            set(t, LIN_K, step, c, c == 0);
    }
    for (int64_t step = 0; step < STEPS; step++) {
        set(t, LIN_Q, step, 0, 0x1p-100f);
        set(t, V, step, COLUMN, 0);
    }
    set(t, V, 3, COLUMN, LARGEST);
    set(t, V, 4, COLUMN, MORE);
}

static void make(struct trial *t, const struct change *change)
{
    uint32_t seed = 1;
    for (int x = Q; x <= V; x++)
        for (int64_t n = 0; n < STEPS * widths[x]; n++) {
            seed = seed * 1664525 + 1013904223;
            set(t, x, 0, n, (float)((int32_t)(seed >> 8) % 101) / 64); /* 7 digits */
        }
    if (change->large)
        enlarge(t);
    if (change->at)
        set(t, change->operand, change->at, 1, change->value);
}

static void run(const struct attn_flash_isa *isa, struct trial *t)
{
    struct attn_tensor tensors[TENSORS];
    for (int x = 0; x < TENSORS; x++)
        tensors[x] = (struct attn_tensor){.role = roles[x],
                                          .dtype = ATTN_BF16,
                                          .rank = 4,
                                          .shape = {1, 1, STEPS, widths[x]},
                                          .stride = {STEPS * MOST, STEPS * MOST, widths[x], 1},
                                          .data = t->of[x]};
    const struct attn_problem problem = {.struct_size = sizeof problem,
                                         .op = ATTN_OP_CHUNKED,
                                         .dtype = ATTN_BF16,
                                         .flags = t->causal ? ATTN_FLAG_CAUSAL : 0,
                                         .b = 1,
                                         .hq = 1,
                                         .hkv = 1,
                                         .sq = STEPS,
                                         .sk = STEPS,
                                         .dq = DK,
                                         .dk = DK,
                                         .dv = DV,
                                         .scale = 0.25,
                                         .lin_scale = 1,
                                         .chunk = CHUNK,
                                         .tensors = tensors,
                                         .n_tensors = TENSORS};
    struct attn_operands operands;
    struct attn_plan *plan;
    char why[256] = "";
    attn_operands_set(&operands, tensors, TENSORS);
    assert_int_equal(attn_recurrent_create(isa, &problem, &test_services, &plan, why, sizeof why),
                     ATTN_OK);
    attn_recurrent_run(plan, &operands);
    attn_plan_destroy(plan);
}

/* What a sum is, and what it would be without signs. */
struct sum {
    double is, size;
};

static void add(struct sum *sum, double term)
{
    sum->is += term;
    sum->size += fabs(term);
}

/* By the formula, with a state: infinities of lin_q meet sums. */
static struct sum element(const struct trial *t, int64_t i, int64_t d)
{
    struct sum out = {0, 0};
    const int64_t own = i / CHUNK * CHUNK, far = t->causal ? own : STEPS;
    for (int64_t j = own; j < STEPS && j < own + CHUNK && !(t->causal && j > i); j++) {
        double s = 0;
        for (int64_t c = 0; c < DK; c++)
            s += get(t, Q, i, c) * get(t, K, j, c);
        const double x = isnan(s) || s > 0 ? 0.25 * s : 0;
        add(&out, x * x * get(t, V, j, d));
    }
    for (int64_t c = 0; c < DL && far > 0; c++) {
        struct sum state = {0, 0};
        for (int64_t j = 0; j < far; j++)
            add(&state, get(t, LIN_K, j, c) * get(t, V, j, d));
        add(&out, get(t, LIN_Q, i, c) * state.is);
        out.size += fabs(get(t, LIN_Q, i, c)) * state.size;
    }
    return out;
}

static void keeps_infinities_and_nan(void **state)
{
    struct trial *t = malloc(sizeof *t);
    assert_non_null(t);
    for (size_t n = 0; n < 2 * sizeof changes / sizeof *changes; n++) {
        t->causal = n % 2;
        make(t, &changes[n / 2]);
        run(*state, t);
        for (int64_t i = 0; i < STEPS; i++)
            for (int64_t d = 0; d < DV; d++) {
                const struct sum want = element(t, i, d);
                const double got = get(t, OUT, i, d);
                const bool odd = !isfinite(want.is);
                if (odd ? !(isnan(want.is) ? isnan(got) : got == want.is)
                        : !(fabs(got - want.is) <= 0x1p-7 * want.size))
                    fail_msg("change %zu, causal %d, row %d, column %d: %.9g, expected %.9g", n / 2,
                             t->causal, (int)i, (int)d, got, want.is);
            }
    }
    free(t);
}

static int try_instance(const struct attn_flash_isa *isa)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(keeps_infinities_and_nan, (void *)(uintptr_t)isa)};
    return cmocka_run_group_tests_name(isa->name, tests, NULL, NULL);
}

int main(void)
{
    const struct attn_amx_machine machine = attn_amx_ask();
    int failed = 0;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        failed += try_instance(&attn_flash_avx2);
    if (__builtin_cpu_supports("avx512f"))
        failed += try_instance(&attn_flash_avx512);
    if (attn_flash_avx512_bf16.name && __builtin_cpu_supports("avx512bf16"))
        failed += try_instance(&attn_flash_avx512_bf16);
    if (attn_flash_amx_bf16.name && !attn_amx_missing(&machine))
        failed += try_instance(&attn_flash_amx_bf16);
    return failed;
}
