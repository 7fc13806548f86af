/* SPDX-License-Identifier: Apache-2.0 */
/* test_nystrom.c - nystrom by its formula, by known values and as attention; and its stochastic
 * bound held against kernels that round every operation, right and wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/tests/sequence.h"

enum { HEADS = 2, MOST = 128, LANDMARKS = 64, DK = 6, DV = 5, ROWS = HEADS * MOST };

/* A problem in double, its copy in f32, and what the reference says of it. */
static struct made {
    int64_t steps, m, iterations, variant;
    double q[ROWS * DK], k[ROWS * DK], v[ROWS * DV];
    float floats[ROWS * (2 * DK + DV)];
    struct sequence sequence;
    double out[ROWS * DV], bound[ROWS * DV];
} made;

static void build(uint32_t dtype)
{
    struct attn_problem *p = &made.sequence.problem;
    const int64_t keys[] = {1, HEADS, made.steps, DK}, values[] = {1, HEADS, made.steps, DV};
    sequence_begin(&made.sequence, ATTN_OP_NYSTROM, dtype, made.steps, DK, DV, made.floats);
    p->hq = p->hkv = HEADS;
    p->scale = 0.5;
    p->landmarks = made.m;
    p->iterations = made.iterations;
    p->variant = made.variant;
    sequence_add(&made.sequence, ATTN_Q, made.q, keys, 4);
    sequence_add(&made.sequence, ATTN_K, made.k, keys, 4);
    sequence_add(&made.sequence, ATTN_V, made.v, values, 4);
    sequence_ask(&made.sequence, ATTN_OUT, values, 4);
}

static void draw(int64_t steps, int64_t m, uint64_t seed)
{
    made.steps = steps;
    made.m = m;
    made.iterations = 6;
    made.variant = (int64_t)(seed % 2);
    for (int64_t n = 0; n < HEADS * steps * DK; n++) {
        made.q[n] = sequence_normal(5 * seed, (uint64_t)n);
        made.k[n] = sequence_normal(5 * seed + 1, (uint64_t)n);
    }
    for (int64_t n = 0; n < HEADS * steps * DV; n++)
        made.v[n] = sequence_normal(5 * seed + 2, (uint64_t)n);
}

static void compute(const struct attn_numerics *numerics, enum ref_fill_kind fill, double *implied)
{
    struct ref_result result = {.output = {{made.out, made.bound}}, .implied = implied};
    sequence_compute(&made.sequence, numerics, fill, &result);
}

/* ---- a kernel that rounds every operation to `type`, and what may be wrong with it ---- */

enum order { F_Z_GV, FZ_GV, F_ZG_V };

static uint32_t type;
static enum order order;
static int64_t shifted; /* segments begin that many tokens late */
static bool other_start;

static double rounded(double x)
{
    return sequence_rounded(type, x);
}

static void multiply(const double *x, const double *w, int64_t rows, int64_t inner, int64_t width,
                     double *y)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < width; c++) {
            double sum = 0;
            for (int64_t j = 0; j < inner; j++)
                sum = rounded(sum + rounded(x[i * inner + j] * w[j * width + c]));
            y[i * width + c] = sum;
        }
}

static void average(const double *x, double *mean)
{
    for (int64_t l = 0; l < made.m; l++) {
        const int64_t begin = l * made.steps / made.m, end = (l + 1) * made.steps / made.m;
        for (int64_t c = 0; c < DK; c++) {
            double sum = 0;
            for (int64_t i = begin; i < end; i++)
                sum = rounded(sum + x[(i + shifted) % made.steps * DK + c]);
            mean[l * DK + c] = rounded(sum / (double)(end - begin));
        }
    }
}

/* Weights of `rows` queries over n keys. */
static void weigh(const double *q, const double *k, int64_t rows, int64_t n, double *p)
{
    for (int64_t i = 0; i < rows; i++, p += n) {
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; j++) {
            double s = 0;
            for (int64_t c = 0; c < DK; c++)
                s = rounded(s + rounded(q[i * DK + c] * k[j * DK + c]));
            p[j] = rounded(0.5 * s);
            most = fmax(most, p[j]);
        }
        for (int64_t j = 0; j < n; j++) {
            p[j] = rounded(exp(rounded(p[j] - most)));
            sum = rounded(sum + p[j]);
        }
        for (int64_t j = 0; j < n; j++)
            p[j] = rounded(p[j] / sum);
    }
}

