/* SPDX-License-Identifier: Apache-2.0 */
/* test_linformer.c - linformer by its formula, by known values and as attention; and its bound held
 * against a kernel that rounds every operation. */
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

enum { B = 2, HQ = 4, HKV = 2, SQ = 5, MOST = 120, DK = 6, DV = 5, ROWS = B * HQ * SQ };

/* A problem in double, its copy in f32, and what the reference says of it. */
static struct made {
    int64_t sk, r;
    bool own_f, lengths;
    int32_t len[B];
    double q[ROWS * DK], k[B * HKV * MOST * DK], v[B * HKV * MOST * DV];
    double e[HKV * MOST * MOST], f[HKV * MOST * MOST];
    float floats[ROWS * DK + B * HKV * MOST * (DK + DV) + 2 * HKV * MOST * MOST];
    struct sequence sequence;
    double out[ROWS * DV], bound[ROWS * DV], lse[ROWS], lse_bound[ROWS];
} made;

static void build(uint32_t dtype)
{
    struct attn_problem *p = &made.sequence.problem;
    const int64_t q[] = {B, HQ, SQ, DK}, k[] = {B, HKV, made.sk, DK}, v[] = {B, HKV, made.sk, DV};
    const int64_t e[] = {HKV, made.r, made.sk}, out[] = {B, HQ, SQ, DV}, batches[] = {B};
    sequence_begin(&made.sequence, ATTN_OP_LINFORMER, dtype, made.sk, DK, DV, made.floats);
    p->b = B;
    p->hq = HQ;
    p->hkv = HKV;
    p->sq = SQ;
    p->scale = 0.7;
    p->landmarks = made.r;
    sequence_add(&made.sequence, ATTN_Q, made.q, q, 4);
    sequence_add(&made.sequence, ATTN_K, made.k, k, 4);
    sequence_add(&made.sequence, ATTN_V, made.v, v, 4);
    sequence_add(&made.sequence, ATTN_PROJ_E, made.e, e, 3);
    if (made.own_f)
        sequence_add(&made.sequence, ATTN_PROJ_F, made.f, e, 3);
    sequence_ask(&made.sequence, ATTN_OUT, out, 4);
    sequence_ask(&made.sequence, ATTN_LSE, out, 3);
    if (made.lengths) {
        sequence_ask(&made.sequence, ATTN_LEN, batches, 1);
        made.sequence.tensors[p->n_tensors - 1].dtype = ATTN_I32;
        made.sequence.tensors[p->n_tensors - 1].data = made.len;
    }
}

static void draw(int64_t sk, int64_t r, uint64_t seed)
{
    made.sk = sk;
    made.r = r;
    made.own_f = seed % 2;
    made.lengths = seed / 2 % 2;
    made.len[0] = (int32_t)(sk - 3);
    made.len[1] = (int32_t)(sk / 2);
    struct {
        double *to;
        int64_t count;
        double scale;
    } arrays[] = {{made.q, ROWS * DK, 1},
                  {made.k, B * HKV * sk * DK, 1},
                  {made.v, B * HKV * sk * DV, 1},
                  {made.e, HKV * r * sk, 1 / sqrt((double)r)},
                  {made.f, HKV * r * sk, 1 / sqrt((double)r)}};
    for (uint64_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++)
        for (int64_t n = 0; n < arrays[a].count; n++)
            arrays[a].to[n] = arrays[a].scale * sequence_normal(7 * seed + a, (uint64_t)n);
}

static void compute(const struct attn_numerics *numerics, enum ref_fill_kind fill, double *implied)
{
    struct ref_result result = {.output = {{made.out, made.bound}, {made.lse, made.lse_bound}},
                                .implied = implied};
    sequence_compute(&made.sequence, numerics, fill, &result);
}

/* ---- a kernel that rounds every operation to `type` ---- */

static uint32_t type;

