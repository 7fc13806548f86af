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

#include "reference/dtype.h"
#include "reference/ops/linear_decay/linear_decay.h"
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

/* ---- in chunks ---- */

enum { MOST_CHUNK = 64 };

static float kept(float value, uint32_t type)
{
    uint16_t bits[2] = {0};
    if (type == ATTN_F32)
        return value;
    attn_dtype_store(type, bits, 0, value);
    return (float)attn_dtype_load(type, bits, 0);
}

/* What step r of a chunk that begins at `first` has decayed by when it is read. */
static float read_sum(const float *sums, int64_t r, int64_t c)
{
    r -= !made.variant;
    return r < 0 ? 0 : sums[r * DK + c];
}

static float weight_in_chunk(const float *sums, int64_t first, int64_t r, int64_t i, uint32_t type)
{
    const float *q = made.sequence.tensors[0].data, *k = made.sequence.tensors[1].data;
    float sum = 0;
    for (int64_t c = 0; c < DK; c++) {
        const float own = made.bonus ? (float)made.u[c] : 1;
        const float by = i == r ? own : expf(read_sum(sums, r, c) - sums[i * DK + c]);
        sum += q[(first + r) * DK + c] * kept(k[(first + i) * DK + c] * by, type);
    }
    return kept(sum, type);
}

/* A kernel in chunks. The state, q, k times their decays, and their products are stored in `type`.
 */
static void in_chunks(int64_t chunk, uint32_t type, float state[DK * DV], float *out)
{
    const float *q = made.sequence.tensors[0].data, *k = made.sequence.tensors[1].data;
    const float *v = made.sequence.tensors[2].data, *g = made.sequence.tensors[3].data;
    static float sums[MOST_CHUNK * DK];
    for (int64_t n = 0; n < DK * DV; n++)
        state[n] = kept(made.state ? (float)made.in[n] : 0, type);
    for (int64_t first = 0; first < made.steps; first += chunk) {
        const int64_t n = made.steps - first < chunk ? made.steps - first : chunk;
        for (int64_t e = 0; e < n * DK; e++)
            sums[e] = (e < DK ? 0 : sums[e - DK]) + g[first * DK + e];
        for (int64_t r = 0; r < n; r++)
            for (int64_t d = 0; d < DV; d++) {
                float sum = 0, inside = 0;
                for (int64_t c = 0; c < DK; c++)
                    sum += kept(q[(first + r) * DK + c] * expf(read_sum(sums, r, c)), type) *
                           state[c * DV + d];
                for (int64_t i = 0; i <= r; i++)
                    inside += weight_in_chunk(sums, first, r, i, type) * v[(first + i) * DV + d];
                out[(first + r) * DV + d] = 0.7F * (sum + inside);
            }
        for (int64_t c = 0; c < DK; c++)
            for (int64_t d = 0; d < DV; d++) {
                const float end = sums[(n - 1) * DK + c];
                float sum = 0;
                for (int64_t i = 0; i < n; i++)
                    sum += kept(k[(first + i) * DK + c] * expf(end - sums[i * DK + c]), type) *
                           v[(first + i) * DV + d];
                state[c * DV + d] = kept(state[c * DV + d] * expf(end) + sum, type);
            }
    }
}

static double ratio_in_chunks(int64_t chunk, uint32_t type, enum ref_fill_kind fill)
{
    static float out[MOST * DV], state[DK * DV];
    struct attn_numerics n = sequence_f32;
    double most = 0;
    n.decay_chunk = chunk;
    if (type != ATTN_F32) {
        n.state_type = n.p_type = type;
        n.u_in = attn_dtype_roundoff(type);
    }
    build(ATTN_F32);
    compute(&n, fill);
    in_chunks(chunk, type, state, out);
    for (int64_t e = 0; e < made.steps * DV; e++)
        most = fmax(most, fabs((double)out[e] - made.out[e]) / made.bound[e]);
    for (int64_t e = 0; e < DK * DV; e++)
        most = fmax(most, fabs((double)state[e] - made.after[e]) / made.after_bound[e]);
    return most;
}

