/* SPDX-License-Identifier: Apache-2.0 */
/* test_linear_decay.c - linear_decay by its recurrence and by identities; and its bound held
 * against a recurrence in f32 that rounds every operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reference/tests/sequence.h"

enum { MOST = 1024, DK = 6, DV = 5 };

/* One head in double, its copy in f32, and what the reference says of it. */
static struct made {
    int64_t steps, variant;
    bool bonus, state;
    double q[MOST * DK], k[MOST * DK], v[MOST * DV], g[MOST * DK], u[DK], in[DK * DV];
    float floats[3 * MOST * DK + MOST * DV + DK + DK * DV];
    struct sequence sequence;
    double out[MOST * DV], bound[MOST * DV], after[DK * DV], after_bound[DK * DV];
} made;

static void build(uint32_t dtype)
{
    const int64_t s = made.steps, keys[] = {1, 1, s, DK}, values[] = {1, 1, s, DV};
    const int64_t bonus[] = {1, DK}, state[] = {1, 1, DK, DV};
    sequence_begin(&made.sequence, ATTN_OP_LINEAR_DECAY, dtype, s, DK, DV, made.floats);
    made.sequence.problem.scale = 0.7;
    made.sequence.problem.variant = made.variant;
    sequence_add(&made.sequence, ATTN_Q, made.q, keys, 4);
    sequence_add(&made.sequence, ATTN_K, made.k, keys, 4);
    sequence_add(&made.sequence, ATTN_V, made.v, values, 4);
    sequence_add(&made.sequence, ATTN_DECAY, made.g, keys, 4);
    if (made.bonus)
        sequence_add(&made.sequence, ATTN_BONUS, made.u, bonus, 2);
    if (made.state)
        sequence_add(&made.sequence, ATTN_STATE_IN, made.in, state, 4);
    sequence_ask(&made.sequence, ATTN_OUT, values, 4);
    sequence_ask(&made.sequence, ATTN_STATE_OUT, state, 4);
}

static void draw(int64_t steps, uint64_t seed)
{
    made.steps = steps;
    made.variant = (int64_t)(seed % 2);
    made.bonus = seed / 2 % 2;
    made.state = seed / 4 % 2;
    for (int64_t n = 0; n < steps * DK; n++) {
        made.q[n] = sequence_normal(7 * seed, (uint64_t)n);
        made.k[n] = sequence_normal(7 * seed + 1, (uint64_t)n);
        made.g[n] = -exp(1.2 * sequence_normal(7 * seed + 2, (uint64_t)n) - 2.5);
    }
    for (int64_t n = 0; n < steps * DV; n++)
        made.v[n] = sequence_normal(7 * seed + 3, (uint64_t)n);
    for (int64_t n = 0; n < DK; n++)
        made.u[n] = sequence_normal(7 * seed + 4, (uint64_t)n);
    for (int64_t n = 0; n < DK * DV; n++)
        made.in[n] = sequence_normal(7 * seed + 5, (uint64_t)n);
}

static void compute(const struct attn_numerics *numerics, enum ref_fill_kind fill)
{
    struct ref_result result = {.output = {{made.out, made.bound}, {made.after, made.after_bound}}};
    sequence_compute(&made.sequence, numerics, fill, &result);
}

/* The recurrences of released kernels; REAL is the type of every operation. */
#define RECURRENCE(NAME, REAL, EXP)                                                                \
    static void NAME(REAL state[DK * DV], REAL *out)                                               \
    {                                                                                              \
        for (int64_t n = 0; n < DK * DV; n++)                                                      \
            state[n] = made.state ? (REAL)made.in[n] : 0;                                          \
        for (int64_t t = 0; t < made.steps; t++)                                                   \
            for (int64_t d = 0; d < DV; d++) {                                                     \
                REAL sum = 0;                                                                      \
                for (int64_t c = 0; c < DK; c++) {                                                 \
                    REAL *s = &state[c * DV + d];                                                  \
                    const REAL kv = (REAL)made.k[t * DK + c] * (REAL)made.v[t * DV + d];           \
                    const REAL faded = *s * EXP((REAL)made.g[t * DK + c]);                         \
                    const REAL own = made.bonus ? (REAL)made.u[c] * kv : kv;                       \
                    sum += (REAL)made.q[t * DK + c] * ((made.variant ? faded : *s) + own);         \
                    *s = faded + kv;                                                               \
                }                                                                                  \
                out[t * DV + d] = (REAL)0.7 * sum;                                                 \
            }                                                                                      \
    }

RECURRENCE(recur_f64, double, exp)
RECURRENCE(recur_f32, float, expf)