static double rounded(double x)
{
    return sequence_rounded(type, x);
}

/* A row of E k or F v. */
static void project(const double *w, const double *x, int64_t n, int64_t width, double *y)
{
    for (int64_t c = 0; c < width; c++) {
        y[c] = 0;
        for (int64_t j = 0; j < n; j++)
            y[c] = rounded(y[c] + rounded(w[j] * x[j * width + c]));
    }
}

static double weigh(const double *q, const double *keys, double *p)
{
    double most = -INFINITY, sum = 0;
    for (int64_t l = 0; l < made.r; l++) {
        double s = 0;
        for (int64_t c = 0; c < DK; c++)
            s = rounded(s + rounded(q[c] * keys[l * DK + c]));
        p[l] = rounded(rounded(0.7) * s);
        most = fmax(most, p[l]);
    }
    for (int64_t l = 0; l < made.r; l++) {
        p[l] = rounded(exp(rounded(p[l] - most)));
        sum = rounded(sum + p[l]);
    }
    for (int64_t l = 0; l < made.r; l++)
        p[l] = rounded(p[l] / sum);
    return rounded(most + rounded(log(sum)));
}

static void kernel_head(int64_t b, int64_t h, double *out, double *lse)
{
    static double keys[MOST * DK], values[MOST * DV], p[MOST];
    const int64_t g = h / (HQ / HKV), n = made.lengths ? made.len[b] : made.sk;
    const double *k = made.k + (b * HKV + g) * made.sk * DK;
    const double *v = made.v + (b * HKV + g) * made.sk * DV;
    for (int64_t l = 0; l < made.r; l++) {
        const int64_t at = (g * made.r + l) * made.sk;
        project(made.e + at, k, n, DK, keys + l * DK);
        project((made.own_f ? made.f : made.e) + at, v, n, DV, values + l * DV);
    }
    for (int64_t i = 0; i < SQ; i++) {
        const int64_t row = (b * HQ + h) * SQ + i;
        lse[row] = weigh(made.q + row * DK, keys, p);
        for (int64_t d = 0; d < DV; d++) {
            double sum = 0;
            for (int64_t l = 0; l < made.r; l++)
                sum = rounded(sum + rounded(p[l] * values[l * DV + d]));
            out[row * DV + d] = sum;
        }
    }
}

static void kernel(uint32_t in, double *out, double *lse)
{
    type = in;
    for (int64_t h = 0; h < B * HQ; h++)
        kernel_head(h / HQ, h % HQ, out, lse);
}

static void the_formula_agrees(void **unused)
{
    static double out[ROWS * DV], lse[ROWS];
    (void)unused;
    for (uint64_t seed = 0; seed < 8; seed++) {
        draw(70, 11, seed);
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC, NULL);
        kernel(ATTN_F64, out, lse);
        for (int64_t n = 0; n < ROWS * DV; n++)
            sequence_near(made.out[n], out[n], 1e-12);
        for (int64_t n = 0; n < ROWS; n++)
            sequence_near(made.lse[n], lse[n], 1e-12);
    }
}

/* One landmark: the softmax is 1, out is F v and lse the one score. */
static void one_landmark_gives_its_value(void **unused)
{
    (void)unused;
    draw(3, 1, 1);
    for (int64_t n = 0; n < HKV * 3; n++) {
        made.e[n] = 1;
        made.f[n] = (double)(n % 3);
    }
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC, NULL);
    for (int64_t d = 0; d < DV; d++)
        sequence_near(made.out[d], made.v[DV + d] + 2 * made.v[2 * DV + d], 1e-15);
    double score = 0;
    for (int64_t c = 0; c < DK; c++)
        score += made.q[c] * (made.k[c] + made.k[DK + c] + made.k[2 * DK + c]);
    sequence_near(made.lse[0], 0.7 * score, 1e-14);
}

