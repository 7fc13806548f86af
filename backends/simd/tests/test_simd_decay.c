/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_decay.c - linear_decay against the recurrence in double, on every instance that this
 * machine has: whole blocks of steps and parts of one, blocks of columns, and numbers that blocks
 * of steps must not take: large ones, infinities, NaN. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/services.h"
#include "../recurrent.h"

enum { STEPS = 40, DK = 20, MOST_DV = 300 };

/* One number of an operand that is replaced. */
struct change {
    uint32_t role;
    int64_t at; /* step, or row of the state */
    float value;
};

static const struct change changes[] = {
    {0},
    {ATTN_V, 17, 3e7f},
    {ATTN_V, 17, INFINITY},
    {ATTN_V, 30, NAN},
    {ATTN_K, 17, INFINITY},
    {ATTN_K, 36, NAN},
    {ATTN_Q, 17, -INFINITY},
    {ATTN_Q, 39, NAN},
    {ATTN_DECAY, 17, -INFINITY},
    {ATTN_DECAY, 17, NAN},
    {ATTN_STATE_IN, 5, 1e12f},
    {ATTN_STATE_IN, 5, INFINITY},
};

struct trial {
    int64_t dv, inclusive;
    float q[STEPS * DK], k[STEPS * DK], decay[STEPS * DK], bonus[DK];
    float v[STEPS * MOST_DV], out[STEPS * MOST_DV], state[DK * MOST_DV], after[DK * MOST_DV];
};

static float draw(void)
{
    static uint32_t seed = 1;
    seed = seed * 1664525 + 1013904223;
    return (float)(int32_t)seed * 0x1p-31f;
}

static void make(struct trial *t, const struct change *change)
{
    float *const of[] = {[ATTN_Q] = t->q, [ATTN_K] = t->k, [ATTN_V] = t->v};
    const int64_t row = change->role == ATTN_Q || change->role == ATTN_K ? DK : t->dv;
    for (int n = 0; n < STEPS * DK; n++) {
        t->q[n] = draw();
        t->k[n] = n % 7 ? draw() : 0; /* 0 * infinity is NaN */
        t->decay[n] = -4 * fabsf(draw());
    }
    for (int n = 0; n < DK; n++)
        t->bonus[n] = draw();
    for (int64_t n = 0; n < STEPS * t->dv; n++)
        t->v[n] = draw();
    for (int64_t n = 0; n < DK * t->dv; n++)
        t->state[n] = draw();
    if (change->role == ATTN_DECAY)
        t->decay[change->at * DK + 3] = change->value;
    else if (change->role == ATTN_STATE_IN)
        t->state[change->at * t->dv + 3] = change->value;
    else if (change->role)
        of[change->role][change->at * row + 3] = change->value;
}

static struct attn_tensor rows_of(uint32_t role, int64_t rows, int64_t width, float *data)
{
    return (struct attn_tensor){.role = role,
                                .dtype = ATTN_F32,
                                .rank = 4,
                                .shape = {1, 1, rows, width},
                                .stride = {rows * width, rows * width, width, 1},
                                .data = data};
}

static void run(const struct attn_flash_isa *isa, struct trial *t)
{
    const int64_t dv = t->dv;
    const struct attn_tensor tensors[] = {rows_of(ATTN_Q, STEPS, DK, t->q),
                                          rows_of(ATTN_K, STEPS, DK, t->k),
                                          rows_of(ATTN_V, STEPS, dv, t->v),
                                          rows_of(ATTN_OUT, STEPS, dv, t->out),
                                          rows_of(ATTN_DECAY, STEPS, DK, t->decay),
                                          rows_of(ATTN_STATE_IN, DK, dv, t->state),
                                          rows_of(ATTN_STATE_OUT, DK, dv, t->after),
                                          {.role = ATTN_BONUS,
                                           .dtype = ATTN_F32,
                                           .rank = 2,
                                           .shape = {1, DK},
                                           .stride = {DK, 1},
                                           .data = t->bonus}};
    const uint32_t count = sizeof tensors / sizeof *tensors;
    const struct attn_problem problem = {.struct_size = sizeof problem,
                                         .op = ATTN_OP_LINEAR_DECAY,
                                         .dtype = ATTN_F32,
                                         .b = 1,
                                         .hq = 1,
                                         .hkv = 1,
                                         .sq = STEPS,
                                         .sk = STEPS,
                                         .dq = DK,
                                         .dk = DK,
                                         .dv = dv,
                                         .scale = 0.5,
                                         .variant = t->inclusive,
                                         .tensors = tensors,
                                         .n_tensors = count};
    struct attn_operands operands;
    struct attn_plan *plan;
    char why[256] = "";
    attn_operands_set(&operands, tensors, count);
    assert_int_equal(attn_recurrent_create(isa, &problem, &test_services, &plan, why, sizeof why),
                     ATTN_OK);
    attn_recurrent_run(plan, &operands);
    attn_plan_destroy(plan);
}

/* `size` is what the sum would be without signs. */
static void expect(float got, double want, double size)
{
    if (isnan(want) || isinf(want))
        assert_true(isnan(want) ? isnan(got) : got == (float)want);
    else if (!(fabs(got - want) <= 1e-5 * size + 1e-30))
        fail_msg("%.9g, expected %.9g (of %g)", (double)got, want, size);
}

/* Column d by the recurrence. */
static void check_column(const struct trial *t, int64_t d)
{
    double state[DK], size[DK];
    for (int c = 0; c < DK; c++)
        size[c] = fabs(state[c] = (double)t->state[c * t->dv + d]);
    for (int i = 0; i < STEPS; i++) {
        const double v = (double)t->v[i * t->dv + d];
        double own = 0, sum = 0, all = 0;
        for (int c = 0; c < DK; c++) {
            const double q = (double)t->q[i * DK + c], k = (double)t->k[i * DK + c];
            const double faded = exp((double)t->decay[i * DK + c]) * state[c];
            own += q * k * (double)t->bonus[c];
            sum += q * (t->inclusive ? faded : state[c]);
            all += fabs(q) * (size[c] + fabs(k * v));
            state[c] = faded + k * v;
            size[c] = exp((double)t->decay[i * DK + c]) * size[c] + fabs(k * v);
        }
        expect(t->out[i * t->dv + d], 0.5 * (sum + own * v), all);
    }
    for (int c = 0; c < DK; c++)
        expect(t->after[c * t->dv + d], state[c], size[c]);
}

static void matches_the_recurrence(void **state)
{
    struct trial *t = malloc(sizeof *t);
    assert_non_null(t);
    for (size_t n = 0; n < sizeof changes / sizeof *changes; n++)
        for (int form = 0; form < 4; form++) {
            t->inclusive = form % 2;
            t->dv = form < 2 ? 33 : MOST_DV;
            make(t, &changes[n]);
            run(*state, t);
            for (int64_t d = 0; d < t->dv; d++)
                check_column(t, d);
        }
    free(t);
}

int main(void)
{
    const struct CMUnitTest narrow[] = {
        cmocka_unit_test_prestate(matches_the_recurrence, (void *)&attn_flash_avx2)};
    const struct CMUnitTest wide[] = {
        cmocka_unit_test_prestate(matches_the_recurrence, (void *)&attn_flash_avx512)};
    int failed = 0;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        failed += cmocka_run_group_tests_name("avx2", narrow, NULL, NULL);
    if (__builtin_cpu_supports("avx512f"))
        failed += cmocka_run_group_tests_name("avx512", wide, NULL, NULL);
    return failed;
}
