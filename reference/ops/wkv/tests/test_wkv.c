/* SPDX-License-Identifier: Apache-2.0 */
/* test_wkv.c - wkv by known values, by its recurrence, by identities; and its bound held against a
 * recurrence in f32 that rounds every operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/ops/wkv/wkv.h"
#include "reference/tests/sequence.h"

enum { MOST = 4096, CHANNELS = 4 };

/* One sequence in double, its copy in f32, and what the reference says of it. */
static struct made {
    int64_t steps;
    bool state;
    double k[MOST * CHANNELS], v[MOST * CHANNELS];
    double decay[CHANNELS], bonus[CHANNELS], in[3 * CHANNELS];
    float floats[2 * MOST * CHANNELS + 5 * CHANNELS];
    struct sequence sequence;
    double out[MOST * CHANNELS], bound[MOST * CHANNELS];
    double after[3 * CHANNELS], after_bound[3 * CHANNELS];
} made;

/* The problem of what lies in `made`. */
static void build(uint32_t dtype)
{
    const int64_t s = made.steps, c = CHANNELS, row[] = {1, 1, s, c}, state[] = {1, c, 3};
    sequence_begin(&made.sequence, ATTN_OP_WKV, dtype, s, c, c, made.floats);
    sequence_add(&made.sequence, ATTN_K, made.k, row, 4);
    sequence_add(&made.sequence, ATTN_V, made.v, row, 4);
    sequence_add(&made.sequence, ATTN_DECAY, made.decay, &c, 1);
    sequence_add(&made.sequence, ATTN_BONUS, made.bonus, &c, 1);
    if (made.state)
        sequence_add(&made.sequence, ATTN_STATE_IN, made.in, state, 3);
    sequence_ask(&made.sequence, ATTN_OUT, row, 4);
    sequence_ask(&made.sequence, ATTN_STATE_OUT, state, 3);
}

static void draw(int64_t steps, uint64_t seed, bool state)
{
    made.steps = steps;
    made.state = state;
    for (int64_t n = 0; n < steps * CHANNELS; n++) {
        made.k[n] = sequence_normal(seed, (uint64_t)n);
        made.v[n] = sequence_normal(seed + 1, (uint64_t)n);
    }
    for (int64_t c = 0; c < CHANNELS; c++) {
        made.decay[c] = exp(1.5 * sequence_normal(seed + 2, (uint64_t)c) - 2.5);
        made.bonus[c] = sequence_normal(seed + 3, (uint64_t)c);
        made.in[3 * c] = sequence_normal(seed + 4, (uint64_t)c);
        made.in[3 * c + 1] = exp(sequence_normal(seed + 5, (uint64_t)c));
        made.in[3 * c + 2] = sequence_normal(seed + 6, (uint64_t)c);
    }
}

static void compute(const struct attn_numerics *numerics, enum ref_fill_kind fill)
{
    struct ref_result result = {.output = {{made.out, made.bound}, {made.after, made.after_bound}}};
    sequence_compute(&made.sequence, numerics, fill, &result);
}

/* A number as a state in `state_type` keeps it. */
static uint32_t state_type = ATTN_F32;

static float kept(float value)
{
    float bits[1] = {0};
    attn_dtype_store(state_type, bits, 0, value);
    return (float)attn_dtype_load(state_type, bits, 0);
}

/* The recurrence as released kernels have it; REAL is the type of every operation, and STORE keeps
 * the state. */
#define RECURRENCE(NAME, REAL, EXP, STORE)                                                         \
    static void NAME(int64_t c, REAL state[3], REAL *out)                                          \
    {                                                                                              \
        const REAL w = (REAL)made.decay[c], u = (REAL)made.bonus[c];                               \
        for (int64_t t = 0; t < made.steps; t++) {                                                 \
            const REAL k = (REAL)made.k[t * CHANNELS + c], v = (REAL)made.v[t * CHANNELS + c];     \
            REAL own = u + k, top = state[2] > own ? state[2] : own;                               \
            REAL before = EXP(state[2] - top), now = EXP(own - top);                               \
            out[t] = (before * state[0] + now * v) / (before * state[1] + now);                    \
            own = state[2] - w;                                                                    \
            top = own > k ? own : k;                                                               \
            before = EXP(own - top);                                                               \
            now = EXP(k - top);                                                                    \
            state[0] = STORE(before * state[0] + now * v);                                         \
            state[1] = STORE(before * state[1] + now);                                             \
            state[2] = STORE(top);                                                                 \
        }                                                                                          \
    }