/* E = F = I and r = Sk is attention of the same operands. */
static void the_identity_is_attention(void **unused)
{
    static double out[ROWS * DV], lse[ROWS];
    (void)unused;
    for (uint64_t seed = 0; seed < 2; seed++) {
        draw(40, 40, seed);
        for (int64_t n = 0; n < HKV * 40 * 40; n++)
            made.e[n] = made.f[n] = n % 1600 / 40 == n % 40;
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC, NULL);
        memcpy(out, made.out, sizeof out);
        memcpy(lse, made.lse, sizeof lse);
        struct attn_tensor *t = made.sequence.tensors;
        struct attn_problem *p = &made.sequence.problem;
        p->op = ATTN_OP_ATTENTION;
        memmove(t + 3, t + p->n_tensors - 2, 2 * sizeof *t); /* out and lse follow v */
        p->n_tensors = 5;
        compute(NULL, REF_FILL_GENERIC, NULL);
        for (int64_t n = 0; n < ROWS * DV; n++)
            sequence_near(made.out[n], out[n], 1e-13);
        for (int64_t n = 0; n < ROWS; n++)
            sequence_near(made.lse[n], lse[n], 1e-13);
    }
}

/* Rows beyond a length, and their columns of E and F, have no effect. None at all: kp = vp = 0. */
static void what_is_beyond_a_length_takes_no_part(void **unused)
{
    static double out[ROWS * DV];
    (void)unused;
    draw(50, 9, 3);
    made.len[1] = 0;
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC, NULL);
    memcpy(out, made.out, sizeof out);
    for (int64_t head = 0; head < B * HKV; head++)
        for (int64_t j = made.len[head / HKV]; j < made.sk; j++) {
            made.k[(head * made.sk + j) * DK] = NAN;
            made.v[(head * made.sk + j) * DV + 1] = INFINITY;
        }
    compute(&sequence_f32, REF_FILL_STRUCTURED, NULL);
    assert_memory_equal(out, made.out, sizeof out);
    for (int64_t n = ROWS / B; n < ROWS; n++) {
        sequence_near(made.lse[n], log(9), 1e-15);
        for (int64_t d = 0; d < DV; d++)
            assert_true(made.out[n * DV + d] == 0 && made.bound[n * DV + d] < 1e-30);
    }
}

static void nan_spreads_over_its_head(void **unused)
{
    (void)unused;
    draw(50, 9, 1);
    made.k[7 * DK] = NAN; /* batch 0, key head 0 */
    build(ATTN_F64);
    compute(&sequence_f32, REF_FILL_STRUCTURED, NULL);
    for (int64_t row = 0; row < ROWS; row++)
        assert_true(!isnan(made.out[row * DV]) == (row >= HQ / HKV * SQ));
}

static void implied_weights_make_out(void **unused)
{
    static double implied[ROWS * MOST];
    (void)unused;
    for (uint64_t seed = 0; seed < 4; seed++) {
        draw(60, 13, seed);
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC, implied);
        for (int64_t row = 0; row < ROWS; row++) {
            const int64_t head = row / SQ / HQ * HKV + row / SQ % HQ / (HQ / HKV);
            const double *v = made.v + head * made.sk * DV;
            for (int64_t d = 0; d < DV; d++) {
                double sum = 0;
                for (int64_t j = 0; j < made.sk; j++)
                    sum += implied[row * made.sk + j] * v[j * DV + d];
                sequence_near(sum, made.out[row * DV + d], 1e-12);
            }
        }
    }
}

