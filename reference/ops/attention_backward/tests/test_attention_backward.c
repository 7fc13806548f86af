/* SPDX-License-Identifier: Apache-2.0 */
/* test_attention_backward.c - the gradients against finite differences of the forward reference and
 * against identities, and their rules. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/ops/attention_backward/tests/gradients.h"

/* ---- values ---- */

/* sum dO out of the forward pass of the operands as they are, and sum dlse lse. */
static double forward(struct made *m)
{
    struct attn_tensor tensors[32];
    struct attn_problem p = m->problem;
    struct ref_request all = {.threads = 1};
    static double out[KERNEL_ELEMENTS], lse[KERNEL_ELEMENTS];
    struct ref_result result = {.output = {{.value = out}, {.value = lse}}};
    char why[256] = "";
    double sum = 0;
    p.op = ATTN_OP_ATTENTION;
    p.tensors = tensors;
    p.n_tensors = 0;
    for (uint32_t t = 0; t < m->problem.n_tensors; t++)
        if (m->tensors[t].role < ATTN_GRAD_OUT)
            tensors[p.n_tensors++] = m->tensors[t];
    ref_request_all(&p, &all);
    assert_int_equal(ref_compute(&p, &all, &result, why, sizeof why), ATTN_OK);
    const struct attn_tensor *dout = made_tensor(m, ATTN_GRAD_OUT);
    for (int64_t x = 0; x < made_count(dout); x++)
        sum += made_get(dout, x) * out[x];
    const struct attn_tensor *dlse = attn_tensor_find(&m->problem, ATTN_GRAD_LSE);
    for (int64_t x = 0; dlse && x < made_count(dlse); x++)
        sum += isfinite(lse[x]) ? made_get(dlse, x) * lse[x] : 0;
    return sum;
}

/* Elements of a tensor that lie in memory: axes of stride 0 count once. */
static int64_t stored_count(const struct attn_tensor *t)
{
    int64_t count = 1;
    for (uint32_t a = 0; a < t->rank; a++)
        count *= t->stride[a] == 0 ? 1 : t->shape[a];
    return count;
}

static void assert_differences(struct made *m, int o)
{
    static const double h = 1e-5;
    const struct attn_tensor *t = made_tensor(m, gradient_sources[o]);
    double *data = t->data;
    for (int64_t x = 0; x < stored_count(t); x++) {
        const double was = data[x];
        data[x] = was + h;
        const double up = forward(m);
        data[x] = was - h;
        const double down = forward(m);
        data[x] = was;
        const double want = (up - down) / (2 * h), got = answers.value[o][x];
        if (!(fabs(got - want) <= 1e-7 * (1 + fabs(want))))
            fail_msg("output %d, element %lld: %.12g, by differences %.12g", o, (long long)x, got,
                     want);
    }
}

static void finite_differences_agree(void **unused)
{
    (void)unused;
    for (uint64_t seed = 0; seed < 3 * GRADIENT_FEATURES; seed++) {
        const int64_t heads = seed % 3 == 0 ? 4 : seed % 3 == 1 ? 2 : 1;
        const struct made_spec spec = {.features = gradient_features[seed % GRADIENT_FEATURES],
                                       .score = seed % 2 ? ATTN_SCORE_DOT : 0,
                                       .spread = 0.7,
                                       .b = 2,
                                       .hq = 4,
                                       .hkv = heads,
                                       .sq = 5,
                                       .sk = 7,
                                       .dk = 3,
                                       .dv = 4,
                                       .seed = seed};
        struct made m;
        gradients_create(&m, &spec);
        gradients_compute(&m, NULL, REF_FILL_GENERIC);
        for (int o = 0; o < GRADIENTS; o++)
            if (attn_tensor_find(&m.problem, gradient_roles[o]))
                assert_differences(&m, o);
        made_free(&m);
    }
}

