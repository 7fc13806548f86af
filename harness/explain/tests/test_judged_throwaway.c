/* SPDX-License-Identifier: Apache-2.0 */
/* test_judged_throwaway.c - an operator without traits, which only this program has, is judged,
 * sampled and explained: two outputs that are sampled apart, units of other indices than those of
 * attention. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain/examine.h"
#include "judge/rows.h"
#include "reference/tests/operators/shifted/shifted.h"

enum { B = 2, H = 3, S = 300, D = 8, ROWS = B * H * S, HEADS = B * H };

static float a[ROWS * D], out[ROWS * D], sums[HEADS * D];
static const struct attn_numerics f32 = {.struct_size = sizeof f32, .acc_type = ATTN_F32};

/* An instance with the right answers in it. */
static struct attn_instance *answered(void)
{
    struct attn_instance *in = calloc(1, sizeof *in);
    struct attn_problem *p = &in->problem;
    struct attn_tensor *t = in->tensors;
    assert_non_null(in);
    *p = (struct attn_problem){.struct_size = sizeof *p,
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
                               .off = 1,
                               .scale = 1,
                               .n_tensors = 3,
                               .tensors = t};
    t[0] = (struct attn_tensor){.role = SHIFTED_A,
                                .dtype = ATTN_F32,
                                .rank = 4,
                                .shape = {B, H, S, D},
                                .stride = {H * S * D, S * D, D, 1},
                                .data = a};
    t[1] = t[0];
    t[1].role = ATTN_OUT;
    t[1].data = out;
    t[2] = (struct attn_tensor){.role = SHIFTED_SUMS,
                                .dtype = ATTN_F32,
                                .rank = 3,
                                .shape = {B, H, D},
                                .stride = {H * D, D, 1},
                                .data = sums};
    memset(sums, 0, sizeof sums);
    for (int n = 0; n < ROWS * D; n++)
        a[n] = sinf((float)n);
    for (int n = 0; n < ROWS * D; n++) {
        const int head = n / (S * D), i = n / D % S;
        out[n] = a[n] + a[(head * S + (i + 1) % S) * D + n % D];
        sums[head * D + n % D] += a[n];
    }
    return in;
}

static struct attn_judgement examine(const struct attn_instance *in, double budget)
{
    struct attn_judge *judge;
    struct attn_judgement v;
    char why[256];
    assert_int_equal(attn_judge_create(in, budget, 2, &judge, why, sizeof why), 0);
    attn_examine_outputs(judge, &f32, false, &v);
    attn_judge_free(judge);
    return v;
}

static void right_answers_pass(void **state)
{
    struct attn_instance *in = answered();
    const struct attn_judgement v = examine(in, ATTN_JUDGE_BUDGET);

    (void)state;
    if (v.status != ATTN_PASS)
        fail_msg("%s", v.reason);
    assert_int_equal(v.rows_checked, ROWS);
    assert_int_equal(v.rows_total, ROWS);
    assert_int_equal(v.has, 3);
    assert_int_equal(v.ok & 3, 3);
    assert_true(v.max_ratio > 0 && v.max_ratio < 1);
    free(in);
}

static void each_output_is_judged(void **state)
{
    struct attn_instance *in = answered();
    struct attn_judgement v;

    (void)state;
    sums[(1 * H + 2) * D + 3] += 1;
    v = examine(in, ATTN_JUDGE_BUDGET);
    assert_int_equal(v.status, ATTN_FAIL);
    assert_string_equal(v.worst, "sums[b1 h2 c3]");
    assert_int_equal(v.ok & 3, 1);
    assert_non_null(strstr(v.reason, "1 of 14448 elements wrong"));

    free(in);
    in = answered();
    out[((1 * H + 0) * S + 17) * D + 5] += 1;
    v = examine(in, ATTN_JUDGE_BUDGET);
    assert_string_equal(v.worst, "out[b1 h0 i17 c5]");
    assert_int_equal(v.ok & 3, 2);
    free(in);
}

static void samples_of_each_output_are_their_own(void **state)
{
    struct attn_instance *in = answered();
    const double budget = 2 * 200 * ref_output_cost(&in->problem, 0);
    struct ref_units units;
    struct attn_judgement v;

    (void)state;
    v = examine(in, budget); /* half of it for each output */
    assert_int_equal(v.status, ATTN_PASS);
    assert_in_range(v.rows_checked, 190, 260);
    assert_int_equal(attn_rows_choose(&in->problem, 1, 0, 1, &units), 0);
    assert_int_equal(units.count, 4); /* the first and last head of each batch */
    assert_int_equal(units.index[0], 0);
    assert_int_equal(units.index[1], H - 1);
    free((void *)(uintptr_t)units.index);
    free(in);
}

static void what_fits_any_operator_is_explained(void **state)
{
    struct attn_instance *in = answered();
    struct attn_judgement v;

    (void)state;
    for (int n = 0; n < ROWS * D; n++)
        out[n] *= 2;
    v = examine(in, ATTN_JUDGE_BUDGET);
    assert_non_null(strstr(v.reason, "the right answer times 2"));

    free(in);
    in = answered();
    memmove(out, out + S * D, S * D * sizeof *out); /* head 1 in the place of head 0 */
    v = examine(in, ATTN_JUDGE_BUDGET);
    assert_non_null(strstr(v.reason, "answers of other heads: b0 h0 query 0 holds that of b0 h1 "
                                     "query 0"));

    free(in);
    in = answered();
    memset(sums, 0, sizeof sums);
    v = examine(in, ATTN_JUDGE_BUDGET);
    assert_non_null(strstr(v.reason, "48 elements of wrong rows are 0"));
    free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_answers_pass),
        cmocka_unit_test(each_output_is_judged),
        cmocka_unit_test(samples_of_each_output_are_their_own),
        cmocka_unit_test(what_fits_any_operator_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
