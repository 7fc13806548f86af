/* SPDX-License-Identifier: Apache-2.0 */
/* test_disentangled.c - scores with tables of positions: which rows they read, what they equal, and
 * how sharp their bound is. test_oracle.c compares them with MPFR, test_bound.c with kernels that
 * round every operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/tests/kernels.h"
#include "reference/tests/results.h"

static void set_all(struct made *m, uint32_t role, double value)
{
    struct attn_tensor *t = made_tensor(m, role);

    for (int64_t x = 0; x < made_count(t); x++)
        made_set(t, x, value);
}

/* One column of 1 in q and k, and table entries 1 + their row: a score tells the rows it read. */
static void mark_rows(struct made *m, double of_qr)
{
    const double factor[] = {1.0, of_qr};

    set_all(m, ATTN_Q, 1.0);
    set_all(m, ATTN_K, 1.0);
    for (uint32_t role = ATTN_SCORE_KR; role <= ATTN_SCORE_QR; role++) {
        struct attn_tensor *t = made_tensor(m, role);
        for (int64_t x = 0; x < made_count(t); x++)
            made_set(t, x, factor[role - ATTN_SCORE_KR] * (double)(1 + x % t->shape[1]));
    }
}

/* Rows read by query i and key j, as the definition has them. */
static int64_t row_of(int64_t far, int64_t span)
{
    const int64_t row = far + span;
    return row < 0 ? 0 : row > 2 * span - 1 ? 2 * span - 1 : row;
}

static void rows_are_those_of_the_distance(void **state)
{
    static const int64_t offs[] = {0, 4, -3};

    (void)state;
    for (int64_t variant = 0; variant < 2; variant++)
        for (int64_t parts = 0; parts < 3; parts++)
            for (size_t o = 0; o < 3; o++) {
                struct made m;
                struct results r;
                made_create(&m, &(struct made_spec){.score = ATTN_SCORE_DISENTANGLED,
                                                    .sq = 5,
                                                    .sk = 7,
                                                    .dk = 1,
                                                    .span = 3,
                                                    .off = offs[o],
                                                    .parts = parts,
                                                    .variant = variant,
                                                    .features = MADE_SCALE,
                                                    .scale = 1.0});
                mark_rows(&m, 100.0);
                results_compute(&m, NULL, &r);
                for (int64_t cell = 0; cell < 35; cell++) {
                    const int64_t far = cell / 7 + offs[o] - cell % 7;
                    const double kr = 1.0 + (double)row_of(far, 3);
                    const double qr = 100.0 * (1.0 + (double)row_of(variant ? -far : far, 3));
                    const double want = 1.0 + (parts != ATTN_PARTS_P2C ? kr : 0.0) +
                                        (parts != ATTN_PARTS_C2P ? qr : 0.0);
                    assert_true(r.scores[0][cell] == want);
                }
                made_free(&m);
            }
}

static void a_table_of_distances_decides(void **state)
{
    (void)state;
    for (int64_t variant = 0; variant < 2; variant++) {
        struct made m;
        struct results r;
        made_create(&m, &(struct made_spec){.score = ATTN_SCORE_DISENTANGLED,
                                            .sq = 4,
                                            .sk = 6,
                                            .dk = 1,
                                            .span = 5,
                                            .off = 2,
                                            .variant = variant,
                                            .features = MADE_SCALE | MADE_REL_POS,
                                            .scale = 1.0});
        mark_rows(&m, 100.0);
        made_set(made_tensor(&m, ATTN_REL_POS), 0, 0.0); /* of query 0 and the last key */
        results_compute(&m, NULL, &r);
        for (int64_t cell = 0; cell < 24; cell++) {
            const double d = made_get(made_tensor(&m, ATTN_REL_POS), cell / 6 - cell % 6 + 5);
            const double e = variant ? fmin(10.0 - d, 9.0) : d;
            assert_true(r.scores[0][cell] == 1.0 + (1.0 + d) + 100.0 * (1.0 + e));
        }
        made_free(&m);
    }
}

