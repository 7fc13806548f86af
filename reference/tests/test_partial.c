/* SPDX-License-Identifier: Apache-2.0 */
/* test_partial.c - partial sums of q.k and p v in a narrow type: kernels that go to the edge of
 * what they declare are within the bound, and those that go beyond it are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "reference/reference.h"
#include "reference/tests/kernels.h"

#define KEYS    256
#define COLUMNS 64
#define F16_U   0x1p-11 /* beside 1, what is less than this is lost */

/* One row: all keys score their bias, or none has one. */
static void make_row(struct made *m, int64_t keys, int64_t columns, int features)
{
    made_create(m, &(struct made_spec){.score = ATTN_SCORE_DOT,
                                       .sq = 1,
                                       .sk = keys,
                                       .dk = columns,
                                       .dv = 1,
                                       .dtype = ATTN_F32,
                                       .features = features});
    for (int64_t c = 0; c < columns; c++)
        made_set(made_tensor(m, ATTN_Q), c, 0.0);
}

struct answer {
    double out, out_bound, lse, lse_bound;
};

static struct answer answer_of(const struct made *m, const struct attn_numerics *numerics)
{
    struct answer a;
    struct ref_result result = {.output[0].value = &a.out,
                                .output[0].bound = &a.out_bound,
                                .output[1].value = &a.lse,
                                .output[1].bound = &a.lse_bound};
    char why[256];

    if (ref_compute(&m->problem,
                    &(struct ref_request){.units = {{1, NULL}},
                                          .numerics = numerics,
                                          .fill = REF_FILL_STRUCTURED,
                                          .threads = 1},
                    &result, why, sizeof(why)) != ATTN_OK)
        fail_msg("%s", why);
    return a;
}

/* Errors over bounds of a kernel that sums up `terms` products at a time and declares `declared`.
 */
static void hold(struct made *m, uint32_t terms, uint32_t declared, double *out, double *lse)
{
    const struct kernel kernel = {
        .acc = ATTN_F32, .p_type = ATTN_F16, .partial = ATTN_F16, .terms = terms};
    struct attn_numerics numerics = kernel_numerics(&kernel);
    double got, got_lse, weights[KEYS];
    struct answer a;

    numerics.partial_terms = declared;
    a = answer_of(m, &numerics);
    kernel_run(&kernel, m, &got, &got_lse, weights);
    *out = fabs(got - a.out) / a.out_bound;
    *lse = fabs(got_lse - a.lse) / a.lse_bound;
}

/* A 1, then 63 numbers that a sum of 1 in f16 is too coarse for. */
static double stalls(int64_t at)
{
    return at % 64 == 0 ? 1.0 : 0.98 * F16_U;
}

/* A sum that stalls loses u a term: the bound knows how long it may. Declared as 16 terms, partial
 * sums of 64 are out, and a sum that is f16 from end to end is. */
static void values_may_stall_as_long_as_declared(void **state)
{
    struct made m;
    double out, lse;

    (void)state;
    make_row(&m, KEYS, 1, 0);
    for (int64_t j = 0; j < KEYS; j++)
        made_set(made_tensor(&m, ATTN_V), j, stalls(j));
    hold(&m, 16, 16, &out, &lse);
    assert_true(out <= 1.0 && out > 0.5);
    hold(&m, 64, 64, &out, &lse);
    assert_true(out <= 1.0 && out > 0.5);
    hold(&m, 64, 16, &out, &lse);
    assert_true(out > 3.0 && lse <= 1.0);
    hold(&m, KEYS, 16, &out, &lse);
    assert_true(out > 3.0);
    made_free(&m);
}

static void scores_may_stall_as_long_as_declared(void **state)
{
    struct made m;
    double out, lse;

    (void)state;
    make_row(&m, 1, COLUMNS, 0);
    for (int64_t c = 0; c < COLUMNS; c++) {
        made_set(made_tensor(&m, ATTN_Q), c, 1.0);
        made_set(made_tensor(&m, ATTN_K), c, stalls(c));
    }
    hold(&m, 16, 16, &out, &lse);
    assert_true(lse <= 1.0 && lse > 0.5);
    hold(&m, 32, 16, &out, &lse);
    assert_true(lse > 1.5);
    hold(&m, COLUMNS, 16, &out, &lse);
    assert_true(lse > 3.0);
    made_free(&m);
}

