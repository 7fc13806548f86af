/* SPDX-License-Identifier: Apache-2.0 */
/* test_attention_backward_bound.c - the bound of the gradients against a tiled kernel that rounds
 * every operation. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/ops/attention_backward/tests/gradients.h"

/* Kernels that are right stay within the bound, in every type and style. */
static void right_kernels_stay_within(void **unused)
{
    static const uint32_t types[] = {ATTN_F32, ATTN_BF16, ATTN_F16};
    (void)unused;
    for (int type = 0; type < 3; type++) {
        double most[GRADIENTS] = {0}, means[GRADIENTS] = {0}, mean = 0;
        for (uint64_t seed = 0; seed < 200; seed++) {
            const int64_t sq = 3 + (int64_t)(seed * 7 % 29), sk = 2 + (int64_t)(seed * 11 % 31);
            const int chosen = gradient_features[seed % GRADIENT_FEATURES] & ~MADE_BROADCAST;
            const struct made_spec spec = {.features = chosen,
                                           .dtype = types[type],
                                           .spread = seed % 5 == 4 ? 3 : 1,
                                           .b = 1 + (int64_t)(seed % 2),
                                           .hq = 4,
                                           .hkv = seed % 3 == 0 ? 4 : (int64_t)(seed % 3),
                                           .sq = sq,
                                           .sk = sk,
                                           .dk = 8,
                                           .dv = 5,
                                           .seed = 1000 * seed + 3};
            const struct kernel_style style = {.key_tile = seed % 2 ? 4 : 64,
                                               .query_tile = seed % 3 ? 8 : 64,
                                               .own_lse = seed / 4 % 2,
                                               .own_delta = seed / 8 % 2,
                                               .parts = seed / 16 % 2,
                                               .kept = seed / 32 % 2};
            struct made m;
            gradients_create(&m, &spec);
            const struct attn_numerics numerics = kernel_declares(&m, &style);
            gradients_compute(&m, &numerics, seed % 2 ? REF_FILL_GENERIC : REF_FILL_STRUCTURED);
            kernel_compute(&m, &style, &kernel);
            for (int o = 0; o < GRADIENTS; o++) {
                most[o] = fmax(most[o], gradients_ratio(&m, o, &mean));
                means[o] += attn_tensor_find(&m.problem, gradient_roles[o]) ? mean / 200 : 0;
            }
            made_free(&m);
        }
        for (int o = 0; o < GRADIENTS; o++) {
            print_message(
                "%s %s: largest error %.3f of the bound, mean %.4f\n", attn_dtype_name(types[type]),
                ref_op_find(ATTN_OP_ATTENTION_BACKWARD)->outputs[o].name, most[o], means[o]);
            assert_true(most[o] < 1);
        }
    }
}

/* The same where LSE and OUT do not follow from the operands: as given, their errors are none. A
 * kernel with its own takes part, too. */
static void right_kernels_stay_within_what_is_given(void **unused)
{
    static const uint32_t types[] = {ATTN_F32, ATTN_BF16, ATTN_F16};
    double most = 0;
    (void)unused;
    for (uint64_t seed = 0; seed < 120; seed++) {
        const struct made_spec spec = {.features = gradient_features[seed % GRADIENT_FEATURES] &
                                                   ~MADE_BROADCAST,
                                       .dtype = types[seed % 3],
                                       .b = 1 + (int64_t)(seed % 2),
                                       .hq = 4,
                                       .hkv = 2,
                                       .sq = 3 + (int64_t)(seed * 7 % 29),
                                       .sk = 2 + (int64_t)(seed * 11 % 31),
                                       .dk = 8,
                                       .dv = 5,
                                       .seed = 1000 * seed + 3};
        const struct kernel_style style = {.key_tile = seed % 2 ? 4 : 64,
                                           .query_tile = 8,
                                           .own_lse = seed / 4 % 4 == 1,
                                           .own_delta = seed / 8 % 4 == 1};
        struct made m;
        gradients_create(&m, &spec);
        const struct attn_numerics numerics = kernel_declares(&m, &style);
        for (int t = 0; t < 2; t++) {
            struct attn_tensor *given = made_tensor(&m, t ? ATTN_LSE : ATTN_OUT);
            for (int64_t x = 0; x < made_count(given); x++)
                made_set(given, x, made_get(given, x) + 0.3 * made_normal(&m.state));
        }
        gradients_compute_as(&m, &numerics, REF_FILL_STRUCTURED, true);
        kernel_compute(&m, &style, &kernel);
        for (int o = 0; o < GRADIENTS; o++)
            most = fmax(most, gradients_ratio(&m, o, NULL));
        made_free(&m);
    }
    print_message("given LSE and OUT: largest error %.3f of the bound\n", most);
    assert_true(most < 1);
}