RECURRENCE(recur_f64, double, exp, )
RECURRENCE(recur_f32, float, expf, kept)

static void begin(int64_t c, double state[3])
{
    state[0] = made.state ? made.in[3 * c] : 0;
    state[1] = made.state ? made.in[3 * c + 1] : 0;
    state[2] = made.state ? made.in[3 * c + 2] : -1e38;
}

static void known_values(void **unused)
{
    (void)unused;
    made.steps = 3;
    made.state = false;
    for (int64_t n = 0; n < 3 * CHANNELS; n++) {
        made.k[n] = 0;
        made.v[n] = (double)(n / CHANNELS) + 1;
    }
    for (int64_t c = 0; c < CHANNELS; c++) {
        made.decay[c] = log(2);
        made.bonus[c] = c == 0 ? log(4) : 0;
    }
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    sequence_near(made.out[0], 1, 1e-15);
    /* Channel 0: (1 + 4*2) / (1 + 4); (1/2 + 2 + 4*3) / (1/2 + 1 + 4). */
    sequence_near(made.out[CHANNELS], 9.0 / 5, 1e-14);
    sequence_near(made.out[2 * CHANNELS], 14.5 / 5.5, 1e-14);
    sequence_near(made.out[2 * CHANNELS + 1], 5.5 / 2.5, 1e-14);
    /* (1/4 + 2/2 + 3) / (1/4 + 1/2 + 1). */
    sequence_near(made.after[0], 4.25 / 1.75, 1e-14);
    sequence_near(made.after[1], log(1.75), 1e-14);
}

static void the_recurrence_agrees(void **unused)
{
    static double out[MOST];
    (void)unused;
    for (uint64_t seed = 0; seed < 6; seed++) {
        draw(700, 10 * seed, seed % 2);
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC);
        for (int64_t c = 0; c < CHANNELS; c++) {
            double state[3];
            begin(c, state);
            recur_f64(c, state, out);
            for (int64_t t = 0; t < made.steps; t++)
                sequence_near(made.out[t * CHANNELS + c], out[t], 1e-12);
            sequence_near(made.after[3 * c], state[0] / state[1], 1e-12);
            sequence_near(made.after[3 * c + 1], state[2] + log(state[1]), 1e-11);
        }
    }
}

/* With w = u = 0 a channel is causal softmax attention with its keys as logits. */
static void without_decay_it_is_causal_softmax(void **unused)
{
    (void)unused;
    draw(60, 3, false);
    memset(made.decay, 0, sizeof made.decay);
    memset(made.bonus, 0, sizeof made.bonus);
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    for (int64_t c = 0; c < CHANNELS; c++) {
        double sum = 0, all = 0;
        for (int64_t t = 0; t < made.steps; t++) {
            const double p = exp(made.k[t * CHANNELS + c]);
            sum += p * made.v[t * CHANNELS + c];
            all += p;
            sequence_near(made.out[t * CHANNELS + c], sum / all, 1e-13);
        }
    }
}

/* The state that released kernels begin with is none. */
static void a_state_of_nothing_is_none(void **unused)
{
    static double whole[MOST * CHANNELS], bound[MOST * CHANNELS], after[3 * CHANNELS];
    (void)unused;
    draw(50, 12, false);
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    memcpy(whole, made.out, sizeof whole);
    memcpy(bound, made.bound, sizeof bound);
    memcpy(after, made.after, sizeof after);
    made.state = true;
    for (int64_t n = 0; n < 3 * CHANNELS; n++)
        made.in[n] = n % 3 == 2 ? -1e38 : 0;
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    for (int64_t n = 0; n < made.steps * CHANNELS; n++) {
        sequence_near(made.out[n], whole[n], 1e-13);
        sequence_near(made.bound[n], bound[n], 1e-13);
    }
    for (int64_t c = 0; c < CHANNELS; c++)
        for (int64_t n = 0; n < 2; n++)
            sequence_near(made.after[3 * c + n], after[3 * c + n], 1e-13);
}

