/* SPDX-License-Identifier: Apache-2.0 */
/* test_diagnose.c - what adversarial fills find, and their words. The answer of a problem that
 * differs in one thing is put where a backend would write. */
#include "examined.h"

#include <math.h>

#define CENSUS "b=2 hq=4 hkv=2 s=40 d=16 fill=census mask=causal"

/* What is right passes, in every type: rounding must not look like a key. */
static void right_answers_pass(void **state)
{
    (void)state;
    static const char *const fills[] = {"census", "exact", "one_hot", "rounding",
                                        "rounding dropout=0.97"}; /* rows that lose all weights */
    static const char *const types[] = {"f32", "f16", "bf16", "f64"};
    for (int f = 0; f < 5; f++)
        for (int t = 0; t < 4; t++) {
            char line[128];
            snprintf(line, sizeof line, "b=2 hq=4 hkv=2 s=90 d=16 mask=causal fill=%s dtype=%s",
                     fills[f], types[t]);
            struct attn_instance *in = instance_of(line);
            answer(in, &in->problem, attn_dtype_store);
            struct attn_judgement v = judge(in);
            if (v.status != ATTN_PASS && v.status != ATTN_MISTRUSTED)
                fail_msg("%s: %s", line, v.reason);
        }
}

/* One key is lost or read in vain, in a type in which allclose(1e-2) would not notice. */
static void census_names_the_key(void **state)
{
    (void)state;
    static const char *const types[] = {"f32", "bf16"};
    for (int t = 0; t < 2; t++) {
        char line[128];
        snprintf(line, sizeof line, CENSUS " dtype=%s", types[t]);
        struct attn_instance *in = instance_of(line);
        struct attn_problem as = in->problem;
        as.off = -1;
        answer(in, &as, attn_dtype_store);
        expect(judge(in), "census: b0 h0 query 3 misses key 3 (and 319 more rows)");
        in = instance_of(line);
        as = in->problem;
        as.off = 1;
        answer(in, &as, attn_dtype_store);
        expect(judge(in),
               "census: b0 h0 query 3 reads key 4, which it must not see (and 311 more rows)");
    }
}

/* The problem without the tensor of a role. */
static struct attn_problem without(const struct attn_instance *in, uint32_t role,
                                   struct attn_tensor tensors[ATTN_MAX_TENSORS])
{
    struct attn_problem as = in->problem;
    as.n_tensors = 0;
    as.tensors = tensors;
    for (uint32_t t = 0; t < in->problem.n_tensors; t++)
        if (in->tensors[t].role != role)
            tensors[as.n_tensors++] = in->tensors[t];
    return as;
}

/* Rows with global tokens and steps are counted by their own keys and values. */
static void census_counts_global_tokens(void **state)
{
    (void)state;
    static const char line[] =
        "b=2 h=2 s=40 d=16 fill=census mask=window:3:3+global:1 global_proj=1";
    struct attn_tensor tensors[ATTN_MAX_TENSORS];
    struct attn_instance *in = instance_of(line);
    answer(in, &in->problem, attn_dtype_store);
    assert_int_equal(judge(in).status, ATTN_PASS);
    in = instance_of("b=2 h=2 s=40 d=16 fill=census mask=window:3:3+global:1");
    struct attn_problem as = without(in, ATTN_GLOBAL, tensors);
    answer(in, &as, attn_dtype_store);
    expect(judge(in), "census: b0 h0 query 0 misses its keys from 4 on (and 147 more rows)");
    in = instance_of("b=2 h=2 s=40 d=16 fill=census mask=window:3:3:1/2");
    as = without(in, ATTN_DILATION, tensors);
    answer(in, &as, attn_dtype_store);
    expect(judge(in), "census: b0 h1 query");
}

