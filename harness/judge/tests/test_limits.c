/* SPDX-License-Identifier: Apache-2.0 */
/* test_limits.c - what a plan may declare: the table, the words, and that nothing wrong passes at
 * the limits. */
#include "answered.h"

#include <math.h>
#include <stdlib.h>

#include "judge/grade.h"
#include "judge/limits.h"

static const uint32_t types[] = {ATTN_F64, ATTN_F32, ATTN_F16, ATTN_BF16};

static struct attn_problem problem_of(uint32_t dtype)
{
    return (struct attn_problem){.dtype = dtype, .sk = 512};
}

/* Writes a value into the field of a limit. Products of fields have none of their own: false. */
static bool declare(struct attn_numerics *n, const char *name, double value)
{
    const struct {
        const char *name;
        double *number;
        int64_t *count;
    } fields[] = {{"u_in", &n->u_in, NULL},
                  {"e_exp", &n->e_exp, NULL},
                  {"e_arg", &n->e_arg, NULL},
                  {"e_tanh", &n->e_tanh, NULL},
                  {"e_log", &n->e_log, NULL},
                  {"tau", &n->tau, NULL},
                  {"e_f", &n->e_f, NULL},
                  {"a_f", &n->a_f, NULL},
                  {"chain", NULL, &n->chain},
                  {"splits", NULL, &n->splits},
                  {"decay_chunk", NULL, &n->decay_chunk},
                  {"grad_chain", NULL, &n->grad_chain}};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        if (strcmp(fields[f].name, name) == 0) {
            if (fields[f].number)
                *fields[f].number = value;
            else
                *fields[f].count = (int64_t)value;
            return true;
        }
    return false;
}

/* Every number may be declared up to its limit and no further, and the reason names it. */
static void numbers_have_limits(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const struct attn_problem p = problem_of(types[t]);
        struct attn_limit limits[ATTN_LIMITS_MAX];
        struct attn_numerics n = {0};
        const int count = attn_limits_of(&p, &n, limits);
        int tried = 0;
        for (int l = 0; l < count; l++) {
            char why[512] = "";
            struct attn_numerics at = n, beyond = n;
            if (!declare(&at, limits[l].name, limits[l].most))
                continue;
            declare(&beyond, limits[l].name, limits[l].most * 1.01 + 0);
            if (!attn_limits_hold(&p, &at, why, sizeof why))
                fail_msg("%s at its limit: %s", limits[l].name, why);
            assert_false(attn_limits_hold(&p, &beyond, why, sizeof why));
            assert_non_null(strstr(why, limits[l].name));
            tried++;
        }
        assert_int_equal(tried, 12);
    }
}

static void types_have_limits(void **state)
{
    static const struct {
        uint32_t dtype, acc, p, partial, terms;
        bool holds;
    } table[] = {
        {ATTN_F32, ATTN_F32, ATTN_F16, 0, 0, true},   {ATTN_F32, ATTN_F32, ATTN_BF16, 0, 0, false},
        {ATTN_F32, ATTN_F16, 0, 0, 0, false},         {ATTN_F16, ATTN_F16, ATTN_F16, 0, 0, true},
        {ATTN_F16, ATTN_BF16, 0, 0, 0, false},        {ATTN_F16, ATTN_F32, ATTN_BF16, 0, 0, false},
        {ATTN_BF16, ATTN_F32, ATTN_BF16, 0, 0, true}, {ATTN_F64, ATTN_F32, 0, 0, 0, false},
        {ATTN_F64, ATTN_F64, ATTN_F32, 0, 0, true},   {ATTN_F16, ATTN_F32, 0, ATTN_F16, 64, true},
        {ATTN_F16, ATTN_F32, 0, ATTN_F16, 65, false}, {ATTN_F32, ATTN_F32, 0, ATTN_BF16, 1, false},
        {ATTN_BF16, ATTN_F32, 0, ATTN_BF16, 8, true}, {ATTN_BF16, ATTN_F32, 0, ATTN_BF16, 9, false},
    };
    char why[512];

    (void)state;
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        const struct attn_problem p = problem_of(table[t].dtype);
        const struct attn_numerics n = {.acc_type = table[t].acc,
                                        .p_type = table[t].p,
                                        .partial_type = table[t].partial,
                                        .partial_terms = table[t].terms};
        if (attn_limits_hold(&p, &n, why, sizeof why) != table[t].holds)
            fail_msg("row %zu of the table", t);
    }
}

static struct attn_judgement judged(struct attn_instance *in, const struct attn_numerics *n)
{
    struct attn_judge *judge;
    struct attn_judgement v;
    char why[256];
    assert_int_equal(attn_judge_create(in, ATTN_JUDGE_BUDGET, 2, &judge, why, sizeof why), 0);
    attn_judge_outputs(judge, n, false, &v);
    attn_judge_grade(judge, &v);
    attn_judge_free(judge);
    return v;
}

static const char line[] = "h=2 s=48 d=16 out=lse";

/* A declaration beyond its limit is named, and no right answer passes with it. */
static void wide_declarations_are_mistrusted(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of(line);
    answer(in, &in->problem, attn_dtype_store);
    struct attn_numerics n = attn_best_numerics(ATTN_F32);
    assert_int_equal(judged(in, &n).status, ATTN_PASS);
    n.u_in = 0.045;
    const struct attn_judgement v = judged(in, &n);
    assert_int_equal(v.status, ATTN_MISTRUSTED);
    assert_string_equal(v.reason, "the plan declares u_in = 0.045; the limit for f32 is 0.000488, "
                                  "so the bound proves too little");
    attn_instance_free(in);
}

/* The best arithmetic has the slack 1 and a grade of 1 at most. A wider declaration changes the
 * slack alone. A larger error changes the grade alone. */
static void grades_do_not_depend_on_declarations(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of(line);
    answer(in, &in->problem, attn_dtype_store);
    struct attn_numerics n = attn_best_numerics(ATTN_F32);
    const struct attn_judgement best = judged(in, &n);
    assert_true(best.slack == 1);
    assert_true(best.grade > 1e-3 && best.grade <= 1);
    n.e_exp = 0x1p-11;
    const struct attn_judgement wide = judged(in, &n);
    assert_true(wide.grade == best.grade);
    assert_true(wide.slack > 50);
    float *out = attn_tensor_find(&in->problem, ATTN_OUT)->data;
    for (int64_t e = 0; e < in->problem.hq * in->problem.sq * in->problem.dv; e++)
        out[e] += 5e-5f;
    const struct attn_judgement off = judged(in, &n);
    assert_int_equal(off.status, ATTN_PASS);
    assert_true(off.grade > 5 * best.grade);
    attn_instance_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_limits),
        cmocka_unit_test(types_have_limits),
        cmocka_unit_test(wide_declarations_are_mistrusted),
        cmocka_unit_test(grades_do_not_depend_on_declarations),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
