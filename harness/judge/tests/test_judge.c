/* SPDX-License-Identifier: Apache-2.0 */
/* test_judge.c - what the judge accepts, what it refuses, and its words. */
#include "answered.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "judge/element.h"
#include "judge/rows.h"
#include "reference/bound.h"

/* Writes the reference, rounded to the output type, where a backend would write. */
static void answer_correctly(struct attn_instance *in)
{
    answer(in, &in->problem, attn_dtype_store);
}

static struct attn_judgement judge_with(struct attn_instance *in, double e_exp)
{
    struct attn_judge *j;
    struct attn_judgement v;
    struct attn_numerics numerics = {.struct_size = sizeof numerics, .e_exp = e_exp};
    char why[256];
    assert_int_equal(attn_judge_create(in, ATTN_JUDGE_BUDGET, 2, &j, why, sizeof why), 0);
    attn_judge_outputs(j, &numerics, false, &v);
    attn_judge_free(j);
    return v;
}

static float *out_of(struct attn_instance *in)
{
    return attn_tensor_find(&in->problem, ATTN_OUT)->data;
}

static const char line[] = "h=2 s=24 d=8 mask=causal out=lse";

static void accepts_the_rounded_reference(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of(line);
    answer_correctly(in);
    struct attn_judgement v = judge_with(in, 1e-7);
    assert_int_equal(v.status, ATTN_PASS);
    assert_true(v.max_ratio > 1e-6 && v.max_ratio < 1);
    assert_true(v.median_ratio <= v.max_ratio);
    assert_int_equal(v.rows_checked, 48);
    attn_instance_free(in);
}

/* On values drawn at random the bound is probabilistic. */
static void states_the_probability_of_its_bounds(void **state)
{
    static const struct {
        const char *line;
        double delta;
    } table[] = {{"h=2 s=8 d=8", REF_DELTA_SHARE}, {"h=2 s=8 d=8 fill=ones", 0}};

    (void)state;
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        struct attn_instance *in = instance_of(table[t].line);
        answer_correctly(in);
        const struct attn_judgement v = judge_with(in, 1e-7);
        assert_true(v.delta == table[t].delta);
        attn_instance_free(in);
    }
}

static void names_the_one_wrong_element(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of(line);
    answer_correctly(in);
    out_of(in)[(1 * 24 + 17) * 8 + 5] += 1e-4f;
    struct attn_judgement v = judge_with(in, 1e-7);
    assert_int_equal(v.status, ATTN_FAIL);
    assert_false(v.ok & 1u << 0);
    assert_true(v.ok & 1u << 1);
    assert_string_equal(v.worst, "out[b0 h1 i17 c5]");
    assert_non_null(strstr(v.reason, "1 of 432 elements wrong"));
    attn_instance_free(in);
}

static void judges_lse_too(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of(line);
    answer_correctly(in);
    ((float *)attn_tensor_find(&in->problem, ATTN_LSE)->data)[30] += 0.01f;
    struct attn_judgement v = judge_with(in, 1e-7);
    assert_int_equal(v.status, ATTN_FAIL);
    assert_true(v.ok & 1u << 0);
    assert_false(v.ok & 1u << 1);
    assert_string_equal(v.worst, "lse[b0 h1 i6]");
    attn_instance_free(in);
}

static void refuses_what_is_not_finite(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        struct attn_instance *in = instance_of(line);
        answer_correctly(in);
        out_of(in)[100] = bad[i];
        struct attn_judgement v = judge_with(in, 1e-7);
        assert_int_equal(v.status, ATTN_FAIL);
        assert_true(isinf(v.max_ratio));
        attn_instance_free(in);
    }
}

/* What an error that is allowed makes of a finite number may be infinite on either side. */
static void takes_an_infinity_within_the_bound(void **state)
{
    (void)state;
    const double threshold = attn_overflow_threshold(ATTN_F16);
    for (double sign = -1; sign <= 1; sign += 2) {
        const double want = 100 * sign, inf = copysign(INFINITY, sign);
        assert_true(attn_element_ratio(inf, want, threshold - 99, threshold) == 0);
        assert_true(isinf(attn_element_ratio(inf, want, threshold - 101, threshold)));
        assert_true(attn_element_ratio(-inf, want, threshold + 101, threshold) == 0);
        assert_true(isinf(attn_element_ratio(-inf, want, threshold + 99, threshold)));
    }
}