/* Some rows alone are those of all. */
static void a_sample_is_part_of_the_whole(void **unused)
{
    static const int64_t rows[] = {0, 3, 4, 11, 27, ROWS - 1};
    enum { COUNT = sizeof rows / sizeof rows[0] };
    double out[COUNT * DV], bound[COUNT * DV];
    char why[256] = "";
    (void)unused;
    draw(60, 13, 3);
    build(ATTN_F32);
    compute(&sequence_f32, REF_FILL_STRUCTURED, NULL);
    struct ref_request request = {
        .units = {{COUNT, rows}}, .numerics = &sequence_f32, .fill = REF_FILL_STRUCTURED};
    struct ref_result result = {.output = {{out, bound}}};
    assert_int_equal(ref_compute(&made.sequence.problem, &request, &result, why, sizeof why),
                     ATTN_OK);
    for (int64_t n = 0; n < COUNT * DV; n++) {
        assert_true(out[n] == made.out[rows[n / DV] * DV + n % DV]);
        assert_true(bound[n] == made.bound[rows[n / DV] * DV + n % DV]);
    }
}

static void no_landmark_is_refused(void **unused)
{
    char why[256];
    (void)unused;
    draw(6, 2, 0);
    build(ATTN_F64);
    made.sequence.problem.landmarks = 0;
    assert_int_equal(ref_check_problem(&made.sequence.problem, why, sizeof why), ATTN_INVALID);
    made.sequence.problem.landmarks = 3;
    assert_int_equal(ref_check_problem(&made.sequence.problem, why, sizeof why), ATTN_INVALID);
}

/* ---- the bound ---- */

enum { SEEDS = 48 };

static void the_bound_holds_in(uint32_t in, double e_exp, enum ref_fill_kind fill)
{
    static double out[ROWS * DV], lse[ROWS], ratio[SEEDS * ROWS * DV];
    const struct attn_numerics numerics = {.struct_size = sizeof numerics,
                                           .acc_type = in,
                                           .proj_type = in,
                                           .p_normalised = 1,
                                           .denominator = 1,
                                           .e_exp = e_exp,
                                           .e_log = e_exp};
    double most_lse = 0;
    size_t count = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        draw(seed % 3 ? 40 : MOST, seed % 5 ? 12 : 33, seed);
        for (int64_t n = 0; fill == REF_FILL_STRUCTURED && n < B * HKV * made.sk * DK; n++)
            made.k[n] = 0.1;
        build(ATTN_F32);
        compute(&numerics, fill, NULL);
        kernel(in, out, lse);
        for (int64_t n = 0; n < ROWS * DV; n++) {
            ratio[count] = fabs(out[n] - made.out[n]) / made.bound[n];
            assert_true(ratio[count++] <= 1);
        }
        for (int64_t n = 0; n < ROWS; n++)
            most_lse = fmax(most_lse, fabs(lse[n] - made.lse[n]) / made.lse_bound[n]);
    }
    assert_true(most_lse <= 1);
    sequence_sort(ratio, count);
    printf("%s, %s: error over bound at most %.3g, median %.3g; lse %.3g\n", attn_dtype_name(in),
           fill == REF_FILL_GENERIC ? "drawn" : "keys alike", ratio[count - 1], ratio[count / 2],
           most_lse);
}

static void the_bound_holds(void **unused)
{
    (void)unused;
    for (int fill = 0; fill < 2; fill++) {
        const enum ref_fill_kind kind = fill ? REF_FILL_STRUCTURED : REF_FILL_GENERIC;
        the_bound_holds_in(ATTN_F32, 2 * 0x1p-24, kind);
        the_bound_holds_in(ATTN_F16, 2 * 0x1p-11, kind);
        the_bound_holds_in(ATTN_BF16, 2 * 0x1p-8, kind);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formula_agrees),
        cmocka_unit_test(one_landmark_gives_its_value),
        cmocka_unit_test(the_identity_is_attention),
        cmocka_unit_test(what_is_beyond_a_length_takes_no_part),
        cmocka_unit_test(nan_spreads_over_its_head),
        cmocka_unit_test(implied_weights_make_out),
        cmocka_unit_test(a_sample_is_part_of_the_whole),
        cmocka_unit_test(no_landmark_is_refused),
        cmocka_unit_test(the_bound_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
