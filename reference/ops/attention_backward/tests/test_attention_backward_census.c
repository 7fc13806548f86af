/* SPDX-License-Identifier: Apache-2.0 */
/* test_attention_backward_census.c - the closed form of census: it is what the general path
 * computes, right kernels stay within its bound, and one lost pair of query and key does not. */
#include <math.h>

#include "reference/dtype.h"
#include "reference/ops/attention_backward/tests/gradients.h"

static const uint32_t types[] = {ATTN_F32, ATTN_BF16, ATTN_F16, ATTN_F64};
static const int masks[] = {
    0,           MADE_CAUSAL, MADE_CAUSAL | MADE_BR | MADE_LEN, MADE_WINDOW, MADE_LEN2D | MADE_SINK,
    MADE_SOFTCAP};
enum { MASKS = sizeof masks / sizeof *masks };

/* Draws an operand as an instance would. */
static void draw(struct made *m, uint32_t role)
{
    struct attn_tensor *t = made_tensor(m, role);
    struct ref_drawn element = {.role = role, .fill = "census", .shape = t->shape};
    for (element.index = 0; element.index < made_count(t); element.index++) {
        double number = made_normal(&m->state);
        assert_true(ref_op_find(ATTN_OP_ATTENTION_BACKWARD)->draw(&element, &number));
        made_set(t, element.index, number);
    }
}

static void create(struct made *m, const struct made_spec *spec)
{
    gradients_create(m, spec);
    draw(m, ATTN_Q);
    draw(m, ATTN_K);
    draw(m, ATTN_V);
    assert_int_equal(gradients_derive(m, "census"), ATTN_OK);
}