static void wants_nan_where_the_reference_is_nan(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of(line);
    ((float *)attn_tensor_find(&in->problem, ATTN_Q)->data)[0] = NAN; /* row 0 of head 0 */
    answer_correctly(in);
    assert_true(isnan(out_of(in)[0]));
    assert_int_equal(judge_with(in, 1e-7).status, ATTN_PASS);
    out_of(in)[0] = 0;
    assert_int_equal(judge_with(in, 1e-7).status, ATTN_FAIL);
    attn_instance_free(in);
}

/* A key whose weight is nothing in f32 gives 0 * Inf, NaN, where double gives Inf. */
static void takes_nan_for_an_infinity_that_underflows(void **state)
{
    (void)state;
    const float keys[] = {-80, -95};
    for (size_t i = 0; i < 2; i++) {
        struct attn_instance *in = instance_of("sq=1 sk=2 d=1 score=dot");
        float *k = attn_tensor_find(&in->problem, ATTN_K)->data;
        float *v = attn_tensor_find(&in->problem, ATTN_V)->data;
        ((float *)attn_tensor_find(&in->problem, ATTN_Q)->data)[0] = 1;
        k[0] = keys[i], k[1] = 0;
        v[0] = INFINITY;
        answer_correctly(in);
        assert_true(out_of(in)[0] == INFINITY);
        assert_int_equal(judge_with(in, 1e-7).status, ATTN_PASS);
        out_of(in)[0] = NAN;
        assert_int_equal(judge_with(in, 1e-7).status, i ? ATTN_PASS : ATTN_FAIL);
        out_of(in)[0] = 1;
        assert_int_equal(judge_with(in, 1e-7).status, ATTN_FAIL);
        attn_instance_free(in);
    }
}

static void mistrusts_a_bound_that_proves_nothing(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("h=2 s=24 d=8 out=lse");
    answer_correctly(in);
    struct attn_judgement v = judge_with(in, 0.4);
    assert_int_equal(v.status, ATTN_MISTRUSTED);
    memset(out_of(in), 0, 2 * 24 * 8 * sizeof(float));
    v = judge_with(in, 0.4);
    assert_int_equal(v.status, ATTN_MISTRUSTED);
    assert_non_null(strstr(v.reason, "are 0 where the reference is not"));
    assert_non_null(
        strstr(v.reason, "; the plan declares e_exp = 0.4; the limit for f32 is 0.000488"));
    attn_instance_free(in);
}

/* One key takes all the weight, so out is a row of v and no rounding can show. */
static void trusts_an_answer_that_is_exact(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("s=24 d=8 mask=causal scale=1e6");
    answer_correctly(in);
    struct attn_judgement v = judge_with(in, 1e-7);
    assert_int_equal(v.status, ATTN_PASS);
    assert_true(v.max_ratio < 1e-6);
    memset(out_of(in), 0, 24 * 8 * sizeof(float));
    v = judge_with(in, 1e6);
    assert_int_equal(v.status, ATTN_MISTRUSTED);
    attn_instance_free(in);
}

static void fill_with_nan(struct attn_instance *in)
{
    for (int64_t i = 0; i < ref_output_units(&in->problem, 0) * ref_output_width(&in->problem, 0);
         i++)
        out_of(in)[i] = NAN;
}

/* Where a score may overflow in f32 nothing is known, and said to be; elsewhere NaN is wrong. */
static void knows_nothing_beyond_the_range_of_f32(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum attn_status status;
    } table[] = {
        {"h=2 s=16 d=8 scale=1e38", ATTN_MISTRUSTED},
        {"h=2 s=16 d=8 softcap=1e300", ATTN_MISTRUSTED},
        {"h=2 s=16 d=8 scale=1e38 softcap=0.05 fill=zeros", ATTN_MISTRUSTED},
        {"op=mha h=2 s=16 d=8 scale=1e38", ATTN_MISTRUSTED},
        {"h=2 s=16 d=8 score=additive scale=3e38", ATTN_MISTRUSTED},
        {"h=2 s=16 d=8 score=gaussian scale=1e38", ATTN_MISTRUSTED},
        {"h=2 s=16 d=8 score=additive scale=1e20", ATTN_FAIL},
        {"op=mha h=2 s=16 d=8", ATTN_FAIL},
        {"h=2 s=16 d=8 scale=1e20", ATTN_FAIL},
        {"h=2 s=16 d=8 softcap=1e30", ATTN_FAIL},
        {"h=2 s=16 d=8 fill=spike mask=causal", ATTN_FAIL},
        {"h=2 s=16 d=8 fill=overflow", ATTN_FAIL},
    };
    for (size_t t = 0; t < sizeof table / sizeof table[0]; t++) {
        struct attn_instance *in = instance_of(table[t].line);
        fill_with_nan(in);
        const struct attn_judgement v = judge_with(in, 1e-7);
        if (v.status != table[t].status)
            fail_msg("%s: %s", table[t].line, v.reason);
        attn_instance_free(in);
    }
}