static void the_recurrence_agrees(void **unused)
{
    static double out[MOST * DV], state[DK * DV];
    (void)unused;
    for (uint64_t seed = 0; seed < 16; seed++) {
        draw(300, seed);
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC);
        recur_f64(state, out);
        for (int64_t n = 0; n < made.steps * DV; n++)
            sequence_near(made.out[n], out[n], 1e-12);
        for (int64_t n = 0; n < DK * DV; n++)
            sequence_near(made.after[n], state[n], 1e-12);
    }
}

/* g = 0: q K^T under a causal mask, times V. */
static void without_decay_it_is_linear_attention(void **unused)
{
    (void)unused;
    draw(50, 1);
    memset(made.g, 0, sizeof made.g);
    made.state = made.bonus = false;
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    for (int64_t t = 0; t < made.steps; t++)
        for (int64_t d = 0; d < DV; d++) {
            double sum = 0;
            for (int64_t i = 0; i <= t; i++)
                for (int64_t c = 0; c < DK; c++)
                    sum += made.q[t * DK + c] * made.k[i * DK + c] * made.v[i * DV + d];
            sequence_near(made.out[t * DV + d], 0.7 * sum, 1e-12);
        }
}

/* Two parts, the state handed over, are the whole. */
static void parts_with_a_state_are_the_whole(void **unused)
{
    static double whole[MOST * DV], after[DK * DV];
    const int64_t first = 23, steps = 60;
    (void)unused;
    for (uint64_t seed = 4; seed < 8; seed++) {
        draw(steps, seed);
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC);
        memcpy(whole, made.out, sizeof whole);
        memcpy(after, made.after, sizeof after);
        made.steps = first;
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC);
        memcpy(made.in, made.after, sizeof made.in);
        made.steps = steps - first;
        memmove(made.q, made.q + first * DK, (size_t)((MOST - first) * DK) * sizeof(double));
        memmove(made.k, made.k + first * DK, (size_t)((MOST - first) * DK) * sizeof(double));
        memmove(made.g, made.g + first * DK, (size_t)((MOST - first) * DK) * sizeof(double));
        memmove(made.v, made.v + first * DV, (size_t)((MOST - first) * DV) * sizeof(double));
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC);
        for (int64_t n = 0; n < made.steps * DV; n++)
            sequence_near(made.out[n], whole[first * DV + n], 1e-12);
        for (int64_t n = 0; n < DK * DV; n++)
            sequence_near(made.after[n], after[n], 1e-12);
    }
}

/* The largest error of the recurrence in f32 as a share of the bound. */
static double largest_ratio(enum ref_fill_kind fill)
{
    static float out[MOST * DV], state[DK * DV];
    double most = 0;
    build(ATTN_F32);
    compute(&sequence_f32, fill);
    recur_f32(state, out);
    for (int64_t n = 0; n < made.steps * DV; n++) {
        const double error = fabs((double)out[n] - made.out[n]);
        assert_true(error <= made.bound[n]);
        most = fmax(most, made.bound[n] > 0 ? error / made.bound[n] : 0);
    }
    for (int64_t n = 0; n < DK * DV; n++) {
        const double error = fabs((double)state[n] - made.after[n]);
        assert_true(error <= made.after_bound[n]);
        most = fmax(most, made.after_bound[n] > 0 ? error / made.after_bound[n] : 0);
    }
    return most;
}

static void the_bound_holds(void **unused)
{
    double most[4] = {0};
    (void)unused;
    for (uint64_t seed = 0; seed < 32; seed++) {
        const int64_t steps = seed < 8 ? 1000 : 150;
        draw(steps, seed);
        most[0] = fmax(most[0], largest_ratio(REF_FILL_GENERIC));
        /* The same decay at every step makes the same error at every step. */
        for (int64_t n = 0; n < steps * DK; n++)
            made.g[n] = -0.003 * (double)(n % DK);
        most[1] = fmax(most[1], largest_ratio(REF_FILL_GENERIC));
        for (int64_t n = 0; n < steps * DK; n++)
            made.g[n] = n % DK % 2 ? -8 : 0;
        most[2] = fmax(most[2], largest_ratio(REF_FILL_STRUCTURED));
        for (int64_t n = 0; n < steps * DK; n++)
            made.q[n] = made.k[n] = 1;
        for (int64_t n = 0; n < steps * DV; n++)
            made.v[n] = 1;
        for (int64_t n = 0; n < steps * DK; n++)
            made.g[n] = -0.01;
        most[3] = fmax(most[3], largest_ratio(REF_FILL_STRUCTURED));
    }
    printf("largest error over bound: drawn %.3f, the same decay at every step %.3f, strong decay "
           "%.3f, all alike %.3f\n",
           most[0], most[1], most[2], most[3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_recurrence_agrees),
        cmocka_unit_test(without_decay_it_is_linear_attention),
        cmocka_unit_test(parts_with_a_state_are_the_whole),
        cmocka_unit_test(the_bound_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