/* Keys are counted wherever the sums as declared hold whole numbers. */
static void census_counts_what_sums_can_hold(void **state)
{
    (void)state;
    static const struct {
        struct attn_numerics numerics;
        bool counts;
    } table[] = {
        {{.acc_type = ATTN_F32, .partial_type = ATTN_F16, .partial_terms = 256}, true},
        {{.acc_type = ATTN_F32, .partial_type = ATTN_F16, .partial_terms = 257}, false},
        {{.acc_type = ATTN_F32, .p_normalised = 1, .partial_type = ATTN_F16, .partial_terms = 16},
         false},
        {{.acc_type = ATTN_F64, .partial_type = ATTN_F32, .partial_terms = 1 << 20}, true},
        {{.acc_type = ATTN_F16}, false},
    };
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        struct attn_instance *in = instance_of(CENSUS);
        struct attn_problem as = in->problem;
        as.off = -1;
        answer(in, &as, attn_dtype_store);
        const struct attn_judgement v = judge_declared(in, table[t].numerics);
        if ((strncmp(v.reason, "census: b0 h0 query 3 misses", 28) == 0) != table[t].counts)
            fail_msg("row %zu of the table: \"%s\"", t, v.reason);
    }
}

/* Through W_o, with pruned heads and a residual, every row of every head is counted. */
static void census_counts_projected_heads(void **state)
{
    (void)state;
    static const struct {
        const char *line, *words;
    } table[] = {
        {"op=mha b=2 hq=4 hkv=2 s=40 d=16 fill=census mask=causal",
         "census: b0 h0 query 3 misses key 3 (and 319 more rows)"},
        {"op=mha b=2 hq=4 hkv=2 s=40 d=16 fill=census mask=causal dtype=bf16",
         "census: b0 h0 query 3 misses key 3 (and 319 more rows)"},
        {"op=mha b=2 hq=4 hkv=2 s=40 d=16 fill=census mask=causal residual=1 prune=0",
         "census: b0 h1 query 3 misses key 3 (and 239 more rows)"},
        {"op=mha b=2 hq=4 hkv=2 s=40 d=16 fill=census mask=causal wo=0 e=40",
         "census: b0 h0 query 3 misses key 3 (and 319 more rows)"},
    };
    for (size_t t = 0; t < 2 * sizeof table / sizeof *table; t++) {
        struct attn_instance *in = instance_of(table[t / 2].line);
        struct attn_problem as = in->problem;
        as.off = t % 2 ? -1 : 0;
        answer(in, &as, attn_dtype_store);
        const struct attn_judgement v = judge(in);
        assert_int_equal(v.rows_counted, 80);
        if (t % 2)
            expect(v, table[t / 2].words);
        else if (v.status != ATTN_PASS && v.status != ATTN_MISTRUSTED)
            fail_msg("%s: %s", table[t / 2].line, v.reason);
    }
}

/* The bits of fill=exact survive projections, and a last bit that is wrong shows in any head. */
static void exact_reads_projected_heads(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        struct attn_instance *in =
            instance_of("op=mha b=2 hq=4 hkv=2 s=32 d=16 fill=exact prune=2");
        answer(in, &in->problem, attn_dtype_store);
        const struct attn_tensor *out = attn_tensor_find(&in->problem, ATTN_OUT);
        float *element = (float *)out->data + out->stride[0] + 7 * out->stride[1];
        while (*element == 0)
            element++;
        *element = wrong ? nextafterf(*element, 100) : *element;
        const struct attn_judgement v = judge(in);
        if (wrong)
            expect(v, "exact: out[b1 h");
        else
            assert_int_equal(v.status, ATTN_PASS);
    }
}

static void census_names_what_is_lost(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("b=2 h=2 sq=9 sk=40 d=16 fill=census");
    struct attn_problem as = in->problem;
    as.flags |= ATTN_FLAG_WINDOW;
    as.window_left = -1;
    as.window_right = 30;
    answer(in, &as, attn_dtype_store);
    expect(judge(in), "census: b0 h0 query 0 misses its keys from 31 on");

    in = instance_of("b=2 h=2 sq=9 sk=40 d=16 fill=census");
    as = in->problem;
    as.flags |= ATTN_FLAG_WINDOW;
    as.off = 20;
    as.window_left = 9;
    as.window_right = -1;
    answer(in, &as, attn_dtype_store);
    expect(judge(in), "census: b0 h0 query 0 misses its keys up to 10");

    in = instance_of("b=1 h=2 sq=40 sk=64 d=16 fill=census mask=len:17");
    as = in->problem;
    struct attn_tensor without[ATTN_MAX_TENSORS];
    as.n_tensors = 0;
    for (uint32_t t = 0; t < in->problem.n_tensors; t++)
        if (in->tensors[t].role != ATTN_LEN)
            without[as.n_tensors++] = in->tensors[t];
    as.tensors = without;
    answer(in, &as, attn_dtype_store);
    expect(judge(in), "census: b0 h0 query 0 reads all 64 keys instead of its 17");
}