/* The sums of heads are stored with the scale in them, below the normal numbers of f16. */
static void scaled_parts_stay_within(void **unused)
{
    double most = 0;
    (void)unused;
    for (uint64_t seed = 0; seed < 40; seed++) {
        const struct made_spec spec = {.dtype = ATTN_F16,
                                       .b = 1,
                                       .hq = 4,
                                       .hkv = 1,
                                       .sq = 1 + (int64_t)(seed % 3),
                                       .sk = 2 + (int64_t)(seed * 11 % 31),
                                       .dk = 64,
                                       .dv = 5,
                                       .seed = 1000 * seed + 3};
        const struct kernel_style style = {
            .key_tile = 64, .query_tile = 64, .parts = true, .scaled = true};
        struct made m;
        gradients_create(&m, &spec);
        const struct attn_numerics numerics = kernel_declares(&m, &style);
        struct attn_tensor *dout = made_tensor(&m, ATTN_GRAD_OUT);
        for (int64_t x = 0; x < made_count(dout); x++)
            made_set(dout, x, made_get(dout, x) * 0x1p-10);
        gradients_compute(&m, &numerics, REF_FILL_STRUCTURED);
        kernel_compute(&m, &style, &kernel);
        for (int o = 0; o < GRADIENTS; o++)
            most = fmax(most, gradients_ratio(&m, o, NULL));
        made_free(&m);
    }
    print_message("scaled parts: largest error %.3f of the bound\n", most);
    assert_true(most < 1);
}

/* Where stored p and dS are so many that their errors count in squares. */
static void long_sums_stay_within(void **unused)
{
    static const uint32_t types[] = {ATTN_BF16, ATTN_F16};
    (void)unused;
    for (int type = 0; type < 2; type++) {
        double most = 0;
        for (uint64_t seed = 0; seed < 8; seed++) {
            const struct made_spec spec = {.features = seed % 2 ? MADE_CAUSAL : 0,
                                           .dtype = types[type],
                                           .spread = seed % 4 < 2 ? 1 : 0.1,
                                           .hq = 2,
                                           .hkv = 1,
                                           .sq = 250,
                                           .sk = 250,
                                           .dk = 4,
                                           .seed = 31 * seed + 5};
            const struct kernel_style style = {.key_tile = 64, .query_tile = 32};
            struct made m;
            gradients_create(&m, &spec);
            const struct attn_numerics numerics = kernel_declares(&m, &style);
            gradients_compute(&m, &numerics, REF_FILL_GENERIC);
            kernel_compute(&m, &style, &kernel);
            for (int o = 0; o < 3; o++)
                most = fmax(most, gradients_ratio(&m, o, NULL));
            made_free(&m);
        }
        print_message("%s, 250 keys: largest error %.3f of the bound\n",
                      attn_dtype_name(types[type]), most);
        assert_true(most < 1);
    }
}

/* Mistakes at 256 keys exceed the bound, in f32 far. */
static void mistakes_exceed_the_bound(void **unused)
{
    static const uint32_t types[] = {ATTN_F32, ATTN_BF16};
    /* How far the worst of dQ, dK, dV must be beyond it. In bf16 OUT is rounded by as much as a
     * delta in bf16 is. */
    static const double least[KERNEL_MISTAKES][2] = {
        [KERNEL_PAIR_DKV] = {50, 1}, [KERNEL_PAIR_DQ] = {100, 1},    [KERNEL_DIAGONAL] = {1000, 10},
        [KERNEL_SCALE] = {1000, 10}, [KERNEL_NO_DELTA] = {1000, 10}, [KERNEL_LOW_DELTA] = {10, 0},
        [KERNEL_HEAD] = {1000, 10},  [KERNEL_TWO] = {100, 1},        [KERNEL_NO_CAP] = {1000, 10},
        [KERNEL_DP] = {1000, 10}};
    (void)unused;
    for (int type = 0; type < 2; type++)
        for (int mistake = KERNEL_RIGHT; mistake < KERNEL_MISTAKES; mistake++) {
            const bool diagonal = mistake == KERNEL_DIAGONAL;
            const struct made_spec spec = {.features =
                                               (diagonal ? MADE_CAUSAL : 0) |
                                               (mistake == KERNEL_NO_CAP ? MADE_SOFTCAP : 0) |
                                               (mistake == KERNEL_DP ? MADE_PHILOX : 0),
                                           .dtype = types[type],
                                           .hq = 2,
                                           .hkv = 1,
                                           .sq = 256,
                                           .dk = 16,
                                           .seed = 7};
            const struct kernel_style style = {
                .key_tile = 64, .query_tile = 64, .mistake = (enum kernel_mistake)mistake};
            double worst = 0;
            struct made m;
            gradients_create(&m, &spec);
            const struct attn_numerics numerics = kernel_declares(&m, &style);
            gradients_compute(&m, &numerics, REF_FILL_GENERIC);
            kernel_compute(&m, &style, &kernel);
            for (int o = 0; o < 3; o++)
                worst = fmax(worst, gradients_ratio(&m, o, NULL));
            print_message("%s, mistake %d: %.3g times the bound\n", attn_dtype_name(types[type]),
                          mistake, worst);
            if (mistake == KERNEL_RIGHT)
                assert_true(worst < 1);
            else
                assert_true(worst > least[mistake][type]);
            made_free(&m);
        }
}

