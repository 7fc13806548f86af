/* SPDX-License-Identifier: Apache-2.0 */
/* test_throwaway.c - an operator that this program adds to the registry is computed, with nothing
 * else told of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "reference/tests/operators/shifted/shifted.h"

enum { B = 2, H = 3, S = 5, D = 4, ROWS = B * H * S, HEADS = B * H };

/* A problem whose a[n] is n. */
static struct attn_problem shifted(float *a, float *out, float *sums, struct attn_tensor t[3])
{
    for (int n = 0; n < ROWS * D; n++)
        a[n] = (float)n;
    t[0] = (struct attn_tensor){
        SHIFTED_A, ATTN_F32, 0, 0, 4, 0, {B, H, S, D}, {H * S * D, S * D, D, 1}, a};
    t[1] = t[0];
    t[1].role = ATTN_OUT;
    t[1].data = out;
    t[2] = (struct attn_tensor){SHIFTED_SUMS, ATTN_F32, 0, 0, 3, 0, {B, H, D}, {H * D, D, 1}, sums};
    return (struct attn_problem){.struct_size = sizeof(struct attn_problem),
                                 .op = SHIFTED_OP,
                                 .dtype = ATTN_F32,
                                 .b = B,
                                 .hq = H,
                                 .hkv = H,
                                 .sq = S,
                                 .sk = S,
                                 .dq = D,
                                 .dk = D,
                                 .dv = D,
                                 .off = 2,
                                 .scale = 1,
                                 .n_tensors = 3,
                                 .tensors = t};
}

static void the_registry_has_it_beside_the_others(void **state)
{
    (void)state;
    assert_ptr_equal(ref_op_named("shifted"), &ref_op_shifted);
    assert_non_null(ref_op_named("attention"));
    assert_non_null(ref_op_named("mha"));
}

static void its_outputs_are_sampled_apart(void **state)
{
    static const int64_t rows[] = {0, 7, 29}, heads[] = {1, 4};
    const struct attn_numerics f32 = {.struct_size = sizeof f32, .acc_type = ATTN_F32};
    float a[ROWS * D], computed[ROWS * D], sums_computed[HEADS * D];
    double out[3 * D], out_bound[3 * D], sums[2 * D], sums_bound[2 * D];
    struct attn_tensor t[3];
    const struct attn_problem p = shifted(a, computed, sums_computed, t);
    const struct ref_request request = {
        .units = {{3, rows}, {2, heads}}, .numerics = &f32, .threads = 1};
    struct ref_result result = {.output = {{out, out_bound}, {sums, sums_bound}}};
    char why[256] = "";

    (void)state;
    if (ref_compute(&p, &request, &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
    assert_int_equal(ref_output_units(&p, 0), ROWS);
    assert_int_equal(ref_output_units(&p, 1), HEADS);
    assert_int_equal(ref_requested_rows(&p, &request), 0);
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < D; c++) {
            const int64_t head = rows[r] / S, other = head * S + (rows[r] % S + 2) % S;
            assert_true(out[r * D + c] == (double)(rows[r] * D + c + other * D + c));
            assert_true(out_bound[r * D + c] > 0 && out_bound[r * D + c] < 1e-4);
        }
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < D; c++) {
            const double first = (double)(heads[r] * S * D + c);
            assert_true(sums[r * D + c] == S * first + D * S * (S - 1) / 2.0);
            assert_true(sums_bound[r * D + c] > 0 && sums_bound[r * D + c] < 1e-2);
        }
}

static void what_its_tables_lack_is_refused(void **state)
{
    float a[ROWS * D], computed[ROWS * D], sums[HEADS * D];
    struct attn_tensor t[3];
    struct attn_problem p = shifted(a, computed, sums, t);
    char why[256] = "";

    (void)state;
    assert_int_equal(ref_check_problem(&p, why, sizeof why), ATTN_OK);
    t[0].shape[3] = 3;
    assert_int_equal(ref_check_problem(&p, why, sizeof why), ATTN_INVALID);
    assert_string_equal(why, "axis 3 of the tensor of role 120 is 3, not 4");
    t[0].shape[3] = D;
    t[2].role = SHIFTED_SUMS + 1;
    assert_int_equal(ref_check_problem(&p, why, sizeof why), ATTN_INVALID);
    assert_string_equal(why, "role 122 has no place in this operation");
    t[2].role = SHIFTED_SUMS;
    p.flags = ATTN_FLAG_CAUSAL;
    assert_int_equal(ref_check_problem(&p, why, sizeof why), ATTN_INVALID);
    assert_string_equal(why, "flags 0x1 do not go with op=shifted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_registry_has_it_beside_the_others),
        cmocka_unit_test(its_outputs_are_sampled_apart),
        cmocka_unit_test(what_its_tables_lack_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
