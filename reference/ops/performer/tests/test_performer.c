/* SPDX-License-Identifier: Apache-2.0 */
/* test_performer.c - performer by its formula in long double and by identities; and its bound held
 * against kernels that round every operation. */
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

enum { S = 128, M = 4096, DK = 16, DV = 5, HEADS = 2 };

/* A problem in double, its copy in f32, and what the reference says of it. Queries may have two
 * heads; keys have one. */
static struct made {
    int64_t heads, steps, m, dk, len; /* len -1: none */
    bool causal;
    double scale, eps;
    double q[HEADS * S * DK], k[S * DK], v[S * DV], w[HEADS * M * DK];
    float floats[HEADS * (S + M) * DK + S * (DK + DV)];
    int32_t length;
    struct sequence sequence;
    double out[HEADS * S * DV], bound[HEADS * S * DV], implied[HEADS * S * S];
} made;

static void build(uint32_t dtype)
{
    const int64_t s = made.steps, h = made.heads;
    struct attn_problem *p = &made.sequence.problem;
    sequence_begin(&made.sequence, ATTN_OP_PERFORMER, dtype, s, made.dk, DV, made.floats);
    p->hq = h;
    p->scale = made.scale;
    p->eps = made.eps;
    p->flags = made.causal ? ATTN_FLAG_CAUSAL : 0;
    sequence_add(&made.sequence, ATTN_Q, made.q, (const int64_t[]){1, h, s, made.dk}, 4);
    sequence_add(&made.sequence, ATTN_K, made.k, (const int64_t[]){1, 1, s, made.dk}, 4);
    sequence_add(&made.sequence, ATTN_V, made.v, (const int64_t[]){1, 1, s, DV}, 4);
    sequence_add(&made.sequence, ATTN_FEATURES, made.w, (const int64_t[]){h, made.m, made.dk}, 3);
    sequence_ask(&made.sequence, ATTN_OUT, (const int64_t[]){1, h, s, DV}, 4);
    made.length = (int32_t)made.len;
    if (made.len >= 0)
        made.sequence.tensors[p->n_tensors++] = (struct attn_tensor){.role = ATTN_LEN,
                                                                     .dtype = ATTN_I32,
                                                                     .rank = 1,
                                                                     .shape = {1},
                                                                     .stride = {1},
                                                                     .data = &made.length};
}

static void compute(const struct attn_numerics *numerics, enum ref_fill_kind fill)
{
    struct ref_result result = {.output = {{made.out, made.bound}}, .implied = made.implied};
    sequence_compute(&made.sequence, numerics, fill, &result);
}

static double normal(uint64_t seed, int64_t index)
{
    return sequence_normal(seed, (uint64_t)index);
}

/* Makes rows [first, first + rows) orthogonal, each as long as before. */
static void orthogonalise(double *w, int64_t rows, int64_t dk)
{
    for (int64_t r = 0; r < rows; r++) {
        double *row = w + r * dk, was = 0, is = 0;
        for (int64_t c = 0; c < dk; c++)
            was += row[c] * row[c];
        for (int pass = 0; pass < 2; pass++)
            for (int64_t e = 0; e < r; e++) {
                double product = 0, square = 0;
                for (int64_t c = 0; c < dk; c++) {
                    product += row[c] * w[e * dk + c];
                    square += w[e * dk + c] * w[e * dk + c];
                }
                for (int64_t c = 0; c < dk; c++)
                    row[c] -= product / square * w[e * dk + c];
            }
        for (int64_t c = 0; c < dk; c++)
            is += row[c] * row[c];
        for (int64_t c = 0; c < dk; c++)
            row[c] *= sqrt(was / is);
    }
}

static void draw_features(uint64_t seed)
{
    const int64_t rows = made.heads * made.m;
    for (int64_t n = 0; n < rows * made.dk; n++)
        made.w[n] = normal(seed, n);
    for (int64_t r = 0; r < rows; r += made.dk)
        orthogonalise(made.w + r * made.dk, rows - r < made.dk ? rows - r : made.dk, made.dk);
}

static void draw(int64_t steps, int64_t m, int64_t dk, uint64_t seed)
{
    made.heads = 1;
    made.steps = steps;
    made.m = m;
    made.dk = dk;
    made.len = -1;
    made.causal = false;
    made.eps = 0;
    made.scale = 1 / sqrt((double)dk);
    for (int64_t n = 0; n < HEADS * steps * dk; n++)
        made.q[n] = normal(4 * seed, n);
    for (int64_t n = 0; n < steps * dk; n++)
        made.k[n] = normal(4 * seed + 1, n);
    for (int64_t n = 0; n < steps * DV; n++)
        made.v[n] = normal(4 * seed + 2, n);
    draw_features(4 * seed + 3);
}