/* Zeroes the rows of the last axis but one, except some. */
static void thin_out(struct made *m, uint32_t role, int64_t step, int64_t kept)
{
    struct attn_tensor *t = made_tensor(m, role);
    for (int64_t x = 0; x < made_count(t); x++)
        if (x / t->shape[3] % t->shape[2] % step != kept)
            made_set(t, x, 0);
}

/* Compares outputs [from, end), asked for alone, with `answers`, and a right kernel with their
 * bounds. */
static void assert_alone(struct made *m, const struct attn_numerics *numerics, int from, int end)
{
    static struct answers alone;
    struct ref_request some;
    struct ref_result result = {0};
    char why[256] = "";
    gradients_request(m, numerics, REF_FILL_STRUCTURED, 2, &some);
    for (int o = 0; o < GRADIENTS; o++)
        if (o >= from && o < end)
            result.output[o] = (struct ref_values){alone.value[o], alone.bound[o]};
        else
            some.units[o] = (struct ref_units){0};
    assert_int_equal(ref_compute(&m->problem, &some, &result, why, sizeof why), ATTN_OK);
    const double *const got[] = {kernel.dq, kernel.dk, kernel.dv};
    for (int o = from; o < end; o++)
        for (int64_t x = 0; x < made_count(made_tensor(m, gradient_roles[o])); x++) {
            const double want = answers.value[o][x], bound = alone.bound[o][x];
            gradients_near(alone.value[o][x], want);
            assert_true(bound <= answers.bound[o][x] * (1 + 1e-9));
            assert_true(fabs(got[o][x] - want) <= bound);
        }
}

/* Keys of 0 are taken together where dQ alone is asked for, and rows without dO are left out where
 * dK and dV are. Neither changes a value, and bounds hold. */
static void zeros_change_nothing(void **unused)
{
    static const uint32_t types[] = {ATTN_F64, ATTN_F32, ATTN_BF16, ATTN_F16};
    (void)unused;
    for (uint64_t seed = 0; seed < 120; seed++) {
        const struct made_spec spec = {.features = gradient_features[seed % GRADIENT_FEATURES] &
                                                   ~MADE_BROADCAST,
                                       .dtype = types[seed % 4],
                                       .b = 2,
                                       .hq = 4,
                                       .hkv = 2,
                                       .sq = 20 + (int64_t)(seed % 9),
                                       .sk = 30 + (int64_t)(seed % 7),
                                       .dk = 8,
                                       .dv = 5,
                                       .seed = 1000 * seed + 17};
        const struct kernel_style style = {
            .key_tile = 4, .query_tile = 8, .own_lse = seed % 5 == 4, .own_delta = seed % 3 == 1};
        struct made m;
        gradients_create(&m, &spec);
        thin_out(&m, ATTN_K, 9, (int64_t)(seed % 3));
        thin_out(&m, ATTN_V, 9, (int64_t)(seed % 2));
        thin_out(&m, ATTN_GRAD_OUT, 7, 3);
        assert_int_equal(gradients_derive(&m, "normal"), ATTN_OK);
        const struct attn_numerics numerics = kernel_declares(&m, &style);
        gradients_compute(&m, &numerics, REF_FILL_STRUCTURED);
        kernel_compute(&m, &style, &kernel);
        assert_alone(&m, &numerics, 0, 1);
        assert_alone(&m, &numerics, 1, 3);
        made_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_stay_within),
        cmocka_unit_test(right_kernels_stay_within_what_is_given),
        cmocka_unit_test(scaled_parts_stay_within),
        cmocka_unit_test(long_sums_stay_within),
        cmocka_unit_test(mistakes_exceed_the_bound),
        cmocka_unit_test(zeros_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