/* What is lost in whole pairs of keys leaves every sum of a pair as it is. */
static void census_sees_lost_pairs(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int64_t begin, size;
        const char *words;
    } cases[] = {
        {"b=2 h=2 s=64 d=16 fill=census", 16, 16,
         "census: b0 h0 query 0 misses its keys from 16 to 31"},
        {"s=200 d=64 fill=census", 4, 2, "census: b0 h0 query 0 misses its keys from 4 to 5"},
        {"s=2048 d=64 fill=census dtype=bf16", 512, 128,
         "census: b0 h0 query 0 misses its keys from 512 to 639"},
        {"s=41 d=32 fill=census", 40, 1, "census: b0 h0 query 0 misses key 40"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct attn_instance *in = instance_of(cases[c].line);
        struct attn_problem as = in->problem;
        struct attn_tensor tensors[ATTN_MAX_TENSORS];
        uint8_t *mask = test_calloc((size_t)as.sk, 1);
        for (int64_t j = 0; j < as.sk; j++)
            mask[j] = j < cases[c].begin || j >= cases[c].begin + cases[c].size;
        memcpy(tensors, in->tensors, sizeof tensors);
        tensors[as.n_tensors++] = (struct attn_tensor){.role = ATTN_MASK,
                                                       .dtype = ATTN_BOOL,
                                                       .rank = 4,
                                                       .shape = {as.b, as.hq, as.sq, as.sk},
                                                       .stride = {0, 0, 0, 1},
                                                       .data = mask};
        as.tensors = tensors;
        answer(in, &as, attn_dtype_store);
        test_free(mask);
        expect(judge(in), cases[c].words);
    }
}

static void census_names_the_head(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of(CENSUS);
    struct attn_tensor tensors[ATTN_MAX_TENSORS];
    struct attn_problem as = in->problem;
    memcpy(tensors, in->tensors, sizeof tensors);
    as.tensors = tensors;
    for (uint32_t t = 0; t < as.n_tensors; t++)
        if (tensors[t].role == ATTN_V) { /* both heads of a batch read the last one */
            tensors[t].data = (float *)tensors[t].data + tensors[t].stride[1];
            tensors[t].stride[1] = 0;
        }
    answer(in, &as, attn_dtype_store);
    expect(judge(in),
           "census: b0 h0 query 3 reads batch 0, head 1 of v instead of batch 0, head 0 (and ");
}

/* What a causal row of dense f32 gives when it reads keys 0 .. its own, except one. */
static void causal_mean(const struct attn_instance *in, int64_t query, int64_t without)
{
    const struct attn_problem *p = &in->problem;
    const float *v = attn_tensor_find(p, ATTN_V)->data;
    float *out = attn_tensor_find(p, ATTN_OUT)->data;
    const double keys = (double)(query + 1 - (without >= 0));
    for (int64_t c = 0; c < p->dv; c++) {
        double sum = 0;
        for (int64_t j = 0; j <= query; j++)
            sum += j == without ? 0 : v[j * p->dv + c];
        out[query * p->dv + c] = (float)(sum / keys);
    }
}

/* A key in the middle of many, in a row that the verdict does not sample. */
static void census_counts_every_row_of_32k(void **state)
{
    (void)state;
    for (int planted = 0; planted < 2; planted++) {
        struct attn_instance *in = instance_of("s=32768 d=24 fill=census mask=causal");
        const int64_t dv = in->problem.dv;
        const float *v = tensor(in, ATTN_V)->data;
        float *out = tensor(in, ATTN_OUT)->data;
        double sum[24] = {0};
        for (int64_t i = 0; i < in->problem.sq; i++)
            for (int64_t c = 0; c < dv; c++) {
                sum[c] += v[i * dv + c];
                out[i * dv + c] = (float)(sum[c] / (double)(i + 1));
            }
        if (planted)
            causal_mean(in, 20011, 9999);
        struct attn_judgement verdict = judge(in);
        assert_true(verdict.rows_checked < verdict.rows_total);
        assert_int_equal(verdict.rows_counted, verdict.rows_total);
        assert_int_equal(verdict.rows_total, 32768);
        if (planted)
            expect(verdict, "census: b0 h0 query 20011 misses key 9999");
        else
            assert_int_equal(verdict.status, ATTN_PASS);
    }
}

