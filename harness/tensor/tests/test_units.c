/* SPDX-License-Identifier: Apache-2.0 */
/* test_units.c - the places of the elements of units, their names, and their order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tensor/units.h"

/* Multi-head attention of 2 batches, 3 heads, 4 queries and `sk` keys; only what units ask for. */
static struct attn_problem problem_of(int64_t sk, struct attn_tensor tensors[2])
{
    tensors[0] = (struct attn_tensor){.role = ATTN_OUT,
                                      .dtype = ATTN_F32,
                                      .rank = 3,
                                      .shape = {2, 4, 15},
                                      .stride = {64, 16, 1}}; /* with gaps */
    tensors[1] = (struct attn_tensor){.role = ATTN_WEIGHTS,
                                      .dtype = ATTN_F32,
                                      .rank = 4,
                                      .shape = {2, 3, 4, sk},
                                      .stride = {12 * sk, 4 * sk, sk, 1}};
    return (struct attn_problem){.op = ATTN_OP_MHA,
                                 .b = 2,
                                 .hq = 3,
                                 .hkv = 3,
                                 .sq = 4,
                                 .sk = sk,
                                 .dq = 5,
                                 .dk = 5,
                                 .dv = 5,
                                 .n_tensors = 2,
                                 .tensors = tensors};
}

static void elements_have_places_and_names(void **state)
{
    struct attn_tensor tensors[2];
    const struct attn_problem p = problem_of(6, tensors);
    struct attn_units out, weights;
    int64_t at[ATTN_MAX_RANK];
    char name[64];

    (void)state;
    attn_units_of(&p, 0, &out);
    attn_units_of(&p, 2, &weights);
    assert_int_equal(out.count, 8);
    assert_int_equal(out.width, 15);
    assert_int_equal(out.followers, 1);
    assert_int_equal(weights.count, 24);
    assert_int_equal(weights.width, 6);
    assert_int_equal(weights.followers, 3);
    assert_int_equal(attn_unit_offset(&out, 7, 14), 64 + 3 * 16 + 14);
    /* unit 17 of b, i, h: b1 i1 h2 */
    assert_int_equal(attn_unit_offset(&weights, 17, 5), 12 * 6 + 2 * 4 * 6 + 6 + 5);
    assert_int_equal(attn_unit_element(&weights, attn_unit_base(&weights, 17), 5),
                     attn_unit_offset(&weights, 17, 5));
    attn_unit_indices(&weights, 17, 5, at);
    attn_unit_name(&weights, at, name, sizeof name);
    assert_string_equal(name, "weights[b1 h2 i1 j5]");
    attn_unit_indices(&out, 7, 14, at);
    attn_unit_name(&out, at, name, sizeof name);
    assert_string_equal(name, "out[b1 i3 c14]");
}

/* Weights of no keys have units without elements. */
static void units_may_be_empty(void **state)
{
    struct attn_tensor tensors[2];
    const struct attn_problem p = problem_of(0, tensors);
    struct attn_units weights;

    (void)state;
    attn_units_of(&p, 2, &weights);
    assert_int_equal(weights.count, 24);
    assert_int_equal(weights.width, 0);
    assert_int_equal(attn_unit_base(&weights, 23), 0);
}

static void units_go_into_the_order_of_the_tensor(void **state)
{
    struct attn_tensor tensors[2];
    const struct attn_problem p = problem_of(2, tensors);
    struct attn_units weights;
    double values[48], ordered[48];

    (void)state;
    attn_units_of(&p, 2, &weights);
    for (int n = 0; n < 48; n++)
        values[n] = n;
    attn_units_in_order(&weights, values, ordered);
    for (int b = 0; b < 2; b++)
        for (int h = 0; h < 3; h++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 2; j++)
                    assert_true(ordered[((b * 3 + h) * 4 + i) * 2 + j] ==
                                ((b * 4 + i) * 3 + h) * 2 + j);
}

/* A unit that runs along two axes, which no operator has yet. */
static void units_may_run_along_two_axes(void **state)
{
    static const struct ref_output state_out = {121, "state", "bkv", "b", REF_TYPE_WIDE, 0, 0};
    const struct attn_tensor tensor = {
        .rank = 3, .shape = {2, 3, 4}, .stride = {100, 10, 2}, .role = 121};
    struct attn_units units = {.output = &state_out,
                               .tensor = &tensor,
                               .count = 2,
                               .width = 12,
                               .followers = 1,
                               .step = -1};
    char name[64];
    int64_t at[ATTN_MAX_RANK];

    (void)state;
    ref_shape_init(&units.shape);
    units.shape.extent['b'] = 2, units.shape.extent['k'] = 3, units.shape.extent['v'] = 4;
    for (int64_t c = 0; c < 12; c++) {
        assert_int_equal(attn_unit_offset(&units, 1, c), 100 + c / 4 * 10 + c % 4 * 2);
        assert_int_equal(attn_unit_element(&units, attn_unit_base(&units, 1), c),
                         attn_unit_offset(&units, 1, c));
    }
    attn_unit_indices(&units, 1, 7, at);
    attn_unit_name(&units, at, name, sizeof name);
    assert_string_equal(name, "state[b1 c1 d3]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_have_places_and_names),
        cmocka_unit_test(units_may_be_empty),
        cmocka_unit_test(units_go_into_the_order_of_the_tensor),
        cmocka_unit_test(units_may_run_along_two_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
