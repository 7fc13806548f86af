/* SPDX-License-Identifier: Apache-2.0 */
/* test_approximation.c - distances from softmax attention, beside plain loops. */
#include "reference/approximation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/tests/operators/averaged/averaged.h"

enum { B = 1, H = 2, S = 9, D = 5, ROWS = B * H * S, LONG = 400 };

static float q[H * LONG * D], k[H * LONG * D], v[H * LONG * D], out[H * LONG * D];
static struct attn_tensor tensors[5];

/* Numbers between -1 and 1. */
static void draw(float *x, int n, uint32_t seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)((int32_t)seed / 2147483648.0);
    }
}

static struct attn_problem averaged(int s, bool with_k)
{
    const uint32_t roles[] = {ATTN_OUT, ATTN_Q, ATTN_V, ATTN_K};
    float *const data[] = {out, q, v, k};
    for (int t = 0; t < 4; t++)
        tensors[t] = (struct attn_tensor){
            roles[t], ATTN_F32, 0, 0, 4, 0, {B, H, s, D}, {H * s * D, s * D, D, 1}, data[t]};
    draw(q, H * s * D, 1);
    draw(k, H * s * D, 2);
    draw(v, H * s * D, 3);
    return (struct attn_problem){.struct_size = sizeof(struct attn_problem),
                                 .op = AVERAGED_OP,
                                 .dtype = ATTN_F32,
                                 .b = B,
                                 .hq = H,
                                 .hkv = H,
                                 .sq = s,
                                 .sk = s,
                                 .dq = D,
                                 .dk = D,
                                 .dv = D,
                                 .scale = 2,
                                 .n_tensors = with_k ? 4 : 3,
                                 .tensors = tensors};
}

/* The softmax of row i of head h, with keys of `keys` divided by their lengths if `unit`. */
static void softmax(int h, int i, const float *keys, bool unit, double p[S])
{
    double sum = 0;
    for (int j = 0; j < S; j++) {
        double s = 0, squares = 0;
        for (int c = 0; c < D; c++) {
            const double x = keys[(h * S + j) * D + c];
            s += x * q[(h * S + i) * D + c];
            squares += x * x;
        }
        p[j] = exp(2 * (unit ? s / sqrt(squares) : s));
        sum += p[j];
    }
    for (int j = 0; j < S; j++)
        p[j] /= sum;
}

static double sum_of(int h, int c, const double p[S])
{
    double sum = 0;
    for (int j = 0; j < S; j++)
        sum += p[j] * v[(h * S + j) * D + c];
    return sum;
}

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want))))
        fail_msg("%.17g, not %.17g", got, want);
}

/* Every figure by its definition. */
static struct ref_approximation by_hand(const float *keys, bool unit)
{
    struct ref_approximation a = {.rows = ROWS, .cosine_min = 2};
    double difference = 0, size = 0;
    for (int r = 0; r < ROWS; r++) {
        const int h = r / S, i = r % S;
        double p[S], own[S], off = 0, length = 0, own_length = 0, both = 0, variation = 0;
        softmax(h, i, keys, unit, p);
        for (int j = 0; j < S; j++) {
            own[j] = (i == 0 && j == S - 1 ? -1.0 : 1.0) / S;
            variation += fabs(own[j] - p[j]) / 2;
        }
        for (int c = 0; c < D; c++) {
            const double x = sum_of(h, c, own), y = sum_of(h, c, p);
            off += (x - y) * (x - y);
            length += y * y;
            own_length += x * x;
            both += x * y;
        }
        difference += off;
        size += length;
        a.max_row = fmax(a.max_row, sqrt(off / length));
        a.cosine_min = fmin(a.cosine_min, both / sqrt(length * own_length));
        a.tv_mean += variation / ROWS;
        a.tv_max = fmax(a.tv_max, variation);
    }
    a.rel_fro = sqrt(difference / size);
    return a;
}