/* ---- the formula ---- */

static int64_t allowed(int64_t i)
{
    const int64_t keys = made.len >= 0 ? made.len : made.steps;
    return made.causal && i + 1 < keys ? i + 1 : keys;
}

static long double product(const double *w, const double *x)
{
    long double sum = 0;
    for (int64_t c = 0; c < made.dk; c++)
        sum += (long double)w[c] * x[c] * sqrtl(made.scale);
    return sum;
}

static long double half(const double *x)
{
    long double sum = 0;
    for (int64_t c = 0; c < made.dk; c++)
        sum += (long double)x[c] * x[c];
    return made.scale * sum / 2;
}

/* The largest w x' of `count` vectors. */
static long double largest(const double *w, const double *x, int64_t count)
{
    long double most = -INFINITY;
    for (int64_t n = 0; n < count; n++)
        for (int64_t r = 0; r < made.m; r++)
            most = fmaxl(most, product(w + r * made.dk, x + n * made.dk));
    return most;
}

/* Of row i of head h, as it is written in OP.md; long double has the range for that. */
static void by_formula(int64_t h, int64_t i, long double out[DV])
{
    const double *w = made.w + h * made.m * made.dk;
    const double *q = made.q + (h * made.steps + i) * made.dk;
    const int64_t n = allowed(i), keys = made.len >= 0 ? made.len : made.steps;
    const long double top_q = made.eps > 0 ? largest(w, q, 1) : 0;
    const long double top_k = made.eps > 0 ? largest(w, made.k, keys) : 0;
    long double below = 0;
    for (int64_t d = 0; d < DV; d++)
        out[d] = 0;
    for (int64_t j = 0; j < n; j++) {
        const double *k = made.k + j * made.dk;
        long double p = 0;
        for (int64_t r = 0; r < made.m; r++)
            p += (expl(product(w + r * made.dk, q) - half(q) - top_q) + made.eps) *
                 (expl(product(w + r * made.dk, k) - half(k) - top_k) + made.eps);
        below += p;
        for (int64_t d = 0; d < DV; d++)
            out[d] += p * made.v[j * DV + d];
    }
    for (int64_t d = 0; d < DV; d++)
        out[d] /= below;
}

static void agrees(double tolerance)
{
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    for (int64_t row = 0; row < made.heads * made.steps; row++) {
        long double out[DV];
        by_formula(row / made.steps, row % made.steps, out);
        for (int64_t d = 0; d < DV; d++)
            sequence_near(made.out[row * DV + d], (double)out[d], tolerance);
    }
}

static void the_formula_agrees(void **unused)
{
    (void)unused;
    for (uint64_t seed = 0; seed < 12; seed++) {
        draw(20, 10, 6, seed);
        made.heads = 1 + (int64_t)(seed % 2);
        made.causal = seed / 2 % 3 == 1;
        made.eps = seed / 2 % 3 == 2 ? 1e-4 : 0;
        made.len = seed >= 6 ? 13 : -1;
        draw_features(seed);
        agrees(1e-13);
    }
}

/* Scores of hundreds: exp(-|x'|^2 / 2) is 0 in double. */
static void long_vectors_agree(void **unused)
{
    (void)unused;
    draw(16, 12, 6, 3);
    for (int64_t n = 0; n < made.steps * made.dk; n++) {
        made.q[n] *= 30;
        made.k[n] = 0.5 * made.k[n] + 25;
    }
    agrees(1e-11);
    made.causal = true;
    agrees(1e-11);
}

/* Two features: q has only the first one, k only the second. The sum of products is 0 in double. */
static void features_that_do_not_meet_agree(void **unused)
{
    (void)unused;
    draw(10, 2, 6, 5);
    for (int64_t n = 0; n < 2 * made.dk; n++)
        made.w[n] = n < made.dk ? 30 : -30;
    for (int64_t n = 0; n < made.steps * made.dk; n++) {
        made.q[n] = 5 + 0.1 * made.q[n];
        made.k[n] = -5 + 0.001 * made.k[n];
    }
    agrees(1e-11);
}

/* ---- identities ---- */

/* Without directions every feature of a vector is exp(-|x'|^2 / 2): q cancels, and a key weighs by
 * its length. */