/* A part of the units, and any number of threads, give the same bits; and so do batches of keys. */
static void parts_are_the_whole(void **unused)
{
    static const int64_t rows[] = {0, 3, 4, 17, 39}, keys[] = {1, 2, 9, 20, 27}, heads[] = {1, 3};
    static struct answers part;
    const struct made_spec spec = {.features = MADE_BIAS | MADE_SINK | MADE_ALIBI | MADE_CAUSAL,
                                   .b = 2,
                                   .hq = 4,
                                   .hkv = 2,
                                   .sq = 5,
                                   .sk = 7,
                                   .dk = 3};
    const struct kernel_style style = {.key_tile = 4, .query_tile = 4};
    struct made m;
    (void)unused;
    gradients_create(&m, &spec);
    const struct attn_numerics numerics = kernel_declares(&m, &style);
    gradients_compute(&m, &numerics, REF_FILL_STRUCTURED);
    struct ref_request some = {
        .numerics = &numerics,
        .fill = REF_FILL_STRUCTURED,
        .threads = 3,
        .units = {{5, rows}, {5, keys}, {0}, {5, rows}, {2, heads}, {2, heads}}};
    struct ref_result result = gradients_result(&part);
    char why[256] = "";
    assert_int_equal(ref_compute(&m.problem, &some, &result, why, sizeof why), ATTN_OK);
    for (int n = 0; n < 5; n++)
        for (int64_t c = 0; c < 3; c++) {
            assert_true(part.value[0][n * 3 + c] == answers.value[0][rows[n] * 3 + c]);
            assert_true(part.bound[0][n * 3 + c] == answers.bound[0][rows[n] * 3 + c]);
            for (int o = 1; o < 3; o++) {
                assert_true(part.value[o][n * 3 + c] == answers.value[o][keys[n] * 3 + c]);
                assert_true(part.bound[o][n * 3 + c] == answers.bound[o][keys[n] * 3 + c]);
            }
        }
    for (int n = 0; n < 5; n++)
        for (int64_t j = 0; j < 7; j++)
            assert_true(part.value[3][n * 7 + j] == answers.value[3][rows[n] * 7 + j]);
    for (int n = 0; n < 2; n++)
        for (int o = 4; o < 6; o++)
            assert_true(part.value[o][n] == answers.value[o][heads[n]]);
    made_free(&m);
}

/* sum q dQ = sum k dK for each head of keys; sum v dV = sum dO out; and equal v leave nothing. */
static void traces_agree(void **unused)
{
    const struct made_spec spec = {
        .features = MADE_CAUSAL | MADE_BIAS, .b = 1, .hq = 4, .hkv = 2, .sq = 9, .sk = 9, .dk = 4};
    struct made m;
    (void)unused;
    gradients_create(&m, &spec);
    gradients_compute(&m, NULL, REF_FILL_GENERIC);
    for (int64_t g = 0; g < 2; g++) {
        double sums[4] = {0};
        for (int64_t x = g * 72; x < (g + 1) * 72; x++) {
            sums[0] += made_get(made_tensor(&m, ATTN_Q), x) * answers.value[0][x];
            sums[2] += made_get(made_tensor(&m, ATTN_GRAD_OUT), x) *
                       made_get(made_tensor(&m, ATTN_OUT), x);
        }
        for (int64_t x = g * 36; x < (g + 1) * 36; x++) {
            sums[1] += made_get(made_tensor(&m, ATTN_K), x) * answers.value[1][x];
            sums[3] += made_get(made_tensor(&m, ATTN_V), x) * answers.value[2][x];
        }
        assert_true(fabs(sums[0] - sums[1]) < 1e-12 * (1 + fabs(sums[0])));
        assert_true(fabs(sums[2] - sums[3]) < 1e-12 * (1 + fabs(sums[2])));
    }
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_V)); x++)
        made_set(made_tensor(&m, ATTN_V), x, 1 + (double)(x % 4));
    assert_int_equal(gradients_derive(&m, "normal"), ATTN_OK);
    gradients_compute(&m, NULL, REF_FILL_GENERIC);
    for (int64_t x = 0; x < 72; x++)
        assert_true(fabs(answers.value[0][x]) < 1e-13 && fabs(answers.value[1][x % 72]) < 1e-13);
    made_free(&m);
}

/* Keys in two parts with the LSE and OUT of all: dQ and dBias add up, dK and dV are the parts. */
static void given_lse_and_out_count(void **unused)
{
    static struct answers whole, sum;
    const struct made_spec spec = {.features = MADE_MASK | MADE_BIAS | MADE_SINK,
                                   .b = 2,
                                   .hq = 4,
                                   .hkv = 2,
                                   .sq = 5,
                                   .sk = 7,
                                   .dk = 3};
    static double seen[KERNEL_ELEMENTS];
    struct made m;
    (void)unused;
    gradients_create(&m, &spec);
    struct attn_tensor *mask = made_tensor(&m, ATTN_MASK);
    gradients_compute(&m, NULL, REF_FILL_GENERIC);
    whole = answers;
    gradients_compute_as(&m, NULL, REF_FILL_GENERIC, true); /* they do follow from the operands */
    for (int o = 0; o < 5; o++)
        for (int64_t x = 0; x < made_count(made_tensor(&m, gradient_roles[o])); x++)
            gradients_near(answers.value[o][x], whole.value[o][x]);
    for (int64_t x = 0; x < made_count(mask); x++)
        seen[x] = made_get(mask, x);
    memset(&sum, 0, sizeof sum);
    for (int part = 0; part < 2; part++) {
        for (int64_t x = 0; x < made_count(mask); x++)
            made_set(mask, x, x % 7 % 2 == part ? seen[x] : 0);
        gradients_compute_as(&m, NULL, REF_FILL_GENERIC, true);
        for (int o = 0; o < 4; o++)
            for (int64_t x = 0; x < made_count(made_tensor(&m, gradient_roles[o])); x++)
                sum.value[o][x] += answers.value[o][x];
        for (int64_t x = 0; x < 84; x++) /* [2,2,7,3] */
            assert_true(x / 3 % 7 % 2 == part || answers.value[1][x] == 0);
    }
    for (int o = 0; o < 4; o++)
        for (int64_t x = 0; x < made_count(made_tensor(&m, gradient_roles[o])); x++)
            gradients_near(sum.value[o][x], whole.value[o][x]);
    made_free(&m);
}