/* Values so large that their sum before it is divided by that of p overflows, or so that it does
 * not: which of the two a backend makes is what it declares. An overflow where there can be none,
 * or one of the wrong sign, fails; so do the elements beside one that may overflow. */
static void knows_nothing_of_sums_that_overflow(void **state)
{
    (void)state;
    static const struct {
        float v;
        uint32_t normalised, acc_type;
        enum attn_status status;
    } table[] = {
        {1.5e38f, 0, ATTN_F32, ATTN_MISTRUSTED}, {1.5e38f, 1, ATTN_F32, ATTN_FAIL},
        {1e37f, 0, ATTN_F32, ATTN_FAIL},         {1.5e38f, 0, ATTN_F64, ATTN_FAIL},
        {3e4f, 0, ATTN_F16, ATTN_MISTRUSTED},    {3e4f, 1, ATTN_F16, ATTN_FAIL},
        {3e3f, 0, ATTN_F16, ATTN_FAIL},
    };
    for (size_t t = 0; t < 2 * sizeof table / sizeof table[0]; t++) {
        const size_t row = t / 2;
        struct attn_instance *in = instance_of("sq=1 sk=4 d=2 fill=zeros");
        float *v = attn_tensor_find(&in->problem, ATTN_V)->data;
        const struct attn_numerics numerics = {.struct_size = sizeof numerics,
                                               .acc_type = table[row].acc_type,
                                               .p_normalised = table[row].normalised,
                                               .e_exp = 1e-7};
        struct attn_judge *j;
        struct attn_judgement got;
        char why[256];
        for (size_t key = 0; key < 4; key++)
            v[2 * key] = table[row].v, v[2 * key + 1] = 1;
        answer_correctly(in);
        out_of(in)[t % 2] = INFINITY; /* the column of large values, or the other */
        assert_int_equal(attn_judge_create(in, ATTN_JUDGE_BUDGET, 1, &j, why, sizeof why), 0);
        attn_judge_outputs(j, &numerics, false, &got);
        if (got.status != (t % 2 ? ATTN_FAIL : table[row].status))
            fail_msg("%g, element %zu: %s", (double)table[row].v, t % 2, got.reason);
        attn_judge_free(j);
        attn_instance_free(in);
    }
}

static void samples_rows_within_the_budget(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("h=4 s=512 d=64 mask=causal");
    const struct attn_problem *p = &in->problem;
    struct ref_units rows;
    assert_int_equal(attn_rows_choose(p, 0, 1e18, 1, &rows), 0);
    assert_null(rows.index);
    assert_int_equal(rows.count, 4 * 512);

    double budget = 300 * ref_output_cost(p, 0);
    assert_int_equal(attn_rows_choose(p, 0, budget, 1, &rows), 0);
    assert_non_null(rows.index);
    assert_in_range(rows.count, 500, 600); /* a causal row goes through half of the keys */
    for (int64_t r = 1; r < rows.count; r++)
        assert_true(rows.index[r] > rows.index[r - 1]);
    assert_int_equal(rows.index[0], 0);
    assert_int_equal(rows.index[rows.count - 1], 4 * 512 - 1);
    free((void *)(uintptr_t)rows.index);
    attn_instance_free(in);
}

/* The rows of a sample that lie in tile t of a head. */
static int64_t rows_in_tile(const struct ref_units *rows, int64_t sq, int64_t head, int64_t t)
{
    int64_t count = 0;
    for (int64_t r = 0; r < rows->count; r++)
        count += rows->index[r] / sq == head && rows->index[r] % sq / 64 == t;
    return count;
}

static void samples_every_tile_of_every_head(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("h=2 s=2048 d=64");
    struct ref_units rows;
    assert_int_equal(
        attn_rows_choose(&in->problem, 0, 72 * ref_output_cost(&in->problem, 0), 1, &rows), 0);
    assert_in_range(rows.count, 64, 72);
    for (int64_t tile = 0; tile < 64; tile++)
        assert_true(rows_in_tile(&rows, 2048, tile / 32, tile % 32) > 0);
    free((void *)(uintptr_t)rows.index);

    /* Not enough for all: every two tiles have one, and the heads take turns. */
    assert_int_equal(
        attn_rows_choose(&in->problem, 0, 40 * ref_output_cost(&in->problem, 0), 1, &rows), 0);
    for (int64_t pair = 0; pair < 16; pair++)
        for (int64_t head = 0; head < 2; head++)
            assert_true(rows_in_tile(&rows, 2048, head, 2 * pair) +
                            rows_in_tile(&rows, 2048, head, 2 * pair + 1) >
                        0);
    free((void *)(uintptr_t)rows.index);
    attn_instance_free(in);
}