static void zero_features_weigh_by_length(void **unused)
{
    (void)unused;
    draw(9, 3, 4, 1);
    memset(made.w, 0, sizeof made.w);
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    double sum[DV] = {0}, below = 0;
    for (int64_t j = 0; j < made.steps; j++) {
        double square = 0;
        for (int64_t c = 0; c < made.dk; c++)
            square += made.k[j * made.dk + c] * made.k[j * made.dk + c];
        const double p = exp(-made.scale * square / 2);
        below += p;
        for (int64_t d = 0; d < DV; d++)
            sum[d] += p * made.v[j * DV + d];
    }
    for (int64_t n = 0; n < made.steps * DV; n++)
        sequence_near(made.out[n], sum[n % DV] / below, 1e-14);
}

static void implied_weights_times_v_are_out(void **unused)
{
    (void)unused;
    draw(17, 9, 5, 2);
    made.causal = true;
    made.len = 11;
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    for (int64_t i = 0; i < made.steps; i++) {
        double total = 0;
        for (int64_t d = 0; d < DV; d++) {
            double sum = 0;
            for (int64_t j = 0; j < made.steps; j++)
                sum += made.implied[i * made.steps + j] * made.v[j * DV + d];
            sequence_near(sum, made.out[i * DV + d], 1e-14);
        }
        for (int64_t j = 0; j < made.steps; j++) {
            total += made.implied[i * made.steps + j];
            assert_true(j < allowed(i) || made.implied[i * made.steps + j] == 0);
        }
        sequence_near(total, 1, 1e-14);
    }
}

static void no_key_gives_zero(void **unused)
{
    const struct attn_numerics nan_rows = {
        .struct_size = sizeof nan_rows, .acc_type = ATTN_F32, .empty_row = ATTN_EMPTY_NAN};
    (void)unused;
    draw(4, 3, 4, 1);
    made.len = 0;
    build(ATTN_F32);
    compute(&sequence_f32, REF_FILL_GENERIC);
    for (int64_t n = 0; n < made.steps * DV; n++)
        assert_true(made.out[n] == 0 && made.bound[n] == 0);
    compute(&nan_rows, REF_FILL_GENERIC);
    assert_true(isnan(made.out[0]) && made.bound[0] == 0);
}

/* NaN in a key reaches every row that sees it, and no other. */
static void nan_stays_with_its_rows(void **unused)
{
    (void)unused;
    for (int causal = 0; causal < 2; causal++)
        for (int beyond = 0; beyond < 2; beyond++) {
            draw(8, 5, 4, 1);
            made.causal = causal;
            made.len = beyond ? 5 : 8;
            build(ATTN_F32);
            ((float *)made.sequence.tensors[1].data)[5 * made.dk + 1] = NAN;
            compute(&sequence_f32, REF_FILL_GENERIC);
            for (int64_t i = 0; i < made.steps; i++) {
                const bool sees = !beyond && (!causal || i >= 5);
                assert_true(isnan(made.out[i * DV]) == sees);
                assert_true(sees ? made.bound[i * DV] == 0 : made.bound[i * DV] < 1e-3);
            }
        }
}

static void refuses(const char *word)
{
    char why[256] = "";
    assert_int_equal(ref_check_problem(&made.sequence.problem, why, sizeof why), ATTN_INVALID);
    if (!strstr(why, word))
        fail_msg("'%s' does not say '%s'", why, word);
}

static void what_does_not_combine_is_refused(void **unused)
{
    struct attn_problem *p = &made.sequence.problem;
    (void)unused;
    draw(8, 5, 4, 1);
    made.causal = true;
    made.eps = 1e-4;
    build(ATTN_F64);
    refuses("not causal");
    p->eps = 0;
    p->off = 2;
    refuses("offset");
    p->off = 0;
    p->scale = -1;
    refuses("scale");
    p->scale = 1;
    p->eps = NAN;
    refuses("eps");
    p->eps = 0;
    p->sk = 7;
    refuses("sk = sq");
}

/* ---- the approximation ---- */

/* Rows of an AR(1) process of variance 1. */
static void smooth(double *x, uint64_t seed)
{
    const double keep = 0.98;
    for (int64_t n = 0; n < made.steps * made.dk; n++)
        x[n] = n < made.dk ? normal(seed, n)
                           : keep * x[n - made.dk] + sqrt(1 - keep * keep) * normal(seed, n);
}