/* Two parts, the state handed over, are the whole. */
static void parts_with_a_state_are_the_whole(void **unused)
{
    static double whole[MOST * CHANNELS], after[3 * CHANNELS];
    const int64_t first = 37, steps = 100;
    (void)unused;
    draw(steps, 9, true);
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    memcpy(whole, made.out, sizeof whole);
    memcpy(after, made.after, sizeof after);

    made.steps = first;
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    for (int64_t n = 0; n < first * CHANNELS; n++)
        sequence_near(made.out[n], whole[n], 1e-13);
    for (int64_t c = 0; c < CHANNELS; c++) {
        made.in[3 * c] = made.after[3 * c] * 5; /* the same state by other numbers */
        made.in[3 * c + 1] = 5;
        made.in[3 * c + 2] = made.after[3 * c + 1] - log(5);
    }
    made.steps = steps - first;
    memmove(made.k, made.k + first * CHANNELS,
            sizeof(double) * (size_t)((steps - first) * CHANNELS));
    memmove(made.v, made.v + first * CHANNELS,
            sizeof(double) * (size_t)((steps - first) * CHANNELS));
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    for (int64_t n = 0; n < (steps - first) * CHANNELS; n++)
        sequence_near(made.out[n], whole[first * CHANNELS + n], 1e-12);
    for (int64_t c = 0; c < CHANNELS; c++)
        for (int64_t n = 0; n < 2; n++)
            sequence_near(made.after[3 * c + n], after[3 * c + n], 1e-12);
}

static void keys_that_are_no_numbers(void **unused)
{
    (void)unused;
    draw(8, 4, false);
    made.k[2 * CHANNELS] = NAN;
    made.k[3 * CHANNELS + 1] = INFINITY;
    made.k[0 * CHANNELS + 2] = -INFINITY;
    build(ATTN_F64);
    compute(&sequence_f32, REF_FILL_STRUCTURED);
    for (int64_t t = 0; t < 8; t++) {
        assert_int_equal(isnan(made.out[t * CHANNELS]), t >= 2);
        assert_int_equal(isnan(made.out[t * CHANNELS + 1]), t >= 3);
        assert_int_equal(isnan(made.out[t * CHANNELS + 2]), t == 0);
        assert_true(isfinite(made.out[t * CHANNELS + 3]));
        assert_true(t == 0 || isfinite(made.bound[t * CHANNELS + 2])); /* it is judged */
    }
    assert_true(isnan(made.after[0]) && isnan(made.after[3]) && !isnan(made.after[6]));
}

/* The largest error of the recurrence in f32 as a share of the bound. */
static double largest_ratio(enum ref_fill_kind fill)
{
    static float out[MOST];
    struct attn_numerics numerics = sequence_f32;
    double most = 0;
    numerics.state_type = state_type;
    build(ATTN_F32);
    compute(&numerics, fill);
    for (int64_t c = 0; c < CHANNELS; c++) {
        double start[3];
        begin(c, start);
        float state[3] = {kept((float)start[0]), kept((float)start[1]), kept((float)start[2])};
        recur_f32(c, state, out);
        for (int64_t t = 0; t < made.steps; t++) {
            const int64_t n = t * CHANNELS + c;
            const double error = fabs((double)out[t] - made.out[n]);
            assert_true(error <= made.bound[n]);
            most = fmax(most, error / made.bound[n]);
        }
        const double mean = (double)state[0] / (double)state[1];
        const double lse = (double)state[2] + log((double)state[1]);
        const double errors[] = {fabs(mean - made.after[3 * c]), fabs(lse - made.after[3 * c + 1])};
        for (int64_t n = 0; n < 2; n++) {
            assert_true(errors[n] <= made.after_bound[3 * c + n]);
            most = fmax(most, errors[n] / made.after_bound[3 * c + n]);
        }
    }
    return most;
}

static void the_bound_holds(void **unused)
{
    double most[6] = {0};
    (void)unused;
    for (uint64_t seed = 0; seed < 40; seed++) {
        const int64_t steps = seed < 4 ? 1500 : 200;
        draw(steps, 100 + 10 * seed, seed % 2);
        most[0] = fmax(most[0], largest_ratio(REF_FILL_GENERIC));

        for (int64_t c = 0; c < CHANNELS; c++)
            made.decay[c] = c % 2 ? 0 : 1e-4;
        most[1] = fmax(most[1], largest_ratio(REF_FILL_GENERIC));

        draw(steps, 100 + 10 * seed, seed % 2);
        for (int64_t n = 0; n < steps * CHANNELS; n++)
            made.k[n] = made.k[n] * 60;
        most[2] = fmax(most[2], largest_ratio(REF_FILL_GENERIC));

        draw(steps, 100 + 10 * seed, seed % 2);
        for (int64_t n = 0; n < steps * CHANNELS; n++)
            made.k[n] += 3000;
        most[3] = fmax(most[3], largest_ratio(REF_FILL_GENERIC));

        /* One key far above all: the exponent falls by the same w at every step. */
        draw(steps, 100 + 10 * seed, false);
        for (int64_t c = 0; c < CHANNELS; c++) {
            made.decay[c] = 0.01 + 0.003 * (double)c;
            made.k[c] = 1000;
        }
        most[4] = fmax(most[4], largest_ratio(REF_FILL_GENERIC));

        /* All keys alike: the same exp at every step. */
        for (int64_t n = 0; n < steps * CHANNELS; n++)
            made.k[n] = 1.7;
        most[5] = fmax(most[5], largest_ratio(REF_FILL_STRUCTURED));
    }
    printf("largest error over bound: drawn %.3f, hardly any decay %.3f, keys times 60 %.3f, keys "
           "near 3000 %.3f, one key above all %.3f, keys alike %.3f\n",
           most[0], most[1], most[2], most[3], most[4], most[5]);
}