/* Zero tables leave scaled_dot, with the scale of three sums. */
static void zero_tables_leave_the_dot_product(void **state)
{
    struct made_spec spec = {.hq = 4,
                             .hkv = 2,
                             .sq = 6,
                             .sk = 9,
                             .dk = 5,
                             .span = 9,
                             .seed = 11,
                             .features = MADE_CAUSAL | MADE_BR | MADE_BIAS | MADE_SINK};
    struct results r, s;
    struct made m;

    (void)state;
    spec.score = ATTN_SCORE_DISENTANGLED;
    made_create(&m, &spec);
    set_all(&m, ATTN_SCORE_KR, 0.0);
    set_all(&m, ATTN_SCORE_QR, 0.0);
    results_compute(&m, NULL, &r);
    struct attn_tensor dot_tensors[32];
    struct attn_problem dot = m.problem;
    dot.n_tensors = 0;
    dot.tensors = dot_tensors;
    dot.score = ATTN_SCORE_SCALED_DOT;
    dot.scale = 1.0 / sqrt(3.0 * 5.0);
    for (uint32_t t = 0; t < m.problem.n_tensors; t++)
        if (m.tensors[t].role != ATTN_SCORE_KR && m.tensors[t].role != ATTN_SCORE_QR)
            dot_tensors[dot.n_tensors++] = m.tensors[t];
    struct made plain = {.problem = dot};
    memcpy(plain.tensors, dot_tensors, sizeof(dot_tensors));
    plain.problem.tensors = plain.tensors;
    results_compute(&plain, NULL, &s);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_OUT)); x++)
        assert_true(r.out[x] == s.out[x]);
    for (int64_t x = 0; x < 24; x++)
        assert_true(r.lse[x] == s.lse[x]);
    made_free(&m);
}

/* A row of the span is read by every distance beyond it: a table of span S - 1 is enough. */
static void a_wider_span_changes_nothing(void **state)
{
    struct made_spec spec = {.score = ATTN_SCORE_DISENTANGLED,
                             .hq = 2,
                             .sq = 6,
                             .dk = 4,
                             .span = 6,
                             .seed = 3,
                             .features = MADE_CAUSAL};
    struct results r, s;
    struct made near, wide;

    (void)state;
    made_create(&near, &spec);
    spec.span = 10;
    made_create(&wide, &spec);
    for (uint32_t role = ATTN_Q; role <= ATTN_V; role++)
        memcpy(made_tensor(&wide, role)->data, made_tensor(&near, role)->data,
               (size_t)made_count(made_tensor(&near, role)) * sizeof(double));
    for (uint32_t role = ATTN_SCORE_KR; role <= ATTN_SCORE_QR; role++)
        for (int64_t h = 0; h < 2; h++)
            for (int64_t x = 0; x < 12 * 4; x++)
                made_set(made_tensor(&wide, role), (h * 20 + 4) * 4 + x,
                         made_get(made_tensor(&near, role), h * 12 * 4 + x));
    results_compute(&near, NULL, &r);
    results_compute(&wide, NULL, &s);
    for (int64_t x = 0; x < made_count(made_tensor(&near, ATTN_OUT)); x++)
        assert_true(r.out[x] == s.out[x]);
    made_free(&near);
    made_free(&wide);
}

static void refuse(struct made *m)
{
    char why[256];
    assert_int_equal(ref_check_problem(&m->problem, why, sizeof(why)), ATTN_INVALID);
}