/* Differences of sums of decays, and what is stored in 16 bits between chunks. */
static void the_bound_holds_in_chunks(void **unused)
{
    static const uint32_t types[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    static const int64_t chunks[] = {1, 16, 64};
    (void)unused;
    for (int t = 0; t < 3; t++) {
        double most[3] = {0};
        for (uint64_t seed = 0; seed < 24; seed++) {
            const int64_t steps = seed < 3 ? 600 : 150;
            draw(steps, seed);
            most[0] = fmax(most[0], ratio_in_chunks(chunks[seed % 3], types[t], REF_FILL_GENERIC));
            for (int64_t n = 0; n < steps * DK; n++)
                made.g[n] = n % DK % 2 ? -8 : 0;
            most[1] =
                fmax(most[1], ratio_in_chunks(chunks[seed % 3], types[t], REF_FILL_STRUCTURED));
            for (int64_t n = 0; n < steps * DK; n++) {
                made.q[n] = made.k[n] = 1;
                made.g[n] = -0.01;
            }
            for (int64_t n = 0; n < steps * DV; n++)
                made.v[n] = 1;
            most[2] =
                fmax(most[2], ratio_in_chunks(chunks[seed % 3], types[t], REF_FILL_STRUCTURED));
        }
        printf("in chunks, stored in %s: largest error over bound: drawn %.3f, strong decay %.3f, "
               "all alike %.3f\n",
               attn_dtype_name(types[t]), most[0], most[1], most[2]);
        for (int n = 0; n < 3; n++)
            assert_true(most[n] <= 1 && most[n] > 1e-4);
    }
}

/* Decays that are added up in bf16, and an undeclared state in bf16, are beyond the bound. */
static void the_bound_in_chunks_refuses_what_is_not_declared(void **unused)
{
    static float out[MOST * DV], state[DK * DV];
    struct attn_numerics n = sequence_f32;
    double most = 0;
    (void)unused;
    n.decay_chunk = 64;
    draw(1000, 2);
    build(ATTN_F32);
    compute(&n, REF_FILL_GENERIC);
    in_chunks(64, ATTN_BF16, state, out);
    for (int64_t e = 0; e < made.steps * DV; e++)
        most = fmax(most, fabs((double)out[e] - made.out[e]) / made.bound[e]);
    assert_true(most > 10);
}

/* Sizes alone allow what the bound allows, and not much more. */
static void sizes_allow_at_least_the_bound(void **unused)
{
    static double out[MOST * DV], after[DK * DV];
    struct ref_arithmetic a;
    struct ref_operands operands;
    double least = INFINITY, most = 0;
    (void)unused;
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct attn_numerics n = sequence_f32;
        n.decay_chunk = seed % 3 == 2 ? 64 : 0;
        draw(100, seed);
        build(ATTN_F32);
        compute(&n, REF_FILL_GENERIC);
        ref_arithmetic_init(&a, &made.sequence.problem, &n, REF_FILL_GENERIC, 1e9);
        ref_operands_init(&operands, &made.sequence.problem);
        assert_int_equal(
            ref_linear_decay_allow(&operands, &a, NULL, (double *[REF_OUTPUTS]){out, after}),
            ATTN_OK);
        for (int64_t e = 0; e < made.steps * DV + DK * DV; e++) {
            const bool is_out = e < made.steps * DV;
            const int64_t at = is_out ? e : e - made.steps * DV;
            const double value = is_out ? made.out[at] : made.after[at];
            const double bound = (is_out ? made.bound[at] : made.after_bound[at]) -
                                 attn_dtype_ulp(ATTN_F32, fabs(value));
            const double allowed = is_out ? out[at] : after[at];
            least = fmin(least, bound > 0 ? allowed / bound : INFINITY);
            most = fmax(most, bound > 0 ? allowed / bound : 0);
        }
    }
    printf("allowed by sizes over bound: %.3g to %.3g\n", least, most);
    assert_true(least >= 1);
    assert_true(most < 1e4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_recurrence_agrees),
        cmocka_unit_test(without_decay_it_is_linear_attention),
        cmocka_unit_test(parts_with_a_state_are_the_whole),
        cmocka_unit_test(the_bound_holds),
        cmocka_unit_test(the_bound_holds_in_chunks),
        cmocka_unit_test(the_bound_in_chunks_refuses_what_is_not_declared),
        cmocka_unit_test(sizes_allow_at_least_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