/* Frobenius norm of out less exact attention, over that of exact attention. */
static double error_of_approximation(void)
{
    double difference = 0, size = 0;
    for (int64_t i = 0; i < made.steps; i++) {
        double sum[DV] = {0}, below = 0;
        for (int64_t j = 0; j < made.steps; j++) {
            double score = 0;
            for (int64_t c = 0; c < made.dk; c++)
                score += made.q[i * made.dk + c] * made.k[j * made.dk + c];
            const double p = exp(made.scale * score);
            below += p;
            for (int64_t d = 0; d < DV; d++)
                sum[d] += p * made.v[j * DV + d];
        }
        for (int64_t d = 0; d < DV; d++) {
            const double exact = sum[d] / below, off = made.out[i * DV + d] - exact;
            difference += off * off;
            size += exact * exact;
        }
    }
    return sqrt(difference / size);
}

/* The median over eight draws of features falls as m^(-1/2). */
static void more_features_come_closer(void **unused)
{
    double log_m[7], log_error[7], mean_m = 0, mean_error = 0, above = 0, below = 0;
    (void)unused;
    draw(64, 1, 16, 1);
    smooth(made.q, 101);
    smooth(made.k, 102);
    made.scale /= 16;
    for (int n = 0; n < 7; n++) {
        double errors[8];
        made.m = 64 << n;
        for (uint64_t seed = 0; seed < 8; seed++) {
            draw_features(1000 * (uint64_t)n + seed);
            build(ATTN_F64);
            compute(NULL, REF_FILL_GENERIC);
            errors[seed] = error_of_approximation();
        }
        sequence_sort(errors, 8);
        log_m[n] = log((double)made.m);
        log_error[n] = log((errors[3] + errors[4]) / 2);
        mean_m += log_m[n] / 7;
        mean_error += log_error[n] / 7;
        printf("%lld features: error %.4f\n", (long long)made.m, exp(log_error[n]));
    }
    for (int n = 0; n < 7; n++) {
        above += (log_m[n] - mean_m) * (log_error[n] - mean_error);
        below += (log_m[n] - mean_m) * (log_m[n] - mean_m);
    }
    printf("slope %.3f\n", above / below);
    assert_true(fabs(above / below + 0.5) < 0.2);
}

/* ---- the bound ---- */

static uint32_t rounding; /* the type to which a kernel rounds */

static double rounded(double x)
{
    return sequence_rounded(rounding, x);
}

/* w x' to `product`; returns |x'|^2 / 2. */
static double plain_products(const double *x, const double *w, double *products)
{
    double scaled[DK], square = 0;
    const double root = rounded(sqrt(made.scale));
    for (int64_t c = 0; c < made.dk; c++) {
        scaled[c] = rounded(rounded(x[c]) * root);
        square = rounded(square + rounded(scaled[c] * scaled[c]));
    }
    for (int64_t r = 0; r < made.m; r++) {
        products[r] = 0;
        for (int64_t c = 0; c < made.dk; c++)
            products[r] = rounded(products[r] + rounded(rounded(w[r * made.dk + c]) * scaled[c]));
    }
    return rounded(square / 2);
}

static double plain_most(double most, const double *products, double less)
{
    for (int64_t r = 0; r < made.m; r++)
        most = fmax(most, made.eps > 0 ? products[r] : rounded(products[r] - less));
    return most;
}

static void plain_features(double *products, double less, double most)
{
    for (int64_t r = 0; r < made.m; r++) {
        const double x = rounded(rounded(products[r] - less) - most);
        products[r] = rounded(rounded(exp(x)) + rounded(made.eps));
    }
}

/* One head: features of the keys, a state, and each query read from it. */
static void plain_kernel(double *out)
{
    static double phi[S * 64], query[64], state[64 * DV], sum[64];
    double halves[S], most = -INFINITY;
    const int64_t keys = allowed(made.steps - 1);
    int64_t taken = 0;
    memset(state, 0, sizeof state);
    memset(sum, 0, sizeof sum);
    for (int64_t j = 0; j < keys; j++) {
        halves[j] = plain_products(made.k + j * made.dk, made.w, phi + j * made.m);
        most = plain_most(most, phi + j * made.m, halves[j]);
    }
    for (int64_t j = 0; j < keys; j++)
        plain_features(phi + j * made.m, halves[j], most);
    for (int64_t i = 0; i < made.steps; i++) {
        for (; taken < allowed(i); taken++)
            for (int64_t r = 0; r < made.m; r++) {
                const double f = phi[taken * made.m + r];
                sum[r] = rounded(sum[r] + f);
                for (int64_t d = 0; d < DV; d++)
                    state[r * DV + d] =
                        rounded(state[r * DV + d] + rounded(f * rounded(made.v[taken * DV + d])));
            }
        const double less = plain_products(made.q + i * made.dk, made.w, query);
        plain_features(query, less, plain_most(-INFINITY, query, less));
        double below = 0;
        for (int64_t r = 0; r < made.m; r++)
            below = rounded(below + rounded(query[r] * sum[r]));
        for (int64_t d = 0; d < DV; d++) {
            double above = 0;
            for (int64_t r = 0; r < made.m; r++)
                above = rounded(above + rounded(query[r] * state[r * DV + d]));
            out[i * DV + d] = rounded(above / below);
        }
    }
}

