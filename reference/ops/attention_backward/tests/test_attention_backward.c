/* SPDX-License-Identifier: Apache-2.0 */
/* test_attention_backward.c - the gradients against finite differences of the forward reference and
 * against identities, their rules, and their bound against a tiled kernel that rounds every
 * operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/ops/attention_backward/tests/kernel.h"
#include "reference/reference.h"

enum { OUTPUTS = 6 };

static const uint32_t roles[OUTPUTS] = {ATTN_GRAD_Q,    ATTN_GRAD_K,    ATTN_GRAD_V,
                                        ATTN_GRAD_BIAS, ATTN_GRAD_SINK, ATTN_GRAD_ALIBI};
static const uint32_t sources[OUTPUTS] = {ATTN_Q, ATTN_K, ATTN_V, ATTN_BIAS, ATTN_SINK, ATTN_ALIBI};

/* All results of the reference, in the order of the outputs' tensors. */
static struct answers {
    double value[OUTPUTS][KERNEL_ELEMENTS], bound[OUTPUTS][KERNEL_ELEMENTS];
} answers;
static struct kernel_gradients kernel;

static struct attn_tensor *add(struct made *m, uint32_t role, uint32_t dtype, uint32_t rank,
                               const int64_t *shape)
{
    struct attn_tensor *t = &m->tensors[m->problem.n_tensors++];
    int64_t stride = 1;

    *t = (struct attn_tensor){.role = role, .dtype = dtype, .rank = rank};
    for (uint32_t a = rank; a-- > 0; stride *= shape[a]) {
        t->shape[a] = shape[a];
        t->stride[a] = stride;
    }
    t->data = calloc((size_t)made_count(t) + 1, attn_dtype_size(dtype));
    assert_non_null(t->data);
    return t;
}

static int derive(struct made *m, const char *fill)
{
    return ref_op_find(ATTN_OP_ATTENTION_BACKWARD)->derive(&m->problem, fill, 1);
}

/* A problem with every gradient that its operands have. */
static void create(struct made *m, const struct made_spec *spec)
{
    struct made_spec own = *spec;
    own.op = ATTN_OP_ATTENTION_BACKWARD;
    made_create(m, &own);
    const struct attn_problem *p = &m->problem;
    const uint32_t wide = p->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    const int64_t out[] = {p->b, p->hq, p->sq, p->dv}, heads[] = {p->hq};
    struct attn_tensor *dout = add(m, ATTN_GRAD_OUT, p->dtype, 4, out);
    for (int64_t x = 0; x < made_count(dout); x++)
        made_set(dout, x, made_normal(&m->state));
    add(m, ATTN_LSE, wide, 3, out);
    if (own.seed % 3 == 2) {
        struct attn_tensor *dlse = add(m, ATTN_GRAD_LSE, wide, 3, out);
        for (int64_t x = 0; x < made_count(dlse); x++)
            made_set(dlse, x, made_normal(&m->state));
    }
    for (int o = 0; o < 3; o++)
        add(m, roles[o], p->dtype, 4, made_tensor(m, sources[o])->shape);
    if (own.features & MADE_BIAS) {
        const struct attn_tensor *bias = made_tensor(m, ATTN_BIAS);
        int64_t shape[4];
        for (int a = 0; a < 4; a++)
            shape[a] = bias->stride[a] == 0 ? 1 : bias->shape[a];
        add(m, ATTN_GRAD_BIAS, wide, 4, shape);
    }
    if (own.features & MADE_SINK)
        add(m, ATTN_GRAD_SINK, wide, 1, heads);
    if (own.features & MADE_ALIBI)
        add(m, ATTN_GRAD_ALIBI, wide, 1, heads);
    assert_int_equal(derive(m, "normal"), ATTN_OK);
}

static struct ref_result result_of(struct answers *a)
{
    struct ref_result result = {0};
    for (int o = 0; o < OUTPUTS; o++)
        result.output[o] = (struct ref_values){a->value[o], a->bound[o]};
    return result;
}

static void request(struct made *m, const struct attn_numerics *numerics, enum ref_fill_kind fill,
                    int threads, struct ref_request *r)
{
    *r = (struct ref_request){.numerics = numerics, .fill = fill, .threads = threads};
    ref_request_all(&m->problem, r);
}