static struct {
    double ql[LANDMARKS * DK], kl[LANDMARKS * DK], a[HEADS][LANDMARKS * LANDMARKS];
    double z[LANDMARKS * LANDMARKS], x[LANDMARKS * LANDMARKS], y[LANDMARKS * LANDMARKS];
    double t[LANDMARKS * LANDMARKS], f[MOST * LANDMARKS], g[LANDMARKS * MOST], gv[LANDMARKS * DV];
    double zgv[LANDMARKS * DV], fz[MOST * LANDMARKS], zg[LANDMARKS * MOST];
} room;

static double column(const double *a)
{
    double most = 0;
    for (int64_t j = 0; j < made.m; j++) {
        double sum = 0;
        for (int64_t i = 0; i < made.m; i++)
            sum = rounded(sum + a[i * made.m + j]);
        most = fmax(most, sum);
    }
    return most;
}

static void complement(double c, const double *x)
{
    for (int64_t n = 0; n < made.m * made.m; n++)
        room.t[n] = rounded((n / made.m == n % made.m ? c : 0) - x[n]);
}

static void invert(const double *a, double norm)
{
    const int64_t m = made.m;
    for (int64_t n = 0; n < m * m; n++)
        room.z[n] = rounded(a[n % m * m + n / m] / norm);
    for (int64_t n = 0; n < made.iterations; n++) {
        multiply(a, room.z, m, m, m, room.x);
        complement(7, room.x);
        multiply(room.x, room.t, m, m, m, room.y);
        complement(15, room.y);
        multiply(room.x, room.t, m, m, m, room.y);
        complement(13, room.y);
        multiply(room.z, room.t, m, m, m, room.y);
        for (int64_t e = 0; e < m * m; e++)
            room.z[e] = room.y[e] / 4;
    }
}

static void finish(int64_t h, double *out)
{
    const int64_t s = made.steps, m = made.m;
    const double *q = made.q + h * s * DK, *k = made.k + h * s * DK, *v = made.v + h * s * DV;
    average(q, room.ql);
    average(k, room.kl);
    weigh(q, room.kl, s, m, room.f);
    weigh(room.ql, k, m, s, room.g);
    multiply(room.g, v, m, s, DV, room.gv);
    if (order == FZ_GV) {
        multiply(room.f, room.z, s, m, m, room.fz);
        multiply(room.fz, room.gv, s, m, DV, out);
        return;
    }
    if (order == F_Z_GV) {
        multiply(room.z, room.gv, m, m, DV, room.zgv);
    } else {
        multiply(room.z, room.g, m, m, s, room.zg);
        multiply(room.zg, v, m, s, DV, room.zgv);
    }
    multiply(room.f, room.zgv, s, m, DV, out);
}

static void kernel(uint32_t in, double *out)
{
    double norm[HEADS], most = 0;
    type = in;
    for (int64_t h = 0; h < HEADS; h++) {
        average(made.q + h * made.steps * DK, room.ql);
        average(made.k + h * made.steps * DK, room.kl);
        weigh(room.ql, room.kl, made.m, made.m, room.a[h]);
        norm[h] = column(room.a[h]);
        most = fmax(most, norm[h]);
    }
    for (int64_t h = 0; h < HEADS; h++) {
        const bool all = (made.variant == ATTN_NYSTROM_BATCH) != other_start;
        invert(room.a[h], all ? most : norm[h]);
        finish(h, out + h * made.steps * DV);
    }
}

static void the_formula_agrees(void **unused)
{
    static double out[ROWS * DV];
    (void)unused;
    for (uint64_t seed = 0; seed < 8; seed++) {
        draw(seed < 4 ? 60 : 67, seed < 6 ? 12 : 80, seed);
        made.m = made.m < LANDMARKS ? made.m : LANDMARKS;
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC, NULL);
        kernel(ATTN_F64, out);
        for (int64_t n = 0; n < HEADS * made.steps * DV; n++)
            sequence_near(made.out[n], out[n], seed < 6 ? 1e-9 : 1e-6);
    }
}