static void what_is_no_disentangled_score_is_refused(void **state)
{
    const struct made_spec spec = {
        .score = ATTN_SCORE_DISENTANGLED, .sq = 3, .sk = 4, .dk = 2, .features = MADE_REL_POS};
    struct made m;
    char why[256];

    (void)state;
    made_create(&m, &spec);
    assert_int_equal(ref_check_problem(&m.problem, why, sizeof(why)), ATTN_OK);
    m.problem.parts = 3;
    refuse(&m);
    m.problem.parts = 0;
    m.problem.variant = 2;
    refuse(&m);
    m.problem.variant = 0;
    made_set(made_tensor(&m, ATTN_REL_POS), 5, 6.0); /* the first beyond the table */
    refuse(&m);
    made_set(made_tensor(&m, ATTN_REL_POS), 5, -1.0);
    refuse(&m);
    made_set(made_tensor(&m, ATTN_REL_POS), 5, 5.0);
    made_tensor(&m, ATTN_REL_POS)->shape[0] = 5;
    refuse(&m);
    made_tensor(&m, ATTN_REL_POS)->shape[0] = 6;
    made_tensor(&m, ATTN_SCORE_QR)->shape[1] = 4;
    refuse(&m);
    made_tensor(&m, ATTN_SCORE_KR)->shape[1] = 4; /* alike again, but the table reads beyond */
    refuse(&m);
    made_tensor(&m, ATTN_SCORE_KR)->shape[1] = made_tensor(&m, ATTN_SCORE_QR)->shape[1] = 5;
    refuse(&m);
    made_tensor(&m, ATTN_SCORE_KR)->shape[1] = made_tensor(&m, ATTN_SCORE_QR)->shape[1] = 6;
    m.problem.score = ATTN_SCORE_SCALED_DOT;
    refuse(&m);
    made_free(&m);
    made_create(&m, &(struct made_spec){.sq = 3, .dk = 2});
    m.problem.score = ATTN_SCORE_DISENTANGLED;
    refuse(&m);
    made_free(&m);
}

/* ---- the bound ---- */

enum { SEEDS = 300 };

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The largest error over bound of out. */
static double ratio_of(const struct kernel *kernel, const struct made_spec *spec)
{
    static double got[3][RESULTS_CELLS];
    const struct attn_numerics numerics = kernel_numerics(kernel);
    double worst = 0.0;
    struct results r;
    struct made m;

    made_create(&m, spec);
    results_compute(&m, &numerics, &r);
    kernel_run(kernel, &m, got[0], got[1], got[2]);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_OUT)); x++)
        worst = fmax(worst, fabs(got[0][x] - r.out[x]) / r.out_bound[x]);
    made_free(&m);
    return worst;
}

static void the_bound_holds_and_is_sharp(void **state)
{
    static const struct {
        const char *name;
        struct kernel kernel;
        uint32_t dtype;
    } kinds[] = {
        {"f32", {.acc = ATTN_F32}, ATTN_F32},
        {"f16", {.acc = ATTN_F32, .tile = 8}, ATTN_F16},
        {"bf16", {.acc = ATTN_F32, .tile = 8}, ATTN_BF16},
        {"scores in bf16", {.acc = ATTN_F32, .score_type = ATTN_BF16}, ATTN_BF16},
        {"all in f16", {.acc = ATTN_F16}, ATTN_F16},
    };

    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        double ratios[SEEDS];
        for (uint64_t seed = 0; seed < SEEDS; seed++)
            ratios[seed] =
                ratio_of(&kinds[k].kernel, &(struct made_spec){.score = ATTN_SCORE_DISENTANGLED,
                                                               .dtype = kinds[k].dtype,
                                                               .hq = 2,
                                                               .sq = 3,
                                                               .sk = 1 + (int64_t)(seed * 7 % 40),
                                                               .dk = 1 + (int64_t)(seed * 5 % 24),
                                                               .dv = 4,
                                                               .span = 1 + (int64_t)(seed % 9),
                                                               .off = (int64_t)(seed % 5) - 2,
                                                               .parts = (int64_t)(seed % 3),
                                                               .variant = (int64_t)(seed / 3 % 2),
                                                               .seed = seed});
        qsort(ratios, SEEDS, sizeof(*ratios), ascending);
        print_message("%-15s ratio median %.4f, largest %.4f\n", kinds[k].name, ratios[SEEDS / 2],
                      ratios[SEEDS - 1]);
        assert_true(ratios[SEEDS - 1] <= 1.0);
        assert_true(ratios[SEEDS / 2] >= 0.01);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_distance),
        cmocka_unit_test(a_table_of_distances_decides),
        cmocka_unit_test(zero_tables_leave_the_dot_product),
        cmocka_unit_test(a_wider_span_changes_nothing),
        cmocka_unit_test(what_is_no_disentangled_score_is_refused),
        cmocka_unit_test(the_bound_holds_and_is_sharp),
    };

    return cmocka_run_group_tests_name("disentangled", tests, NULL, NULL);
}