static void compute_as(struct made *m, const struct attn_numerics *numerics,
                       enum ref_fill_kind fill, bool given)
{
    struct ref_request all;
    struct ref_result result = result_of(&answers);
    char why[256] = "";
    for (int o = 0; o < OUTPUTS; o++)
        if (!attn_tensor_find(&m->problem, roles[o]))
            result.output[o] = (struct ref_values){NULL, NULL};
    request(m, numerics, fill, 1, &all);
    all.given = given;
    if (ref_compute(&m->problem, &all, &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
}

static void compute(struct made *m, const struct attn_numerics *numerics, enum ref_fill_kind fill)
{
    compute_as(m, numerics, fill, false);
}

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
    const struct attn_tensor *t = made_tensor(m, sources[o]);
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

static const int features[] = {
    0,
    MADE_CAUSAL,
    MADE_CAUSAL | MADE_BR | MADE_LEN,
    MADE_WINDOW | MADE_ALIBI,
    MADE_LEN2D | MADE_SINK,
    MADE_MASK | MADE_BIAS | MADE_BROADCAST,
    MADE_BIAS | MADE_SOFTCAP | MADE_ALIBI | MADE_SINK,
    MADE_KEEP | MADE_BIAS,
    MADE_PHILOX | MADE_SINK | MADE_CAUSAL,
    MADE_BIAS | MADE_BROADCAST | MADE_PHILOX | MADE_SOFTCAP,
};
enum { FEATURES = sizeof features / sizeof *features };

static void finite_differences_agree(void **unused)
{
    (void)unused;
    for (uint64_t seed = 0; seed < 3 * FEATURES; seed++) {
        const int64_t heads = seed % 3 == 0 ? 4 : seed % 3 == 1 ? 2 : 1;
        const struct made_spec spec = {.features = features[seed % FEATURES],
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
        create(&m, &spec);
        compute(&m, NULL, REF_FILL_GENERIC);
        for (int o = 0; o < OUTPUTS; o++)
            if (attn_tensor_find(&m.problem, roles[o]))
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
    create(&m, &spec);
    const struct attn_numerics numerics = kernel_declares(&m, &style);
    compute(&m, &numerics, REF_FILL_STRUCTURED);
    struct ref_request some = {
        .numerics = &numerics,
        .fill = REF_FILL_STRUCTURED,
        .threads = 3,
        .units = {{5, rows}, {5, keys}, {0}, {5, rows}, {2, heads}, {2, heads}}};
    struct ref_result result = result_of(&part);
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
    create(&m, &spec);
    compute(&m, NULL, REF_FILL_GENERIC);
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
    assert_int_equal(derive(&m, "normal"), ATTN_OK);
    compute(&m, NULL, REF_FILL_GENERIC);
    for (int64_t x = 0; x < 72; x++)
        assert_true(fabs(answers.value[0][x]) < 1e-13 && fabs(answers.value[1][x % 72]) < 1e-13);
    made_free(&m);
}

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 * (1 + fabs(want))))
        fail_msg("expected %.15g, got %.15g", want, got);
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
    create(&m, &spec);
    struct attn_tensor *mask = made_tensor(&m, ATTN_MASK);
    compute(&m, NULL, REF_FILL_GENERIC);
    whole = answers;
    compute_as(&m, NULL, REF_FILL_GENERIC, true); /* they do follow from the operands */
    for (int o = 0; o < 5; o++)
        for (int64_t x = 0; x < made_count(made_tensor(&m, roles[o])); x++)
            assert_near(answers.value[o][x], whole.value[o][x]);
    for (int64_t x = 0; x < made_count(mask); x++)
        seen[x] = made_get(mask, x);
    memset(&sum, 0, sizeof sum);
    for (int part = 0; part < 2; part++) {
        for (int64_t x = 0; x < made_count(mask); x++)
            made_set(mask, x, x % 7 % 2 == part ? seen[x] : 0);
        compute_as(&m, NULL, REF_FILL_GENERIC, true);
        for (int o = 0; o < 4; o++)
            for (int64_t x = 0; x < made_count(made_tensor(&m, roles[o])); x++)
                sum.value[o][x] += answers.value[o][x];
        for (int64_t x = 0; x < 84; x++) /* [2,2,7,3] */
            assert_true(x / 3 % 7 % 2 == part || answers.value[1][x] == 0);
    }
    for (int o = 0; o < 4; o++)
        for (int64_t x = 0; x < made_count(made_tensor(&m, roles[o])); x++)
            assert_near(sum.value[o][x], whole.value[o][x]);
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
    create(&m, &spec);
    for (int64_t b = 0; b < 2; b++)
        made_set(made_tensor(&m, ATTN_LEN), b, (double)lengths[b]);
    for (int64_t x = 0; x < 24; x++) /* of batch 0 */
        for (int t = 0; t < 2; t++)
            made_set(made_tensor(&m, t ? ATTN_Q : ATTN_GRAD_OUT), x, NAN);
    for (int64_t x = 0; x < 60; x++)
        if (x < 30 || x % 15 >= 9)
            for (int t = 0; t < 2; t++)
                made_set(made_tensor(&m, t ? ATTN_K : ATTN_V), x, t ? NAN : INFINITY);
    assert_int_equal(derive(&m, "poison"), ATTN_OK);
    assert_true(isnan(made_get(made_tensor(&m, ATTN_OUT), 0)));
    const struct attn_numerics numerics = kernel_declares(&m, &style);
    compute(&m, &numerics, REF_FILL_STRUCTURED);
    for (int o = 0; o < 3; o++)
        for (int64_t x = 0; x < made_count(made_tensor(&m, roles[o])); x++) {
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
    create(&m, &spec);
    made_set(made_tensor(&m, ATTN_V), 3 * 3, NAN); /* rows 3 and 4 see key 3 */
    assert_int_equal(derive(&m, "normal"), ATTN_OK);
    compute(&m, NULL, REF_FILL_GENERIC);
    for (int64_t x = 0; x < 15; x++) {
        assert_true(isnan(answers.value[0][x]) == (x / 3 >= 3));
        assert_true(isnan(answers.value[1][x]));
        assert_true(isfinite(answers.value[2][x]));
    }
    made_set(made_tensor(&m, ATTN_V), 3 * 3, 1);
    made_set(made_tensor(&m, ATTN_GRAD_OUT), 2 * 3 + 1, NAN); /* row 2, column 1 */
    compute(&m, NULL, REF_FILL_GENERIC);
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
    create(&m, &spec);
    assert_int_equal(ref_check_problem(&m.problem, why, sizeof why), ATTN_OK);
    add(&m, ATTN_GRAD_SINK, ATTN_F64, 1, one);
    assert_int_equal(ref_check_problem(&m.problem, why, sizeof why), ATTN_INVALID);
    assert_non_null(strstr(why, "role 85 is the gradient of role 20"));
    made_free(&m);
}

/* ---- the bound ---- */

/* The largest error of the kernel over its bound, of one output. */
static double ratio_of(const struct made *m, int o, double *middle)
{
    const double *const got[] = {kernel.dq,    kernel.dk,    kernel.dv,
                                 kernel.dbias, kernel.dsink, kernel.dalibi};
    const struct attn_tensor *t = attn_tensor_find(&m->problem, roles[o]);
    double most = 0, sum = 0;
    for (int64_t x = 0; t && x < made_count(t); x++) {
        const double off = fabs(got[o][x] - answers.value[o][x]);
        const double ratio = off == 0 ? 0 : off / answers.bound[o][x];
        assert_true(isfinite(answers.bound[o][x]));
        most = fmax(most, ratio);
        sum += ratio;
    }
    if (middle && t)
        *middle = sum / (double)made_count(t);
    return most;
}

/* Kernels that are right stay within the bound, in every type and style. */
static void right_kernels_stay_within(void **unused)
{
    static const uint32_t types[] = {ATTN_F32, ATTN_BF16, ATTN_F16};
    (void)unused;
    for (int type = 0; type < 3; type++) {
        double most[OUTPUTS] = {0}, means[OUTPUTS] = {0}, mean = 0;
        for (uint64_t seed = 0; seed < 200; seed++) {
            const int64_t sq = 3 + (int64_t)(seed * 7 % 29), sk = 2 + (int64_t)(seed * 11 % 31);
            const int chosen = features[seed % FEATURES] & ~MADE_BROADCAST;
            const struct made_spec spec = {.features = chosen,
                                           .dtype = types[type],
                                           .spread = seed % 5 == 4 ? 3 : 1,
                                           .b = 1 + (int64_t)(seed % 2),
                                           .hq = 4,
                                           .hkv = seed % 3 == 0 ? 4 : (int64_t)(seed % 3),
                                           .sq = sq,
                                           .sk = sk,
                                           .dk = 8,
                                           .dv = 5,
                                           .seed = 1000 * seed + 3};
            const struct kernel_style style = {.key_tile = seed % 2 ? 4 : 64,
                                               .query_tile = seed % 3 ? 8 : 64,
                                               .own_lse = seed / 4 % 2,
                                               .own_delta = seed / 8 % 2,
                                               .parts = seed / 16 % 2,
                                               .kept = seed / 32 % 2};
            struct made m;
            create(&m, &spec);
            const struct attn_numerics numerics = kernel_declares(&m, &style);
            compute(&m, &numerics, seed % 2 ? REF_FILL_GENERIC : REF_FILL_STRUCTURED);
            kernel_compute(&m, &style, &kernel);
            for (int o = 0; o < OUTPUTS; o++) {
                most[o] = fmax(most[o], ratio_of(&m, o, &mean));
                means[o] += attn_tensor_find(&m.problem, roles[o]) ? mean / 200 : 0;
            }
            made_free(&m);
        }
        for (int o = 0; o < OUTPUTS; o++) {
            print_message(
                "%s %s: largest error %.3f of the bound, mean %.4f\n", attn_dtype_name(types[type]),
                ref_op_find(ATTN_OP_ATTENTION_BACKWARD)->outputs[o].name, most[o], means[o]);
            assert_true(most[o] < 1);
        }
    }
}

/* The same where LSE and OUT do not follow from the operands: as given, their errors are none. A
 * kernel with its own takes part, too. */
static void right_kernels_stay_within_what_is_given(void **unused)
{
    static const uint32_t types[] = {ATTN_F32, ATTN_BF16, ATTN_F16};
    double most = 0;
    (void)unused;
    for (uint64_t seed = 0; seed < 120; seed++) {
        const struct made_spec spec = {.features = features[seed % FEATURES] & ~MADE_BROADCAST,
                                       .dtype = types[seed % 3],
                                       .b = 1 + (int64_t)(seed % 2),
                                       .hq = 4,
                                       .hkv = 2,
                                       .sq = 3 + (int64_t)(seed * 7 % 29),
                                       .sk = 2 + (int64_t)(seed * 11 % 31),
                                       .dk = 8,
                                       .dv = 5,
                                       .seed = 1000 * seed + 3};
        const struct kernel_style style = {.key_tile = seed % 2 ? 4 : 64,
                                           .query_tile = 8,
                                           .own_lse = seed / 4 % 4 == 1,
                                           .own_delta = seed / 8 % 4 == 1};
        struct made m;
        create(&m, &spec);
        const struct attn_numerics numerics = kernel_declares(&m, &style);
        for (int t = 0; t < 2; t++) {
            struct attn_tensor *given = made_tensor(&m, t ? ATTN_LSE : ATTN_OUT);
            for (int64_t x = 0; x < made_count(given); x++)
                made_set(given, x, made_get(given, x) + 0.3 * made_normal(&m.state));
        }
        compute_as(&m, &numerics, REF_FILL_STRUCTURED, true);
        kernel_compute(&m, &style, &kernel);
        for (int o = 0; o < OUTPUTS; o++)
            most = fmax(most, ratio_of(&m, o, NULL));
        made_free(&m);
    }
    print_message("given LSE and OUT: largest error %.3f of the bound\n", most);
    assert_true(most < 1);
}

/* The sums of heads are stored with the scale in them, below the normal numbers of f16. */
static void scaled_parts_stay_within(void **unused)
{
    double most = 0;
    (void)unused;
    for (uint64_t seed = 0; seed < 40; seed++) {
        const struct made_spec spec = {.dtype = ATTN_F16,
                                       .b = 1,
                                       .hq = 4,
                                       .hkv = 1,
                                       .sq = 1 + (int64_t)(seed % 3),
                                       .sk = 2 + (int64_t)(seed * 11 % 31),
                                       .dk = 64,
                                       .dv = 5,
                                       .seed = 1000 * seed + 3};
        const struct kernel_style style = {
            .key_tile = 64, .query_tile = 64, .parts = true, .scaled = true};
        struct made m;
        create(&m, &spec);
        const struct attn_numerics numerics = kernel_declares(&m, &style);
        struct attn_tensor *dout = made_tensor(&m, ATTN_GRAD_OUT);
        for (int64_t x = 0; x < made_count(dout); x++)
            made_set(dout, x, made_get(dout, x) * 0x1p-10);
        compute(&m, &numerics, REF_FILL_STRUCTURED);
        kernel_compute(&m, &style, &kernel);
        for (int o = 0; o < OUTPUTS; o++)
            most = fmax(most, ratio_of(&m, o, NULL));
        made_free(&m);
    }
    print_message("scaled parts: largest error %.3f of the bound\n", most);
    assert_true(most < 1);
}

/* Where stored p and dS are so many that their errors count in squares. */
static void long_sums_stay_within(void **unused)
{
    static const uint32_t types[] = {ATTN_BF16, ATTN_F16};
    (void)unused;
    for (int type = 0; type < 2; type++) {
        double most = 0;
        for (uint64_t seed = 0; seed < 8; seed++) {
            const struct made_spec spec = {.features = seed % 2 ? MADE_CAUSAL : 0,
                                           .dtype = types[type],
                                           .spread = seed % 4 < 2 ? 1 : 0.1,
                                           .hq = 2,
                                           .hkv = 1,
                                           .sq = 250,
                                           .sk = 250,
                                           .dk = 4,
                                           .seed = 31 * seed + 5};
            const struct kernel_style style = {.key_tile = 64, .query_tile = 32};
            struct made m;
            create(&m, &spec);
            const struct attn_numerics numerics = kernel_declares(&m, &style);
            compute(&m, &numerics, REF_FILL_GENERIC);
            kernel_compute(&m, &style, &kernel);
            for (int o = 0; o < 3; o++)
                most = fmax(most, ratio_of(&m, o, NULL));
            made_free(&m);
        }
        print_message("%s, 250 keys: largest error %.3f of the bound\n",
                      attn_dtype_name(types[type]), most);
        assert_true(most < 1);
    }
}

/* Mistakes at 256 keys exceed the bound, in f32 far. */
static void mistakes_exceed_the_bound(void **unused)
{
    static const uint32_t types[] = {ATTN_F32, ATTN_BF16};
    /* How far the worst of dQ, dK, dV must be beyond it. In bf16 OUT is rounded by as much as a
     * delta in bf16 is. */
    static const double least[KERNEL_MISTAKES][2] = {
        [KERNEL_PAIR_DKV] = {50, 1}, [KERNEL_PAIR_DQ] = {100, 1},    [KERNEL_DIAGONAL] = {1000, 10},
        [KERNEL_SCALE] = {1000, 10}, [KERNEL_NO_DELTA] = {1000, 10}, [KERNEL_LOW_DELTA] = {10, 0},
        [KERNEL_HEAD] = {1000, 10},  [KERNEL_TWO] = {100, 1},        [KERNEL_NO_CAP] = {1000, 10},
        [KERNEL_DP] = {1000, 10}};
    (void)unused;
    for (int type = 0; type < 2; type++)
        for (int mistake = KERNEL_RIGHT; mistake < KERNEL_MISTAKES; mistake++) {
            const bool diagonal = mistake == KERNEL_DIAGONAL;
            const struct made_spec spec = {.features =
                                               (diagonal ? MADE_CAUSAL : 0) |
                                               (mistake == KERNEL_NO_CAP ? MADE_SOFTCAP : 0) |
                                               (mistake == KERNEL_DP ? MADE_PHILOX : 0),
                                           .dtype = types[type],
                                           .hq = 2,
                                           .hkv = 1,
                                           .sq = 256,
                                           .dk = 16,
                                           .seed = 7};
            const struct kernel_style style = {
                .key_tile = 64, .query_tile = 64, .mistake = (enum kernel_mistake)mistake};
            double worst = 0;
            struct made m;
            create(&m, &spec);
            const struct attn_numerics numerics = kernel_declares(&m, &style);
            compute(&m, &numerics, REF_FILL_GENERIC);
            kernel_compute(&m, &style, &kernel);
            for (int o = 0; o < 3; o++)
                worst = fmax(worst, ratio_of(&m, o, NULL));
            print_message("%s, mistake %d: %.3g times the bound\n", attn_dtype_name(types[type]),
                          mistake, worst);
            if (mistake == KERNEL_RIGHT)
                assert_true(worst < 1);
            else
                assert_true(worst > least[mistake][type]);
            made_free(&m);
        }
}

/* Zeroes the rows of the last axis but one, except some. */
static void thin_out(struct made *m, uint32_t role, int64_t step, int64_t kept)
{
    struct attn_tensor *t = made_tensor(m, role);
    for (int64_t x = 0; x < made_count(t); x++)
        if (x / t->shape[3] % t->shape[2] % step != kept)
            made_set(t, x, 0);
}

/* Compares outputs [from, end), asked for alone, with `answers`, and a right kernel with their
 * bounds. */
static void assert_alone(struct made *m, const struct attn_numerics *numerics, int from, int end)
{
    static struct answers alone;
    struct ref_request some;
    struct ref_result result = {0};
    char why[256] = "";
    request(m, numerics, REF_FILL_STRUCTURED, 2, &some);
    for (int o = 0; o < OUTPUTS; o++)
        if (o >= from && o < end)
            result.output[o] = (struct ref_values){alone.value[o], alone.bound[o]};
        else
            some.units[o] = (struct ref_units){0};
    assert_int_equal(ref_compute(&m->problem, &some, &result, why, sizeof why), ATTN_OK);
    const double *const got[] = {kernel.dq, kernel.dk, kernel.dv};
    for (int o = from; o < end; o++)
        for (int64_t x = 0; x < made_count(made_tensor(m, roles[o])); x++) {
            const double want = answers.value[o][x], bound = alone.bound[o][x];
            assert_near(alone.value[o][x], want);
            assert_true(bound <= answers.bound[o][x] * (1 + 1e-9));
            assert_true(fabs(got[o][x] - want) <= bound);
        }
}

/* Keys of 0 are taken together where dQ alone is asked for, and rows without dO are left out where
 * dK and dV are. Neither changes a value, and bounds hold. */
static void zeros_change_nothing(void **unused)
{
    static const uint32_t types[] = {ATTN_F64, ATTN_F32, ATTN_BF16, ATTN_F16};
    (void)unused;
    for (uint64_t seed = 0; seed < 120; seed++) {
        const struct made_spec spec = {.features = features[seed % FEATURES] & ~MADE_BROADCAST,
                                       .dtype = types[seed % 4],
                                       .b = 2,
                                       .hq = 4,
                                       .hkv = 2,
                                       .sq = 20 + (int64_t)(seed % 9),
                                       .sk = 30 + (int64_t)(seed % 7),
                                       .dk = 8,
                                       .dv = 5,
                                       .seed = 1000 * seed + 17};
        const struct kernel_style style = {
            .key_tile = 4, .query_tile = 8, .own_lse = seed % 5 == 4, .own_delta = seed % 3 == 1};
        struct made m;
        create(&m, &spec);
        thin_out(&m, ATTN_K, 9, (int64_t)(seed % 3));
        thin_out(&m, ATTN_V, 9, (int64_t)(seed % 2));
        thin_out(&m, ATTN_GRAD_OUT, 7, 3);
        assert_int_equal(derive(&m, "normal"), ATTN_OK);
        const struct attn_numerics numerics = kernel_declares(&m, &style);
        compute(&m, &numerics, REF_FILL_STRUCTURED);
        kernel_compute(&m, &style, &kernel);
        assert_alone(&m, &numerics, 0, 1);
        assert_alone(&m, &numerics, 1, 3);
        made_free(&m);
    }
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
        cmocka_unit_test(right_kernels_stay_within),
        cmocka_unit_test(right_kernels_stay_within_what_is_given),
        cmocka_unit_test(scaled_parts_stay_within),
        cmocka_unit_test(long_sums_stay_within),
        cmocka_unit_test(mistakes_exceed_the_bound),
        cmocka_unit_test(zeros_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