/* One landmark: F, A and Z are 1, and every row is that of the mean query. */
static void one_landmark_is_the_mean_query(void **unused)
{
    double score[20], sum = 0, out = 0;
    (void)unused;
    draw(20, 1, 2);
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC, NULL);
    for (int64_t j = 0; j < 20; j++) {
        score[j] = 0;
        for (int64_t c = 0; c < DK; c++) {
            double mean = 0;
            for (int64_t i = 0; i < 20; i++)
                mean += made.q[i * DK + c] / 20;
            score[j] += 0.5 * mean * made.k[j * DK + c];
        }
        sum += exp(score[j]);
        out += exp(score[j]) * made.v[j * DV];
    }
    for (int64_t i = 0; i < 20; i++)
        sequence_near(made.out[i * DV], out / sum, 1e-14);
}

/* m = S: F = A = G is the matrix of attention, and out is off by what A Z A - A makes of v. More
 * landmarks than tokens are as many as tokens. */
static void every_token_a_landmark_is_attention(void **unused)
{
    static double implied[ROWS * 40], out[ROWS * DV];
    (void)unused;
    draw(40, 50, 2);
    for (int64_t n = 0; n < HEADS * 40 * DK; n++)
        made.q[n] = made.k[n] *= 3; /* near the identity, so that the inverse is found */
    made.iterations = 30;
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC, implied);
    memcpy(out, made.out, sizeof out);
    made.sequence.problem.op = ATTN_OP_ATTENTION;
    compute(NULL, REF_FILL_GENERIC, NULL);
    for (int64_t n = 0; n < HEADS * 40 * DV; n++)
        sequence_near(out[n], made.out[n], 1e-9);
}

static void implied_weights_make_out(void **unused)
{
    static double implied[ROWS * 60];
    (void)unused;
    draw(60, 9, 1);
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC, implied);
    for (int64_t row = 0; row < HEADS * 60; row++)
        for (int64_t d = 0; d < DV; d++) {
            double sum = 0;
            for (int64_t j = 0; j < 60; j++)
                sum += implied[row * 60 + j] * made.v[(row / 60 * 60 + j) * DV + d];
            sequence_near(sum, made.out[row * DV + d], 1e-9);
        }
}

static void nan_spreads_over_its_head(void **unused)
{
    (void)unused;
    draw(50, 5, 2); /* each head its own start */
    made.k[7 * DK] = NAN;
    build(ATTN_F64);
    compute(&sequence_f32, REF_FILL_STRUCTURED, NULL);
    for (int64_t row = 0; row < HEADS * 50; row++)
        assert_true(isnan(made.out[row * DV]) == (row < 50));
}

/* Neither other rows nor threads have an effect on a row and its bound. */
static void a_sample_is_part_of_the_whole(void **unused)
{
    static const int64_t rows[] = {0, 3, 49, 61, HEADS * 50 - 1};
    enum { COUNT = sizeof rows / sizeof rows[0] };
    double out[COUNT * DV], bound[COUNT * DV];
    char why[256] = "";
    (void)unused;
    draw(50, 7, 3);
    build(ATTN_F32);
    compute(&sequence_f32, REF_FILL_STRUCTURED, NULL);
    for (int threads = 1; threads < 20; threads += 6) {
        struct ref_request request = {.units = {{COUNT, rows}},
                                      .numerics = &sequence_f32,
                                      .fill = REF_FILL_STRUCTURED,
                                      .threads = threads};
        struct ref_result result = {.output = {{out, bound}}};
        assert_int_equal(ref_compute(&made.sequence.problem, &request, &result, why, sizeof why),
                         ATTN_OK);
        for (int64_t n = 0; n < COUNT * DV; n++) {
            assert_true(out[n] == made.out[rows[n / DV] * DV + n % DV]);
            assert_true(bound[n] == made.bound[rows[n / DV] * DV + n % DV]);
        }
    }
}

static void what_is_unknown_is_refused(void **unused)
{
    char why[256];
    (void)unused;
    draw(6, 2, 0);
    build(ATTN_F64);
    made.sequence.problem.landmarks = 0;
    assert_int_equal(ref_check_problem(&made.sequence.problem, why, sizeof why), ATTN_INVALID);
    made.sequence.problem.landmarks = 2;
    made.sequence.problem.variant = 2;
    assert_int_equal(ref_check_problem(&made.sequence.problem, why, sizeof why), ATTN_INVALID);
    made.sequence.problem.variant = 1;
    assert_int_equal(ref_check_problem(&made.sequence.problem, why, sizeof why), ATTN_OK);
}

/* ---- the bound ---- */

enum { SEEDS = 1000 };

