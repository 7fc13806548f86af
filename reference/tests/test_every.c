/* SPDX-License-Identifier: Apache-2.0 */
/* test_every.c - every row by sums over the keys, against the reference row by row. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reference/every.h"
#include "reference/tests/made.h"
#include "reference/tests/results.h"

enum { QUERIES = 5 };

/* What a visit compares with. */
struct expected {
    const struct attn_problem *problem;
    struct ref_result result;
    int64_t seen;
    double widest; /* bound over bound, the largest */
    double sum, count;
};

static double *doubles(int64_t count)
{
    double *array = calloc((size_t)count + 1, sizeof *array);
    assert_non_null(array);
    return array;
}

static void near(double a, double b)
{
    if (isnan(a) || isinf(a))
        assert_true(isnan(a) == isnan(b) && isinf(a) == isinf(b));
    else if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

/* Never below the bound of the row itself, apart from the last bits of the sums of p, which that
 * bound has in the logarithm of 1 + growth. */
static void wide(struct expected *x, double bound, double least)
{
    if (!(bound >= least * (1 - 1e-9) - 4e-15))
        fail_msg("the bound %.17g is below %.17g", bound, least);
    if (!(least > 0 && isfinite(least)))
        return;
    x->widest = fmax(x->widest, bound / least);
    x->sum += bound / least;
    x->count++;
}

static void visit(void *context, const struct ref_every_row *row)
{
    struct expected *x = context;
    const int64_t dv = x->problem->dv;
    const struct ref_values *out = &x->result.output[0];
    const struct ref_values lse = ref_values_of(x->problem, &x->result, ATTN_LSE);
    for (int64_t c = 0; c < dv; c++) {
        near(row->out[c], out->value[row->unit * dv + c]);
        wide(x, row->bound[c], out->bound[row->unit * dv + c]);
    }
    near(row->lse, lse.value[row->unit]);
    wide(x, row->lse_bound, lse.bound[row->unit]);
    x->seen++;
}

/* Signs for v, and few queries in turns that no tile has. */
static void make_few(struct made *m)
{
    struct attn_tensor *q = made_tensor(m, ATTN_Q), *v = made_tensor(m, ATTN_V);
    const int64_t dq = m->problem.dq, sq = m->problem.sq;
    uint64_t state = 7;
    for (int64_t x = 0; x < made_count(v); x++)
        made_set(v, x, made_uniform(&state) < 0.5 ? -1 : 1);
    for (int64_t row = 0; row < made_count(q) / dq; row++) {
        const int64_t first = row / sq * sq, n = row - first < QUERIES ? row - first : 0;
        const int64_t from = n ? row : first + (int64_t)(made_uniform(&state) * QUERIES) % sq;
        for (int64_t c = 0; c < dq; c++)
            made_set(q, row * dq + c, made_get(q, from * dq + c));
    }
}

/* The largest bound over that of the row itself; the mean must be close to 1. */
static double compare(const struct made_spec *spec, const struct attn_numerics *numerics)
{
    struct made m;
    char why[256] = "";
    made_create(&m, spec);
    make_few(&m);
    struct expected x = {.problem = &m.problem};
    struct ref_request request = {.numerics = numerics, .fill = REF_FILL_STRUCTURED, .threads = 2};
    const int64_t rows = ref_output_units(&m.problem, 0);
    ref_request_all(&m.problem, &request);
    for (int o = 0; o < 2; o++) {
        x.result.output[o].value = doubles(rows * ref_output_width(&m.problem, o));
        x.result.output[o].bound = doubles(rows * ref_output_width(&m.problem, o));
    }
    assert_int_equal(ref_compute(&m.problem, &request, &x.result, why, sizeof why), ATTN_OK);
    if (ref_every_row(&m.problem, &request, visit, &x, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
    assert_int_equal(x.seen, rows);
    for (int o = 0; o < 2; o++) {
        free(x.result.output[o].value);
        free(x.result.output[o].bound);
    }
    made_free(&m);
    assert_true(x.sum <= 1.5 * x.count);
    return x.widest;
}

static const struct attn_numerics styles[] = {
    {.acc_type = ATTN_F32, .e_exp = 2e-7, .e_log = 2e-7},
    {.acc_type = ATTN_F32, .key_tile = 8, .chain = 20, .e_exp = 2e-7, .e_arg = 1e-7, .tau = 8},
    {.acc_type = ATTN_F32, .splits = 4, .key_tile = 16, .e_exp = 2e-7, .e_log = 1e-7},
    {.acc_type = ATTN_F32, .p_type = ATTN_BF16, .denominator = 1, .e_exp = 2e-7},
    {.acc_type = ATTN_F32, .p_type = ATTN_BF16, .denominator = 2, .e_exp = 2e-7},
    {.acc_type = ATTN_F32, .p_type = ATTN_F16, .p_normalised = 1, .e_exp = 2e-7, .ftz = 1},
    {.acc_type = ATTN_F32, .score_type = ATTN_F16, .u_in = 0x1p-11, .e_exp = 2e-7},
    {.acc_type = ATTN_F32, .partial_type = ATTN_F16, .partial_terms = 16, .e_exp = 2e-7},
    {.acc_type = ATTN_F64},
};

static void test_rows(void **state)
{
    static const int features[] = {0,
                                   MADE_CAUSAL,
                                   MADE_CAUSAL | MADE_BR,
                                   MADE_WINDOW,
                                   MADE_CAUSAL | MADE_WINDOW | MADE_LEN,
                                   MADE_LEN2D,
                                   MADE_SINK | MADE_CAUSAL,
                                   MADE_SINK | MADE_WINDOW | MADE_LEN2D,
                                   MADE_SOFTCAP | MADE_CAUSAL,
                                   MADE_WINDOW | MADE_GLOBAL,
                                   MADE_WINDOW | MADE_GLOBAL | MADE_CAUSAL | MADE_LEN,
                                   MADE_WINDOW | MADE_DILATION | MADE_SINK,
                                   MADE_WINDOW | MADE_DILATION | MADE_GLOBAL | MADE_LEN};
    double widest = 0;
    (void)state;
    for (size_t n = 0; n < sizeof features / sizeof *features; n++)
        for (size_t s = 0; s < sizeof styles / sizeof *styles; s++)
            for (uint64_t seed = 1; seed < 4; seed++) {
                const struct made_spec spec = {.dtype = s == 8 ? ATTN_F64 : ATTN_F32,
                                               .features = features[n],
                                               .b = 2,
                                               .hq = 4,
                                               .hkv = 2,
                                               .sq = 37 + 13 * (int64_t)seed,
                                               .sk = (features[n] & MADE_GLOBAL ? 37 : 61) +
                                                     (features[n] & MADE_GLOBAL ? 13 : 40) *
                                                         (int64_t)seed,
                                               .dk = 8,
                                               .dv = 5,
                                               .spread = 1.5,
                                               .seed = seed};
                widest = fmax(widest, compare(&spec, &styles[s]));
            }
    print_message("bounds are up to %.2f times those of the rows alone\n", widest);
    assert_true(widest < 10);
}

static void test_scores(void **state)
{
    (void)state;
    for (uint32_t score = ATTN_SCORE_SCALED_DOT; score <= ATTN_SCORE_ADDITIVE; score++) {
        const struct made_spec spec = {.dtype = ATTN_F32,
                                       .score = score,
                                       .features = MADE_CAUSAL,
                                       .hq = 2,
                                       .sq = 40,
                                       .sk = 130,
                                       .dk = 6,
                                       .dv = 3,
                                       .seed = 5};
        assert_true(compare(&spec, &styles[0]) < 10);
    }
}

static void count_row(void *context, const struct ref_every_row *row)
{
    (void)row;
    ++*(int64_t *)context;
}

/* What is not of the kind is refused, and never answered wrongly. */
static void test_refused(void **state)
{
    static const int features[] = {MADE_MASK, MADE_BIAS, MADE_ALIBI, MADE_PHILOX,
                                   MADE_WINDOW | MADE_GLOBAL | MADE_PROJECTED};
    char why[256];
    int64_t visits = 0;
    struct made m;
    (void)state;
    for (size_t n = 0; n < sizeof features / sizeof *features; n++) {
        made_create(
            &m, &(struct made_spec){.features = features[n], .sq = 8, .sk = 8, .dk = 4, .seed = 1});
        assert_false(ref_every_fits(&m.problem, why, sizeof why));
        made_free(&m);
    }
    made_create(&m, &(struct made_spec){
                        .score = ATTN_SCORE_DISENTANGLED, .sq = 8, .sk = 8, .dk = 4, .seed = 1});
    assert_false(ref_every_fits(&m.problem, why, sizeof why));
    made_free(&m);
    const struct ref_request request = {.numerics = &styles[0]};
    made_create(&m, &(struct made_spec){.dtype = ATTN_F32, .sq = 80, .sk = 8, .dk = 4, .seed = 1});
    make_few(&m);
    made_set(made_tensor(&m, ATTN_V), 3, 0.5);
    assert_int_equal(ref_every_row(&m.problem, &request, count_row, &visits, why, sizeof why),
                     ATTN_UNSUPPORTED);
    assert_non_null(strstr(why, "1 or -1"));
    made_set(made_tensor(&m, ATTN_V), 3, 1);
    assert_int_equal(ref_every_row(&m.problem, &request, count_row, &visits, why, sizeof why),
                     ATTN_OK);
    assert_int_equal(visits, 80);
    for (int64_t row = 0; row < 80; row++)
        made_set(made_tensor(&m, ATTN_Q), 4 * row, (double)row);
    assert_int_equal(ref_every_row(&m.problem, &request, count_row, &visits, why, sizeof why),
                     ATTN_UNSUPPORTED);
    assert_non_null(strstr(why, "distinct queries"));
    made_set(made_tensor(&m, ATTN_K), 0, 1e6);
    made_free(&m);
    assert_int_equal(visits, 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