/* A state that is kept in 16 bits, as declared; and beyond the bound of one that is not. */
static void the_bound_holds_with_a_stored_state(void **unused)
{
    static const uint32_t types[] = {ATTN_F16, ATTN_BF16};
    (void)unused;
    for (int t = 0; t < 2; t++) {
        double most = 0;
        state_type = types[t];
        for (uint64_t seed = 0; seed < 20; seed++) {
            draw(seed < 2 ? 1000 : 200, 100 + 10 * seed, seed % 2);
            most = fmax(most, largest_ratio(REF_FILL_GENERIC));
            for (int64_t n = 0; n < made.steps * CHANNELS; n++)
                made.k[n] = 1.7;
            most = fmax(most, largest_ratio(REF_FILL_STRUCTURED));
        }
        printf("state in %s: largest error over bound %.3f\n", attn_dtype_name(types[t]), most);
        assert_true(most > 1e-3);
    }
    state_type = ATTN_BF16;
    draw(200, 7, false);
    build(ATTN_F32);
    compute(&sequence_f32, REF_FILL_GENERIC);
    static float out[MOST];
    double most = 0;
    recur_f32(0, (float[3]){0, 0, -1e38F}, out);
    for (int64_t i = 0; i < made.steps; i++)
        most = fmax(most, fabs((double)out[i] - made.out[i * CHANNELS]) / made.bound[i * CHANNELS]);
    assert_true(most > 10);
    state_type = ATTN_F32;
}

/* Sizes alone allow what the bound allows, and not much more. */
static void sizes_allow_at_least_the_bound(void **unused)
{
    static double out[MOST * CHANNELS], after[3 * CHANNELS];
    struct ref_arithmetic a;
    struct ref_operands operands;
    double least = INFINITY, most = 0;
    (void)unused;
    for (uint64_t seed = 0; seed < 12; seed++) {
        draw(150, 30 + 10 * seed, seed % 2);
        build(ATTN_F32);
        compute(&sequence_f32, REF_FILL_GENERIC);
        ref_arithmetic_init(&a, &made.sequence.problem, &sequence_f32, REF_FILL_GENERIC, 1e9);
        ref_operands_init(&operands, &made.sequence.problem);
        assert_int_equal(ref_wkv_allow(&operands, &a, NULL, (double *[REF_OUTPUTS]){out, after}),
                         ATTN_OK);
        for (int64_t n = 0; n < made.steps * CHANNELS; n++) {
            const double bound = made.bound[n] - attn_dtype_ulp(ATTN_F32, fabs(made.out[n]));
            least = fmin(least, bound > 0 ? out[n] / bound : INFINITY);
            most = fmax(most, bound > 0 ? out[n] / bound : 0);
        }
        for (int64_t n = 0; n < 3 * CHANNELS; n++) {
            const double bound =
                made.after_bound[n] - attn_dtype_ulp(ATTN_F32, fabs(made.after[n]));
            least = fmin(least, bound > 0 ? after[n] / bound : INFINITY);
        }
    }
    printf("allowed by sizes over bound: %.3g to %.3g\n", least, most);
    assert_true(least >= 1);
    assert_true(most < 1e4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(the_recurrence_agrees),
        cmocka_unit_test(without_decay_it_is_causal_softmax),
        cmocka_unit_test(a_state_of_nothing_is_none),
        cmocka_unit_test(parts_with_a_state_are_the_whole),
        cmocka_unit_test(keys_that_are_no_numbers),
        cmocka_unit_test(the_bound_holds),
        cmocka_unit_test(the_bound_holds_with_a_stored_state),
        cmocka_unit_test(sizes_allow_at_least_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