static struct attn_numerics declared(uint32_t in)
{
    const double u = attn_dtype_roundoff(in);
    return (struct attn_numerics){.struct_size = sizeof(struct attn_numerics),
                                  .acc_type = in,
                                  .proj_type = in,
                                  .p_normalised = 1,
                                  .denominator = 1,
                                  .e_exp = 2 * u};
}

/* Ratios of all elements of the problem that is built, behind `ratio`. Returns how many. */
static size_t take_ratios(uint32_t in, double *ratio)
{
    static double out[ROWS * DV];
    const size_t count = (size_t)(HEADS * made.steps * DV);
    kernel(in, out);
    for (size_t n = 0; n < count; n++)
        ratio[n] = fabs(out[n] - made.out[n]) / made.bound[n];
    return count;
}

static void the_bound_holds_in(uint32_t in, enum order how, uint64_t seeds, enum ref_fill_kind fill)
{
    static double ratio[SEEDS * HEADS * MOST * DV];
    const struct attn_numerics numerics = declared(in);
    size_t count = 0;
    order = how;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        draw(seed % 50 ? 36 : MOST, seed % 50 ? 6 : 16, seed);
        for (int64_t n = 0; fill == REF_FILL_STRUCTURED && n < HEADS * made.steps * DK; n++)
            made.k[n] = made.q[n] = 0.1 * (double)(n % DK);
        build(ATTN_F32);
        compute(&numerics, fill, NULL);
        count += take_ratios(in, ratio + count);
    }
    order = F_Z_GV;
    sequence_sort(ratio, count);
    printf("%s, order %d, %s: error over bound at most %.3g, median %.3g\n", attn_dtype_name(in),
           how, fill == REF_FILL_GENERIC ? "drawn" : "keys alike", ratio[count - 1],
           ratio[count / 2]);
    assert_true(ratio[count - 1] < 0.5);
}

static void the_bound_holds(void **unused)
{
    (void)unused;
    the_bound_holds_in(ATTN_F32, F_Z_GV, SEEDS, REF_FILL_GENERIC);
    the_bound_holds_in(ATTN_F32, FZ_GV, 100, REF_FILL_GENERIC);
    the_bound_holds_in(ATTN_F32, F_ZG_V, 100, REF_FILL_GENERIC);
    the_bound_holds_in(ATTN_F32, F_Z_GV, 20, REF_FILL_STRUCTURED);
    the_bound_holds_in(ATTN_F16, F_Z_GV, 100, REF_FILL_GENERIC);
    the_bound_holds_in(ATTN_BF16, F_Z_GV, 100, REF_FILL_GENERIC);
}

/* The largest ratio of a wrong kernel, at least over the seeds. */
static double weakest(const char *what, void (*spoil)(bool on))
{
    static double ratio[ROWS * DV];
    const struct attn_numerics numerics = declared(ATTN_F32);
    double least = INFINITY;
    for (uint64_t seed = 0; seed < 40; seed++) {
        double most = 0;
        draw(96, 12, seed);
        build(ATTN_F32);
        compute(&numerics, REF_FILL_GENERIC, NULL);
        spoil(true);
        const size_t count = take_ratios(ATTN_F32, ratio);
        spoil(false);
        for (size_t n = 0; n < count; n++)
            most = fmax(most, ratio[n]);
        least = fmin(least, most);
    }
    printf("%s: largest error over bound, the least of 40 seeds: %.3g\n", what, least);
    return least;
}

static void iterate_less(bool on)
{
    made.iterations += on ? -1 : 1;
}

static void shift_segments(bool on)
{
    shifted = on;
}

static void start_otherwise(bool on)
{
    other_start = on;
}

static void mistakes_are_far_outside(void **unused)
{
    (void)unused;
    assert_true(weakest("five iterations", iterate_less) > 10);
    assert_true(weakest("segments shifted by one", shift_segments) > 10);
    assert_true(weakest("the other start", start_otherwise) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formula_agrees),
        cmocka_unit_test(one_landmark_is_the_mean_query),
        cmocka_unit_test(every_token_a_landmark_is_attention),
        cmocka_unit_test(implied_weights_make_out),
        cmocka_unit_test(nan_spreads_over_its_head),
        cmocka_unit_test(a_sample_is_part_of_the_whole),
        cmocka_unit_test(what_is_unknown_is_refused),
        cmocka_unit_test(the_bound_holds),
        cmocka_unit_test(mistakes_are_far_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
