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

#include "reference/philox.h"
#include "reference/reference.h"

enum { MOST = 1024, DK = 6, DV = 5 };

/* One head, dense, in double; `floats` has the same as f32. */
static struct made {
    int64_t steps, variant;
    bool bonus, state;
    double q[MOST * DK], k[MOST * DK], v[MOST * DV], g[MOST * DK], u[DK], in[DK * DV];
    float floats[3 * MOST * DK + MOST * DV + DK + DK * DV];
    struct attn_tensor tensors[8];
    struct attn_problem problem;
    double out[MOST * DV], bound[MOST * DV], after[DK * DV], after_bound[DK * DV];
} made;

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        fail_msg("%.17g and %.17g differ", a, b);
}

/* N(0,1), near enough. */
static double normal(uint64_t seed, uint64_t index)
{
    double sum = -6;
    for (uint64_t n = 0; n < 3; n++) {
        const uint32_t counter[4] = {(uint32_t)index, (uint32_t)n}, key[2] = {(uint32_t)seed};
        uint32_t words[4];
        attn_philox4x32(counter, key, words);
        for (int w = 0; w < 4; w++)
            sum += (double)words[w] * 0x1p-32;
    }
    return sum;
}

static void add(uint32_t role, double *data, const int64_t *shape, uint32_t rank, float **floats)
{
    struct attn_problem *p = &made.problem;
    struct attn_tensor *t = &made.tensors[p->n_tensors++];
    int64_t count = 1;
    *t = (struct attn_tensor){.role = role, .dtype = p->dtype, .rank = rank, .data = data};
    for (uint32_t a = rank; a-- > 0; count *= shape[a]) {
        t->shape[a] = shape[a];
        t->stride[a] = count;
    }
    if (p->dtype == ATTN_F64)
        return;
    for (int64_t n = 0; n < count; n++)
        data[n] = (*floats)[n] = (float)data[n];
    t->data = *floats;
    *floats += count;
}

static void build(uint32_t dtype)
{
    static float unread[1];
    const int64_t s = made.steps;
    float *floats = made.floats;
    made.problem = (struct attn_problem){.struct_size = sizeof made.problem,
                                         .op = ATTN_OP_LINEAR_DECAY,
                                         .score = ATTN_SCORE_SCALED_DOT,
                                         .dtype = dtype,
                                         .b = 1,
                                         .hq = 1,
                                         .hkv = 1,
                                         .sq = s,
                                         .sk = s,
                                         .dq = DK,
                                         .dk = DK,
                                         .dv = DV,
                                         .scale = 0.7,
                                         .variant = made.variant,
                                         .tensors = made.tensors};
    add(ATTN_Q, made.q, (int64_t[]){1, 1, s, DK}, 4, &floats);
    add(ATTN_K, made.k, (int64_t[]){1, 1, s, DK}, 4, &floats);
    add(ATTN_V, made.v, (int64_t[]){1, 1, s, DV}, 4, &floats);
    add(ATTN_DECAY, made.g, (int64_t[]){1, 1, s, DK}, 4, &floats);
    if (made.bonus)
        add(ATTN_BONUS, made.u, (int64_t[]){1, DK}, 2, &floats);
    if (made.state)
        add(ATTN_STATE_IN, made.in, (int64_t[]){1, 1, DK, DV}, 4, &floats);
    struct attn_tensor *out = &made.tensors[made.problem.n_tensors];
    out[0] = made.tensors[2];
    out[0].role = ATTN_OUT;
    out[0].data = unread;
    out[1] = (struct attn_tensor){.role = ATTN_STATE_OUT,
                                  .dtype = dtype,
                                  .rank = 4,
                                  .shape = {1, 1, DK, DV},
                                  .stride = {DK * DV, DK * DV, DV, 1},
                                  .data = unread};
    made.problem.n_tensors += 2;
}

static void draw(int64_t steps, uint64_t seed)
{
    made.steps = steps;
    made.variant = (int64_t)(seed % 2);
    made.bonus = seed / 2 % 2;
    made.state = seed / 4 % 2;
    for (int64_t n = 0; n < steps * DK; n++) {
        made.q[n] = normal(7 * seed, (uint64_t)n);
        made.k[n] = normal(7 * seed + 1, (uint64_t)n);
        made.g[n] = -exp(1.2 * normal(7 * seed + 2, (uint64_t)n) - 2.5);
    }
    for (int64_t n = 0; n < steps * DV; n++)
        made.v[n] = normal(7 * seed + 3, (uint64_t)n);
    for (int64_t n = 0; n < DK; n++)
        made.u[n] = normal(7 * seed + 4, (uint64_t)n);
    for (int64_t n = 0; n < DK * DV; n++)
        made.in[n] = normal(7 * seed + 5, (uint64_t)n);
}

static const struct attn_numerics f32_numerics = {
    .struct_size = sizeof(struct attn_numerics), .acc_type = ATTN_F32, .e_exp = 4 * 0x1p-24};

static void compute(const struct attn_numerics *numerics, enum ref_fill_kind fill)
{
    struct ref_request request = {.numerics = numerics, .fill = fill, .threads = 2};
    struct ref_result result = {.output = {{made.out, made.bound}, {made.after, made.after_bound}}};
    char why[256] = "";
    ref_request_all(&made.problem, &request);
    if (ref_compute(&made.problem, &request, &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
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
            assert_near(made.out[n], out[n], 1e-12);
        for (int64_t n = 0; n < DK * DV; n++)
            assert_near(made.after[n], state[n], 1e-12);
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
            assert_near(made.out[t * DV + d], 0.7 * sum, 1e-12);
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
            assert_near(made.out[n], whole[first * DV + n], 1e-12);
        for (int64_t n = 0; n < DK * DV; n++)
            assert_near(made.after[n], after[n], 1e-12);
    }
}

/* The largest error of the recurrence in f32 as a share of the bound. */
static double largest_ratio(enum ref_fill_kind fill)
{
    static float out[MOST * DV], state[DK * DV];
    double most = 0;
    build(ATTN_F32);
    compute(&f32_numerics, fill);
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