/* Of a few global tokens among many, some rows are always judged. */
static void samples_global_rows(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("h=2 s=2048 d=64 mask=window:8:8+global:rand:0.002");
    const struct attn_tensor *global = attn_tensor_find(&in->problem, ATTN_GLOBAL);
    struct ref_units rows;
    int64_t met = 0;
    assert_int_equal(attn_rows_choose(&in->problem, 0, ref_output_cost(&in->problem, 0), 1, &rows),
                     0);
    assert_true(rows.index && rows.count < 400);
    for (int64_t r = 0; r < rows.count; r++)
        met += ((const uint8_t *)global->data)[rows.index[r] % 2048] != 0;
    assert_true(met >= 2);
    free((void *)(uintptr_t)rows.index);
    attn_instance_free(in);
}

/* Where any key of a head costs all of its queries, keys of two heads are enough; with time for
 * more, there are more. */
static void samples_few_heads_where_each_costs_much(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("op=attention_backward h=12 s=256 d=8");
    const double head = ref_op_find(in->problem.op)->group_cost(&in->problem, 1);
    for (int most = 1; most <= 16; most += 5) {
        struct ref_units keys;
        bool met[12] = {false};
        int heads = 0;
        assert_int_equal(attn_rows_choose(&in->problem, 1, (most + 0.5) * head / 16, 1, &keys), 0);
        for (int64_t r = 0; r < keys.count; r++)
            met[ref_unit_number(&keys, r) / 256] = true;
        for (int h = 0; h < 12; h++)
            heads += met[h];
        assert_int_equal(heads, most < 2 ? 2 : most < 12 ? most : 12);
        free((void *)(uintptr_t)keys.index);
    }
    attn_instance_free(in);
}