/* On random operands errors are far below their worst case, yet not below what f16 all along makes
 * of values that do not cancel. */
static void random_sums_in_f16_are_rejected(void **state)
{
    struct made m;
    double out, lse;

    (void)state;
    make_row(&m, KEYS, 1, 0);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t random = seed;
        for (int64_t j = 0; j < KEYS; j++) /* beside a sum of 256 half of each is lost */
            made_set(made_tensor(&m, ATTN_V), j, j < KEYS / 8 ? 8.0 : 0.05 * made_uniform(&random));
        hold(&m, 16, 16, &out, &lse);
        assert_true(out <= 1.0);
        hold(&m, KEYS, 16, &out, &lse);
        assert_true(out > 1.0);
    }
    made_free(&m);
}

/* What a kernel that loses every small product gives: within the bound, which is not wide. */
static void assert_lost(const struct made *m, struct attn_numerics numerics, bool score,
                        double times)
{
    numerics.acc_type = ATTN_F32;
    numerics.e_exp = 0x1p-23;
    numerics.partial_type = ATTN_F16;
    numerics.partial_terms = 16;
    struct answer a = answer_of(m, &numerics);
    double truth = fabs(score ? a.lse : a.out), bound = score ? a.lse_bound : a.out_bound;
    if (!(truth <= bound && truth * times >= bound))
        fail_msg("error %.3g, bound %.3g", truth, bound);
    numerics.partial_type = numerics.partial_terms = 0;
    a = answer_of(m, &numerics);
    assert_true(truth > (score ? a.lse_bound : a.out_bound));
}

/* 31 products p v of less than half the least subnormal of f16, or of a little less than it where
 * sums truncate. */
static void small_values_may_vanish(void **state)
{
    struct made m;

    (void)state;
    make_row(&m, 32, 1, MADE_BIAS);
    for (int truncates = 0; truncates < 2; truncates++) {
        for (int64_t j = 0; j < 32; j++) {
            made_set(made_tensor(&m, ATTN_BIAS), j, j == 0 ? 0.0 : truncates ? -0.01 : -0.7);
            made_set(made_tensor(&m, ATTN_V), j, j == 0 ? 0.0 : 0x1p-24);
        }
        assert_lost(&m, (struct attn_numerics){.acc_toward_zero = truncates != 0}, false, 1.1);
    }
    made_free(&m);
}

/* Dropout's factor may come after the sum, and magnify what that has lost. */
static void small_values_may_vanish_before_dropout(void **state)
{
    struct made m;

    (void)state;
    make_row(&m, 2, 1, MADE_BIAS | MADE_KEEP);
    m.problem.dropout_p = 0.99;
    for (int64_t j = 0; j < 2; j++) {
        made_set(made_tensor(&m, ATTN_KEEP), j, 1.0);
        made_set(made_tensor(&m, ATTN_BIAS), j, -0.7 * (double)j);
        made_set(made_tensor(&m, ATTN_V), j, (double)j * 0x1p-24);
    }
    assert_lost(&m, (struct attn_numerics){0}, false, 2.1);
    made_free(&m);
}

/* Where subnormals are flushed p itself is lost, whatever v is. */
static void subnormal_weights_may_be_flushed(void **state)
{
    struct made m;

    (void)state;
    make_row(&m, 2, 1, MADE_BIAS);
    for (int64_t j = 0; j < 2; j++) {
        made_set(made_tensor(&m, ATTN_BIAS), j, -9.8 * (double)j);
        made_set(made_tensor(&m, ATTN_V), j, 4.0 * (double)j);
    }
    assert_lost(&m, (struct attn_numerics){.ftz = 1}, false, 3.0);
    made_free(&m);
}

static void small_products_of_scores_may_vanish(void **state)
{
    struct made m;

    (void)state;
    make_row(&m, 1, COLUMNS, 0);
    for (int ftz = 0; ftz < 2; ftz++) {
        for (int64_t c = 0; c < COLUMNS; c++) {
            made_set(made_tensor(&m, ATTN_Q), c, ftz ? 0x1.ff8p-15 : 0x1p-12);
            made_set(made_tensor(&m, ATTN_K), c, ftz ? 4.0 : 0.98 * 0x1p-13);
        }
        assert_lost(&m, (struct attn_numerics){.ftz = ftz != 0}, true, ftz ? 2.0 : 1.3);
    }
    made_free(&m);
}