/* dQ, dK and dV, all or some of them, and no others. */
static void compute(struct made *m, const struct attn_numerics *numerics, int from, int end)
{
    struct ref_request some;
    struct ref_result result = {0};
    char why[256] = "";
    gradients_request(m, numerics, REF_FILL_STRUCTURED, 2, &some);
    some.given = true;
    for (int o = 0; o < GRADIENTS; o++)
        if (o >= from && o < end)
            result.output[o] = (struct ref_values){answers.value[o], answers.bound[o]};
        else
            some.units[o] = (struct ref_units){0};
    if (ref_compute(&m->problem, &some, &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
}

/* With a GRAD_LSE of zeros all is computed pair by pair. The bound of the closed form, which knows
 * that signs cancel, is the smaller one, but for the rounding of LSE. */
static void counting_is_computing(void **unused)
{
    static struct answers counted;
    double sharper[4] = {0};
    (void)unused;
    for (uint64_t seed = 0; seed < 48; seed++) {
        const struct made_spec spec = {.features = masks[seed % MASKS],
                                       .dtype = types[seed % 4],
                                       .b = 2,
                                       .hq = 4,
                                       .hkv = seed / 2 % 2 ? 4 : 2,
                                       .sq = 20 + (int64_t)(seed % 9),
                                       .sk = 30 + (int64_t)(seed % 7),
                                       .dk = 8,
                                       .dv = 5,
                                       .seed = 3 * seed};
        const struct kernel_style style = {
            .key_tile = 4, .query_tile = 8, .parts = seed / 4 % 2, .kept = seed / 8 % 2};
        struct made m;
        create(&m, &spec);
        const struct attn_numerics numerics = kernel_declares(&m, &style);
        const int64_t *rows = made_tensor(&m, ATTN_OUT)->shape;
        compute(&m, &numerics, 0, 1);
        compute(&m, &numerics, 1, 3);
        counted = answers;
        made_add(&m, ATTN_GRAD_LSE, spec.dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32, 3, rows);
        compute(&m, &numerics, 0, 3);
        for (int o = 0; o < 3; o++)
            for (int64_t x = 0; x < made_count(made_tensor(&m, gradient_roles[o])); x++) {
                const double bound = answers.bound[o][x];
                if (!(fabs(counted.value[o][x] - answers.value[o][x]) <= fmin(1e-4, bound)))
                    fail_msg("seed %d, output %d, element %lld: %.9g, counted %.9g", (int)seed, o,
                             (long long)x, answers.value[o][x], counted.value[o][x]);
                if (!(counted.bound[o][x] <=
                      1.05 * bound + (spec.dtype == ATTN_F64 ? 1e-14 : 1e-6)))
                    fail_msg("seed %d, output %d, element %lld: bound %.9g, counted %.9g",
                             (int)seed, o, (long long)x, bound, counted.bound[o][x]);
                sharper[seed % 4] += counted.bound[o][x] < 0.9 * bound;
            }
        made_free(&m);
    }
    assert_true(sharper[1] > 100 && sharper[2] > 100); /* where dS and p are stored in less */
}

/* The largest error of the kernel over its bound, of dQ, dK and dV. */
static double ratio_of(const struct made *m)
{
    double most = 0;
    for (int o = 0; o < 3; o++)
        most = fmax(most, gradients_ratio(m, o, NULL));
    return most;
}

/* Kernels of every style, with as many pairs as the arrays of a test hold. */
static void right_kernels_stay_within(void **unused)
{
    (void)unused;
    for (int type = 0; type < 3; type++) {
        double most = 0;
        for (uint64_t seed = 0; seed < 24; seed++) {
            const bool large = seed % 12 == 11;
            const struct made_spec spec = {.features = masks[seed % MASKS],
                                           .dtype = types[type],
                                           .b = 1,
                                           .hq = 4,
                                           .hkv = seed % 3 == 0 ? 4 : (int64_t)(seed % 3),
                                           .sq = large ? 240 : 33 + (int64_t)(seed * 7 % 59),
                                           .sk = large ? 270 : 30 + (int64_t)(seed * 11 % 61),
                                           .dk = 12,
                                           .dv = 5,
                                           .seed = 3 * seed};
            const struct kernel_style style = {.key_tile = seed % 2 ? 4 : 64,
                                               .query_tile = seed % 3 ? 8 : 64,
                                               .parts = seed / 4 % 2,
                                               .kept = seed / 8 % 2,
                                               .scaled = seed / 16 % 2};
            struct made m;
            create(&m, &spec);
            const struct attn_numerics numerics = kernel_declares(&m, &style);
            compute(&m, &numerics, 0, 3);
            kernel_compute(&m, &style, &kernel);
            most = fmax(most, ratio_of(&m));
            made_free(&m);
        }
        print_message("%s: largest error %.3f of the bound\n", attn_dtype_name(types[type]), most);
        assert_true(most <= 1);
    }
}

static void lost_pairs_do_not(void **unused)
{
    static const enum kernel_mistake mistakes[] = {KERNEL_PAIR_DKV, KERNEL_PAIR_DQ, KERNEL_DIAGONAL,
                                                   KERNEL_HEAD};
    (void)unused;
    for (int type = 0; type < 3; type++)
        for (size_t n = 0; n < 2 * sizeof mistakes / sizeof *mistakes; n++) {
            const struct made_spec spec = {.features = MADE_CAUSAL,
                                           .dtype = types[type],
                                           .hq = 4,
                                           .hkv = n % 2 ? 1 : 4,
                                           .sq = 160,
                                           .dk = 16,
                                           .seed = 9};
            const struct kernel_style style = {
                .key_tile = 64, .query_tile = 64, .mistake = mistakes[n / 2]};
            struct made m;
            if (mistakes[n / 2] == KERNEL_HEAD && spec.hkv == 4)
                continue;
            create(&m, &spec);
            const struct attn_numerics numerics = kernel_declares(&m, &style);
            compute(&m, &numerics, 0, 3);
            kernel_compute(&m, &style, &kernel);
            const double ratio = ratio_of(&m);
            print_message("%s, mistake %d: %.3g times the bound\n", attn_dtype_name(types[type]),
                          (int)style.mistake, ratio);
            assert_true(ratio > (types[type] == ATTN_F32 ? 30 : 8));
            made_free(&m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counting_is_computing),
        cmocka_unit_test(right_kernels_stay_within),
        cmocka_unit_test(lost_pairs_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