static struct ref_approximation measured(const struct attn_problem *p)
{
    struct ref_approximation a;
    struct ref_request request = {.threads = 2};
    char why[256] = "";
    ref_request_all(p, &request);
    if (ref_approximation(p, &request, &a, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
    return a;
}

static void assert_same(const struct ref_approximation *a, const struct ref_approximation *want)
{
    assert_int_equal(a->rows, want->rows);
    assert_near(a->rel_fro, want->rel_fro);
    assert_near(a->max_row, want->max_row);
    assert_near(a->cosine_min, want->cosine_min);
    assert_near(a->tv_mean, want->tv_mean);
    assert_near(a->tv_max, want->tv_max);
    assert_near(a->mass_kept, 1);
    assert_near(a->negative_mass, 1.0 * H / S / ROWS);
    assert_true(a->cosine_median > a->cosine_min && a->cosine_median <= 1);
}

static void figures_are_those_of_plain_loops(void **state)
{
    const struct attn_problem p = averaged(S, true);
    const struct ref_approximation a = measured(&p), want = by_hand(k, false);
    (void)state;
    assert_same(&a, &want);
    assert_near(a.flops_ratio, (double)B * H * S * D / (2.0 * (D + D) * B * H * S * S));
    assert_near(a.bytes_ratio, 1);
}

static void shared_queries_are_keys_of_length_one(void **state)
{
    const struct attn_problem p = averaged(S, false);
    const struct ref_approximation a = measured(&p), want = by_hand(q, true);
    (void)state;
    assert_same(&a, &want);
}

static void long_problems_are_sampled(void **state)
{
    const struct attn_problem p = averaged(LONG, true);
    (void)state;
    assert_int_equal(measured(&p).rows, REF_APPROXIMATION_ROWS);
}

/* Keys within 2 of the query, and token 0, which sees all and is seen by all. */
static bool is_seen(int i, int j)
{
    return abs(i - j) <= 2 || i == 0 || j == 0;
}

static struct attn_problem longformer(void)
{
    static uint8_t global[B * S] = {1};
    struct attn_problem p = averaged(S, true);
    tensors[4] = (struct attn_tensor){ATTN_GLOBAL, ATTN_BOOL, 0, 0, 2, 0, {B, S}, {S, 1}, global};
    p.op = ATTN_OP_ATTENTION;
    p.score = ATTN_SCORE_SCALED_DOT;
    p.flags = ATTN_FLAG_WINDOW;
    p.window_left = p.window_right = 2;
    p.n_tensors = 5;
    return p;
}

/* A softmax over some of the keys has the exact weights of these over what they add up to. */
static void a_window_with_global_tokens_keeps_what_it_sees(void **state)
{
    const struct attn_problem p = longformer();
    const struct ref_approximation a = measured(&p);
    double kept = 0, seen = 0, difference = 0, size = 0;
    (void)state;
    for (int r = 0; r < ROWS; r++) {
        const int h = r / S, i = r % S;
        double exact[S], own[S], sum = 0;
        softmax(h, i, k, false, exact);
        for (int j = 0; j < S; j++) {
            own[j] = is_seen(i, j) ? exact[j] : 0;
            sum += own[j];
            seen += is_seen(i, j);
        }
        kept += sum / ROWS;
        for (int j = 0; j < S; j++)
            own[j] /= sum;
        for (int c = 0; c < D; c++) {
            difference += pow(sum_of(h, c, own) - sum_of(h, c, exact), 2);
            size += pow(sum_of(h, c, exact), 2);
        }
    }
    assert_near(a.mass_kept, kept);
    assert_near(a.tv_mean, 1 - kept);
    assert_near(a.rel_fro, sqrt(difference / size));
    assert_near(a.flops_ratio, seen / (ROWS * S));
    assert_true(kept < 0.99 && a.negative_mass == 0);
}

static void other_attention_is_no_approximation(void **state)
{
    struct attn_problem p = longformer();
    (void)state;
    assert_true(ref_approximates(&p));
    p.n_tensors = 4; /* a window alone */
    assert_false(ref_approximates(&p));
    p = longformer();
    p.flags |= ATTN_FLAG_SOFTCAP;
    assert_false(ref_approximates(&p));
    p = longformer();
    tensors[4].role = ATTN_SINK;
    assert_false(ref_approximates(&p));
    p = longformer();
    p.score = ATTN_SCORE_DOT;
    assert_false(ref_approximates(&p));
}

static void exact_operators_are_refused(void **state)
{
    struct attn_problem p = averaged(S, true);
    struct ref_request request = {.threads = 1};
    struct ref_approximation a;
    char why[256] = "";
    (void)state;
    p.op = ATTN_OP_ATTENTION;
    p.score = ATTN_SCORE_SCALED_DOT;
    ref_request_all(&p, &request);
    assert_int_equal(ref_approximation(&p, &request, &a, why, sizeof why), ATTN_UNSUPPORTED);
    assert_int_equal(a.rows, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_plain_loops),
        cmocka_unit_test(shared_queries_are_keys_of_length_one),
        cmocka_unit_test(long_problems_are_sampled),
        cmocka_unit_test(exact_operators_are_refused),
        cmocka_unit_test(a_window_with_global_tokens_keeps_what_it_sees),
        cmocka_unit_test(other_attention_is_no_approximation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