/* A partial sum reaches as many terms as it has: a sum of all keys is no matter. */
static void partial_sums_may_overflow(void **state)
{
    static const struct {
        uint32_t type, terms, normalised, tile;
        double v;
        bool known;
    } table[] = {
        {ATTN_F16, 2, 0, 1, 3e4, true},    {ATTN_F16, 3, 0, 1, 3e4, false},
        {ATTN_F16, 16, 0, 1, 2e4, true},   {ATTN_F16, 16, 1, 0, 6e4, true},
        {ATTN_F16, 1, 1, 0, 6.6e4, false}, {ATTN_BF16, 16, 0, 1, 6.6e4, true},
    };

    (void)state;
    for (size_t t = 0; t < sizeof(table) / sizeof(*table); t++) {
        struct made m;
        make_row(&m, 3, 1, 0);
        for (int64_t j = 0; j < 3; j++)
            made_set(made_tensor(&m, ATTN_V), j, table[t].v);
        struct answer a = answer_of(&m, &(struct attn_numerics){.acc_type = ATTN_F32,
                                                                .key_tile = table[t].tile,
                                                                .p_normalised = table[t].normalised,
                                                                .partial_type = table[t].type,
                                                                .partial_terms = table[t].terms});
        if (isfinite(a.out_bound) != table[t].known || !isfinite(a.lse_bound))
            fail_msg("row %zu of the table: bounds %g, %g", t, a.out_bound, a.lse_bound);
        made_free(&m);
    }
}

/* Of every kind of score that has a product of q and k, and of no other. */
static void partial_sums_towards_scores_may_overflow(void **state)
{
    static const struct {
        uint32_t score;
        double k;
        bool known;
    } table[] = {
        {ATTN_SCORE_DOT, 5e4, false},      {ATTN_SCORE_DOT, 4e4, true},
        {ATTN_SCORE_BILINEAR, 5e4, false}, {ATTN_SCORE_BILINEAR, 4e4, true},
        {ATTN_SCORE_GAUSSIAN, 300, false}, {ATTN_SCORE_GAUSSIAN, 100, true},
        {ATTN_SCORE_ADDITIVE, 5e4, true},
    };

    (void)state;
    for (size_t t = 0; t < sizeof(table) / sizeof(*table); t++) {
        struct made m;
        made_create(&m, &(struct made_spec){.score = table[t].score,
                                            .sk = 2,
                                            .dk = 1,
                                            .dtype = ATTN_F32,
                                            .features = MADE_SCALE,
                                            .scale = 1.0});
        for (uint32_t x = 0; x < m.problem.n_tensors; x++)
            for (int64_t c = 0; c < made_count(&m.tensors[x]); c++)
                made_set(&m.tensors[x], c, m.tensors[x].role == ATTN_K ? table[t].k : 1.0);
        struct answer a =
            answer_of(&m, &(struct attn_numerics){
                              .acc_type = ATTN_F32, .partial_type = ATTN_F16, .partial_terms = 16});
        if (isfinite(a.out_bound) != table[t].known || isfinite(a.lse_bound) != table[t].known)
            fail_msg("row %zu of the table: bounds %g, %g", t, a.out_bound, a.lse_bound);
        made_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_may_stall_as_long_as_declared),
        cmocka_unit_test(scores_may_stall_as_long_as_declared),
        cmocka_unit_test(random_sums_in_f16_are_rejected),
        cmocka_unit_test(small_values_may_vanish),
        cmocka_unit_test(small_values_may_vanish_before_dropout),
        cmocka_unit_test(subnormal_weights_may_be_flushed),
        cmocka_unit_test(small_products_of_scores_may_vanish),
        cmocka_unit_test(partial_sums_may_overflow),
        cmocka_unit_test(partial_sums_towards_scores_may_overflow),
    };

    return cmocka_run_group_tests_name("partial", tests, NULL, NULL);
}