static void samples_other_rows_with_another_seed(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("h=1 s=4096 d=64");
    struct ref_units rows[3];
    int64_t common = 0;
    for (int n = 0; n < 3; n++)
        assert_int_equal(attn_rows_choose(&in->problem, 0, 100 * ref_output_cost(&in->problem, 0),
                                          n < 2 ? 7 : 7ull << 32, &rows[n]),
                         0);
    assert_int_equal(rows[0].count, rows[1].count);
    assert_memory_equal(rows[0].index, rows[1].index, (size_t)rows[0].count * sizeof(int64_t));
    for (int64_t r = 0; r < rows[0].count; r++)
        for (int64_t s = 0; s < rows[2].count; s++)
            common += rows[0].index[r] == rows[2].index[s];
    assert_in_range(common, 2, 20);
    for (int n = 0; n < 3; n++)
        free((void *)(uintptr_t)rows[n].index);
    attn_instance_free(in);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void median_is_that_of_sorting(void **state)
{
    double values[201], sorted[201];
    (void)state;
    assert_true(attn_median_of(values, 0) == 0);
    for (int count = 1; count <= 201; count++)
        for (int kinds = 1; kinds <= 401; kinds += 40) { /* few kinds: many equal values */
            for (int n = 0; n < count; n++)
                values[n] = n % 50 == 49 ? INFINITY : (double)(rand() % kinds);
            memcpy(sorted, values, sizeof sorted);
            qsort(sorted, (size_t)count, sizeof *sorted, by_value);
            assert_true(attn_median_of(values, count) == sorted[count / 2]);
        }
}

/* ---- outputs with several right values ---- */

/* An operator that hashes. Products of its hashes are rounded to bf16, so that some buckets may be
 * other ones. */
static const char hashing[] = "op=lsh s=128 d=8 chunk=8 rounds=4 buckets=4 dtype=bf16";
enum { HASHES = 4 * 128, ELEMENTS = 128 * 8 };
static const struct attn_numerics coarse = {
    .struct_size = sizeof coarse, .acc_type = ATTN_F32, .proj_type = ATTN_BF16, .e_exp = 0x1p-22};

/* Writes out and the buckets as the reference has them; `stored`: for the buckets that are there.
 */
static void answer_hashes(struct attn_instance *in, bool stored)
{
    static double out[ELEMENTS], bounds[ELEMENTS], buckets[HASHES];
    const struct attn_tensor *outs[] = {attn_tensor_find(&in->problem, ATTN_OUT),
                                        attn_tensor_find(&in->problem, ATTN_BUCKETS_OUT)};
    struct ref_request request = {.numerics = &coarse, .threads = 1, .stored = stored};
    struct ref_result r = {.output = {{out, bounds}, {NULL, NULL}, {buckets, NULL}}};
    char why[256];
    ref_request_all(&in->problem, &request);
    assert_int_equal(ref_compute(&in->problem, &request, &r, why, sizeof why), ATTN_OK);
    for (int64_t n = 0; n < ELEMENTS; n++)
        attn_dtype_store(ATTN_BF16, outs[0]->data, n, out[n]);
    for (int64_t n = 0; n < HASHES; n++)
        attn_dtype_store(ATTN_I32, outs[1]->data, n, buckets[n]);
}

/* Are there elements of out that differ from these by more than rounding? */
static bool differs(struct attn_instance *in, const uint16_t *before)
{
    const void *out = tensor(in, ATTN_OUT)->data;
    bool differ = false;
    for (int64_t n = 0; n < ELEMENTS; n++)
        differ = differ || fabs(attn_dtype_load(ATTN_BF16, out, n) -
                                attn_dtype_load(ATTN_BF16, before, n)) > 0.05;
    return differ;
}

/* Moves a token to another bucket that is right, too, and out with it. */
static void choose_another(struct attn_instance *in, const uint16_t *before)
{
    int32_t *bucket = attn_tensor_find(&in->problem, ATTN_BUCKETS_OUT)->data;
    for (int n = 0; n < HASHES; n++) {
        const int32_t was = bucket[n];
        for (int32_t t = 0; t < 4; t++) {
            bucket[n] = t;
            answer_hashes(in, true);
            if (t != was && bucket[n] == t && differs(in, before))
                return;
        }
        bucket[n] = was;
    }
    fail_msg("no token has two right buckets");
}

static void follows_the_choice_of_a_backend(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of(hashing);
    const struct attn_tensor *out = tensor(in, ATTN_OUT), *buckets = tensor(in, ATTN_BUCKETS_OUT);
    struct attn_judge *j;
    struct attn_judgement v;
    uint16_t before[ELEMENTS];
    char why[256];
    assert_int_equal(attn_judge_create(in, ATTN_JUDGE_BUDGET, 2, &j, why, sizeof why), 0);
    answer_hashes(in, false);
    memcpy(before, out->data, sizeof before);
    attn_judge_outputs(j, &coarse, false, &v);
    assert_int_equal(v.status, ATTN_PASS);
    choose_another(in, before);
    attn_judge_outputs(j, &coarse, false, &v);
    assert_int_equal(v.status, ATTN_PASS);
    memcpy(out->data, before, sizeof before); /* what followed from the other bucket */
    attn_judge_outputs(j, &coarse, false, &v);
    assert_int_equal(v.status, ATTN_FAIL);
    assert_false(v.ok & 1u << 0);
    assert_true(v.ok & 1u << 2);
    answer_hashes(in, false);
    ((int32_t *)buckets->data)[134] = 4;
    attn_judge_outputs(j, &coarse, false, &v);
    assert_int_equal(v.status, ATTN_FAIL);
    assert_true(v.ok & 1u << 0);
    assert_false(v.ok & 1u << 2);
    assert_string_equal(v.worst, "buckets_out[b0 h0 c1 i6]");
    attn_judge_free(j);
    attn_instance_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_the_rounded_reference),
        cmocka_unit_test(states_the_probability_of_its_bounds),
        cmocka_unit_test(names_the_one_wrong_element),
        cmocka_unit_test(follows_the_choice_of_a_backend),
        cmocka_unit_test(judges_lse_too),
        cmocka_unit_test(refuses_what_is_not_finite),
        cmocka_unit_test(takes_an_infinity_within_the_bound),
        cmocka_unit_test(wants_nan_where_the_reference_is_nan),
        cmocka_unit_test(takes_nan_for_an_infinity_that_underflows),
        cmocka_unit_test(mistrusts_a_bound_that_proves_nothing),
        cmocka_unit_test(trusts_an_answer_that_is_exact),
        cmocka_unit_test(knows_nothing_beyond_the_range_of_f32),
        cmocka_unit_test(knows_nothing_of_sums_that_overflow),
        cmocka_unit_test(samples_rows_within_the_budget),
        cmocka_unit_test(samples_every_tile_of_every_head),
        cmocka_unit_test(samples_global_rows),
        cmocka_unit_test(samples_few_heads_where_each_costs_much),
        cmocka_unit_test(samples_other_rows_with_another_seed),
        cmocka_unit_test(median_is_that_of_sorting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