/* Keys that a boolean mask picks are counted as well: one byte of it is misread. */
static void census_counts_masked_rows(void **state)
{
    (void)state;
    for (int planted = 0; planted < 2; planted++) {
        struct attn_instance *in =
            instance_of("b=2 hq=4 hkv=2 sq=150 sk=200 d=16 fill=census mask=bool:0.5+window:90:40");
        const struct attn_tensor *mask = tensor(in, ATTN_MASK);
        uint8_t *byte = (uint8_t *)mask->data + 77 * mask->stride[2] + 60 * mask->stride[3];
        const uint8_t right = *byte;
        *byte = planted ? right == 0 : right;
        answer(in, &in->problem, attn_dtype_store);
        *byte = right;
        struct attn_judgement verdict = judge(in);
        assert_int_equal(verdict.rows_counted, 2 * 4 * 150);
        if (planted)
            expect(verdict, right ? "census: b0 h0 query 77 misses key 60"
                                  : "census: b0 h0 query 77 reads key 60, which it must not see");
        else
            assert_int_equal(verdict.status, ATTN_PASS);
    }
}

static void one_hot_names_the_key_read(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("b=2 h=2 s=20 d=8 fill=one_hot");
    struct attn_problem as = in->problem;
    answer(in, &as, attn_dtype_store);
    float *out = tensor(in, ATTN_OUT)->data;
    const float *v = tensor(in, ATTN_V)->data;
    memcpy(out, v + (3 * 20 + 7) * 8, 8 * sizeof *out); /* batch 1, head 1, key 7 */
    struct attn_judgement verdict = judge(in);
    expect(verdict, "one_hot: b0 h0 query 0 reads key 7 of batch 1, head 1 instead of key ");
    assert_non_null(strstr(verdict.reason, " of batch 0, head 0; out[b0 h0 i0 c"));
}

static void exact_sees_the_last_bit(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("h=2 s=32 d=8 fill=exact");
    answer(in, &in->problem, attn_dtype_store);
    float *out = tensor(in, ATTN_OUT)->data;
    out[3] = nextafterf(out[3], 100.0f);
    expect(judge(in), "exact: out[b0 h0 i0 c3] is ");
}

static void store_truncated(uint32_t dtype, void *base, int64_t index, double value)
{
    attn_dtype_store(dtype, base, index, value);
    const double stored = attn_dtype_load(dtype, base, index);
    if (fabs(stored) > fabs(value))
        attn_dtype_store(dtype, base, index,
                         stored - copysign(attn_dtype_ulp(dtype, fabs(value)), stored));
}

/* Half an ulp lies within every bound; its mean does not. */
static void rounding_sees_truncation(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("h=4 s=48 d=16 fill=rounding dtype=bf16");
    answer(in, &in->problem, store_truncated);
    struct attn_judgement v = judge(in);
    assert_int_equal(v.status, ATTN_FAIL);
    assert_non_null(strstr(v.reason, "rounding: over 192 rows the mean signed error is -"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_answers_pass),
        cmocka_unit_test(census_names_the_key),
        cmocka_unit_test(census_counts_global_tokens),
        cmocka_unit_test(census_counts_what_sums_can_hold),
        cmocka_unit_test(census_counts_projected_heads),
        cmocka_unit_test(exact_reads_projected_heads),
        cmocka_unit_test(census_names_what_is_lost),
        cmocka_unit_test(census_sees_lost_pairs),
        cmocka_unit_test(census_names_the_head),
        cmocka_unit_test(census_counts_every_row_of_32k),
        cmocka_unit_test(census_counts_masked_rows),
        cmocka_unit_test(one_hot_names_the_key_read),
        cmocka_unit_test(exact_sees_the_last_bit),
        cmocka_unit_test(rounding_sees_truncation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