/* Ratios of errors to bounds, and how many elements have no bound. */
static struct ratios {
    double most, all[1 << 17];
    int count, unknown;
} ratios;

static void hold(enum ref_fill_kind fill)
{
    static double out[S * DV];
    const double u = attn_dtype_roundoff(rounding);
    const struct attn_numerics numerics = {
        .struct_size = sizeof numerics, .acc_type = rounding, .e_exp = 2 * u};
    uint64_t room;
    build(ATTN_F32);
    for (uint32_t t = 0; t < 4; t++) { /* the inputs of a kernel of this type */
        const struct attn_tensor *tensor = &made.sequence.tensors[t];
        for (int64_t n = 0; n < tensor->shape[0] * tensor->stride[0]; n++) {
            float *x = (float *)tensor->data + n;
            attn_dtype_store(rounding, &room, 0, *x);
            *x = (float)attn_dtype_load(rounding, &room, 0);
        }
    }
    compute(&numerics, fill);
    plain_kernel(out);
    for (int64_t n = 0; n < made.steps * DV; n++) {
        const double error = fabs(out[n] - made.out[n]);
        if (made.bound[n] == INFINITY) {
            ratios.unknown++;
            continue;
        }
        if (!(error <= made.bound[n]))
            fail_msg("%.9g instead of %.9g exceeds the bound %.3g", out[n], made.out[n],
                     made.bound[n]);
        ratios.most = fmax(ratios.most, error / made.bound[n]);
        ratios.all[ratios.count++] = error / made.bound[n];
    }
}

static void report(const char *what)
{
    sequence_sort(ratios.all, (size_t)ratios.count);
    printf("%s, %s: error over bound at most %.3f, median %.4f; %d of %d elements unknown\n",
           attn_dtype_name(rounding), what, ratios.most, ratios.all[ratios.count / 2],
           ratios.unknown, ratios.unknown + ratios.count);
    assert_true(ratios.count > 2 * ratios.unknown);
    ratios.count = ratios.unknown = 0;
    ratios.most = 0;
}

/* How the vectors of a trial are. */
static void as_drawn(void)
{
}

static void long_queries(void)
{
    for (int64_t n = 0; n < made.steps * made.dk; n++)
        made.q[n] *= 9;
}

static void all_alike(void)
{
    for (int64_t n = 0; n < made.steps * made.dk; n++)
        made.q[n] = made.k[n] = 0.3;
    for (int64_t n = 0; n < made.steps * DV; n++)
        made.v[n] = 0.7;
}

static void hold_bounds(uint32_t type, int64_t steps, int64_t m, uint64_t seeds)
{
    static const struct {
        const char *name;
        void (*change)(void);
        enum ref_fill_kind fill;
    } kinds[] = {{"drawn", as_drawn, REF_FILL_GENERIC},
                 {"long queries", long_queries, REF_FILL_STRUCTURED},
                 {"all alike", all_alike, REF_FILL_STRUCTURED}};
    rounding = type;
    for (int kind = 0; kind < (type == ATTN_F32 ? 3 : 1); kind++) {
        for (uint64_t seed = 0; seed < seeds; seed++) {
            draw(steps, m, 8, seed);
            made.causal = seed % 3 == 1;
            made.eps = seed % 3 == 2 ? 1e-3 : 0;
            if (type != ATTN_F32)
                made.scale /= 8;
            kinds[kind].change();
            hold(kinds[kind].fill);
        }
        report(kinds[kind].name);
    }
}

static void the_bound_holds(void **unused)
{
    (void)unused;
    hold_bounds(ATTN_F32, 100, 40, 60);
    hold_bounds(ATTN_F16, 12, 8, 60);
    hold_bounds(ATTN_BF16, 12, 8, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formula_agrees),
        cmocka_unit_test(long_vectors_agree),
        cmocka_unit_test(features_that_do_not_meet_agree),
        cmocka_unit_test(zero_features_weigh_by_length),
        cmocka_unit_test(implied_weights_times_v_are_out),
        cmocka_unit_test(no_key_gives_zero),
        cmocka_unit_test(nan_stays_with_its_rows),
        cmocka_unit_test(what_does_not_combine_is_refused),
        cmocka_unit_test(more_features_come_closer),
        cmocka_unit_test(the_bound_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