/* ---- rules ---- */

/* Rows that see no key, keys that no row sees: 0, whatever lies there. */
static void what_nobody_sees_is_zero(void **unused)
{
    static const int64_t lengths[] = {0, 3};
    const struct kernel_style style = {.key_tile = 4, .query_tile = 4};
    const struct made_spec spec = {
        .features = MADE_LEN | MADE_BIAS | MADE_SINK, .b = 2, .hq = 2, .sq = 4, .sk = 5, .dk = 3};
    struct made m;
    (void)unused;
    gradients_create(&m, &spec);
    for (int64_t b = 0; b < 2; b++)
        made_set(made_tensor(&m, ATTN_LEN), b, (double)lengths[b]);
    for (int64_t x = 0; x < 24; x++) /* of batch 0 */
        for (int t = 0; t < 2; t++)
            made_set(made_tensor(&m, t ? ATTN_Q : ATTN_GRAD_OUT), x, NAN);
    for (int64_t x = 0; x < 60; x++)
        if (x < 30 || x % 15 >= 9)
            for (int t = 0; t < 2; t++)
                made_set(made_tensor(&m, t ? ATTN_K : ATTN_V), x, t ? NAN : INFINITY);
    assert_int_equal(gradients_derive(&m, "poison"), ATTN_OK);
    assert_true(isnan(made_get(made_tensor(&m, ATTN_OUT), 0)));
    const struct attn_numerics numerics = kernel_declares(&m, &style);
    gradients_compute(&m, &numerics, REF_FILL_STRUCTURED);
    for (int o = 0; o < 3; o++)
        for (int64_t x = 0; x < made_count(made_tensor(&m, gradient_roles[o])); x++) {
            const bool seen = o == 0 ? x >= 24 : x >= 30 && x % 15 < 9;
            assert_true(isfinite(answers.value[o][x]) && isfinite(answers.bound[o][x]));
            assert_true(seen || answers.value[o][x] == 0);
        }
    for (int64_t x = 0; x < 80; x++)
        assert_true((x >= 40 && x % 5 < 3) || answers.value[3][x] == 0);
    assert_true(isfinite(answers.value[4][0]) && isfinite(answers.value[4][1]));
    made_free(&m);
}

/* NaN in v of a key: dQ of its rows and dK of all that they see; dV is made without v. */
static void nan_goes_where_the_formulas_take_it(void **unused)
{
    const struct made_spec spec = {.features = MADE_CAUSAL, .sq = 5, .dk = 3};
    struct made m;
    (void)unused;
    gradients_create(&m, &spec);
    made_set(made_tensor(&m, ATTN_V), 3 * 3, NAN); /* rows 3 and 4 see key 3 */
    assert_int_equal(gradients_derive(&m, "normal"), ATTN_OK);
    gradients_compute(&m, NULL, REF_FILL_GENERIC);
    for (int64_t x = 0; x < 15; x++) {
        assert_true(isnan(answers.value[0][x]) == (x / 3 >= 3));
        assert_true(isnan(answers.value[1][x]));
        assert_true(isfinite(answers.value[2][x]));
    }
    made_set(made_tensor(&m, ATTN_V), 3 * 3, 1);
    made_set(made_tensor(&m, ATTN_GRAD_OUT), 2 * 3 + 1, NAN); /* row 2, column 1 */
    gradients_compute(&m, NULL, REF_FILL_GENERIC);
    for (int64_t x = 0; x < 15; x++) {
        assert_true(isnan(answers.value[0][x]) == (x / 3 == 2));
        assert_true(isnan(answers.value[1][x]) == (x / 3 <= 2));
        assert_true(isnan(answers.value[2][x]) == (x / 3 <= 2 && x % 3 == 1));
    }
    made_free(&m);
}

static void gradients_need_their_operands(void **unused)
{
    const struct made_spec spec = {.sq = 3, .dk = 2};
    const int64_t one[] = {1};
    struct made m;
    char why[256] = "";
    (void)unused;
    gradients_create(&m, &spec);
    assert_int_equal(ref_check_problem(&m.problem, why, sizeof why), ATTN_OK);
    made_add(&m, ATTN_GRAD_SINK, ATTN_F64, 1, one);
    assert_int_equal(ref_check_problem(&m.problem, why, sizeof why), ATTN_INVALID);
    assert_non_null(strstr(why, "role 85 is the gradient of role 20"));
    made_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finite_differences_agree),
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(traces_agree),
        cmocka_unit_test(given_lse_and_out_count),
        cmocka_unit_test(what_nobody_sees_is_zero),
        cmocka_unit_test(nan_goes_where_the_formulas_take_it),
        cmocka_unit_test(gradients_need_their_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
