/* SPDX-License-Identifier: Apache-2.0 */
/* test_chunked.c - chunked by hand, by a state that is carried from chunk to chunk, and as relu^2
 * attention; and its bound held against kernels that round every operation. */
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

enum { MOST = 320, DK = 6, DL = 4, DV = 5, MOST_CHUNK = 128 };

/* One head, its copy in f32, and what the reference says of it. */
static struct made {
    int64_t tokens, chunk;
    int32_t len; /* -1: not given */
    bool causal, biased, gated;
    double scale, lin_scale;
    double q[MOST * DK], k[MOST * DK], lin_q[MOST * DL], lin_k[MOST * DL], v[MOST * DV];
    double bias[MOST_CHUNK * MOST_CHUNK], gate[MOST * DV];
    float floats[MOST * 2 * (DK + DL + DV) + MOST_CHUNK * MOST_CHUNK];
    struct sequence sequence;
    double out[MOST * DV], bound[MOST * DV];
} made;

static void build(uint32_t dtype)
{
    const int64_t s = made.tokens, g = made.chunk;
    struct sequence *sequence = &made.sequence;
    sequence_begin(sequence, ATTN_OP_CHUNKED, dtype, s, DK, DV, made.floats);
    sequence->problem.scale = made.scale;
    sequence->problem.lin_scale = made.lin_scale;
    sequence->problem.chunk = g;
    sequence->problem.flags = made.causal ? ATTN_FLAG_CAUSAL : 0;
    sequence_add(sequence, ATTN_Q, made.q, (const int64_t[]){1, 1, s, DK}, 4);
    sequence_add(sequence, ATTN_K, made.k, (const int64_t[]){1, 1, s, DK}, 4);
    sequence_add(sequence, ATTN_LIN_Q, made.lin_q, (const int64_t[]){1, 1, s, DL}, 4);
    sequence_add(sequence, ATTN_LIN_K, made.lin_k, (const int64_t[]){1, 1, s, DL}, 4);
    sequence_add(sequence, ATTN_V, made.v, (const int64_t[]){1, 1, s, DV}, 4);
    if (made.biased)
        sequence_add(sequence, ATTN_BIAS, made.bias, (const int64_t[]){1, 1, g, g}, 4);
    if (made.gated)
        sequence_add(sequence, ATTN_GATE, made.gate, (const int64_t[]){1, 1, s, DV}, 4);
    sequence_ask(sequence, ATTN_OUT, (const int64_t[]){1, 1, s, DV}, 4);
    if (made.len >= 0)
        sequence->tensors[sequence->problem.n_tensors++] = (struct attn_tensor){.role = ATTN_LEN,
                                                                                .dtype = ATTN_I32,
                                                                                .rank = 1,
                                                                                .shape = {1},
                                                                                .stride = {1},
                                                                                .data = &made.len};
}

static void fill(double *x, int64_t count, uint64_t seed)
{
    for (int64_t n = 0; n < count; n++)
        x[n] = sequence_normal(seed, (uint64_t)n);
}

/* Every form occurs: bit by bit of the seed. */
static void draw(int64_t tokens, int64_t chunk, uint64_t seed)
{
    made.tokens = tokens;
    made.chunk = chunk;
    made.causal = seed % 2;
    made.biased = seed / 2 % 2;
    made.gated = seed / 4 % 2;
    made.len = seed / 8 % 2 ? (int32_t)(tokens - tokens / 3) : -1;
    made.scale = 1 / (double)chunk;
    made.lin_scale = seed % 3 ? 0 : 0.3;
    fill(made.q, tokens * DK, 8 * seed);
    fill(made.k, tokens * DK, 8 * seed + 1);
    fill(made.lin_q, tokens * DL, 8 * seed + 2);
    fill(made.lin_k, tokens * DL, 8 * seed + 3);
    fill(made.v, tokens * DV, 8 * seed + 4);
    fill(made.bias, chunk * chunk, 8 * seed + 5);
    fill(made.gate, tokens * DV, 8 * seed + 6);
}

static void compute(const struct attn_numerics *numerics, enum ref_fill_kind kind)
{
    struct ref_result result = {.output = {{made.out, made.bound}}};
    sequence_compute(&made.sequence, numerics, kind, &result);
}

/* ---- values ---- */

/* One column of everything: S = 4, chunks of 2. */
static void draw_by_hand(bool causal)
{
    static const double q[] = {1, 2, 3, 4}, k[] = {1, 1, -1, 2}, lin_q[] = {1, 1, 2, 1},
                        lin_k[] = {1, 2, 1, 3};
    made = (struct made){.tokens = 4, .chunk = 2, .len = -1, .causal = causal, .scale = 0.5};
    for (int t = 0; t < 4; t++) {
        made.q[t * DK] = q[t];
        made.k[t * DK] = k[t];
        made.lin_q[t * DL] = lin_q[t];
        made.lin_k[t * DL] = lin_k[t];
        made.v[t * DV] = t + 1;
    }
}

static void it_is_as_by_hand(void **unused)
{
    static const double both[] = {5.75, 8, 46, 69}, causal[] = {0.25, 3, 5, 66.5};
    (void)unused;
    for (int c = 0; c < 2; c++) {
        draw_by_hand(c);
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC);
        for (int t = 0; t < 4; t++)
            assert_true(made.out[t * DV] == (c ? causal : both)[t]);
    }
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += a[c] * b[c];
    return sum;
}

static int64_t keys(void)
{
    return made.len < 0 ? made.tokens : made.len;
}

static double relu2(int64_t i, int64_t j)
{
    const double bias = made.biased ? made.bias[i % made.chunk * made.chunk + j % made.chunk] : 0;
    const double s = fmax(made.scale * dot(made.q + i * DK, made.k + j * DK, DK) + bias, 0);
    return s * s;
}

/* A state [Dl,Dv] for all tokens, or for those of the chunks before: as kernels do it. */
static void by_state(double *out)
{
    double state[DL * DV] = {0};
    const double by =
        made.lin_scale != 0 ? made.lin_scale : 1 / (double)(made.causal ? made.chunk : made.tokens);
    int64_t taken = 0;
    for (int64_t i = 0; i < made.tokens; i++) {
        const int64_t first = i / made.chunk * made.chunk, end = first + made.chunk;
        for (; taken < (made.causal ? first : made.tokens) && taken < keys(); taken++)
            for (int64_t n = 0; n < DL * DV; n++)
                state[n] += made.lin_k[taken * DL + n / DV] * made.v[taken * DV + n % DV];
        for (int64_t d = 0; d < DV; d++) {
            double sum = 0;
            for (int64_t c = 0; c < DL; c++)
                sum += by * made.lin_q[i * DL + c] * state[c * DV + d];
            for (int64_t j = first; j < end && j < keys() && (!made.causal || j <= i); j++)
                sum += relu2(i, j) * made.v[j * DV + d];
            out[i * DV + d] = made.gated ? made.gate[i * DV + d] * sum : sum;
        }
    }
}

static void a_state_gives_the_same(void **unused)
{
    static double out[MOST * DV];
    static const int64_t sizes[][2] = {{1, 1}, {7, 3}, {64, 16}, {65, 16}, {200, 1}, {300, 128}};
    (void)unused;
    for (uint64_t seed = 0; seed < 96; seed++) {
        const int64_t *size = sizes[seed % 6];
        draw(size[0], size[1], seed);
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC);
        by_state(out);
        for (int64_t n = 0; n < made.tokens * DV; n++)
            sequence_near(made.out[n], out[n], 1e-12);
    }
}

/* One chunk and lin_q = 0: GAU, which is relu^2 attention. A longer chunk changes nothing. */
static void one_chunk_is_gau(void **unused)
{
    (void)unused;
    for (uint64_t seed = 0; seed < 16; seed++) {
        draw(60, 60 + 10 * (int64_t)(seed % 3), seed);
        memset(made.lin_q, 0, sizeof made.lin_q);
        build(ATTN_F64);
        compute(NULL, REF_FILL_GENERIC);
        for (int64_t i = 0; i < made.tokens; i++)
            for (int64_t d = 0; d < DV; d++) {
                double sum = 0;
                for (int64_t j = 0; j < keys() && (!made.causal || j <= i); j++)
                    sum += relu2(i, j) * made.v[j * DV + d];
                sequence_near(made.out[i * DV + d], made.gated ? sum * made.gate[i * DV + d] : sum,
                              1e-12);
            }
    }
}

/* What a row does not see leaves no trace: keys beyond len, and with causal later tokens. */
static void nan_reaches_the_rows_that_see_it(void **unused)
{
    static double was[MOST * DV];
    (void)unused;
    for (int causal = 0; causal < 2; causal++)
        for (int64_t at = 0; at < 40; at++) {
            draw(40, 16, (uint64_t)causal + 8);
            made.len = 33;
            build(ATTN_F64);
            compute(NULL, REF_FILL_GENERIC);
            memcpy(was, made.out, sizeof was);
            made.k[at * DK] = made.lin_k[at * DL + 1] = made.v[at * DV] = NAN;
            compute(NULL, REF_FILL_GENERIC);
            for (int64_t i = 0; i < 40; i++) {
                const bool sees = at < 33 && (!causal || at <= i);
                for (int64_t d = 0; d < DV; d++)
                    if (sees)
                        assert_true(isnan(made.out[i * DV + d]));
                    else
                        assert_true(made.out[i * DV + d] == was[i * DV + d]);
            }
        }
}

static void no_keys_give_0(void **unused)
{
    (void)unused;
    draw(20, 8, 3);
    made.len = 0;
    build(ATTN_F64);
    compute(NULL, REF_FILL_GENERIC);
    for (int64_t n = 0; n < 20 * DV; n++)
        assert_true(made.out[n] == 0);
}

static void what_makes_no_sense_is_refused(void **unused)
{
    char why[256];
    (void)unused;
    draw(20, 8, 2);
    build(ATTN_F64);
    struct attn_problem *p = &made.sequence.problem;
    assert_int_equal(ref_check_problem(p, why, sizeof why), ATTN_OK);
    p->chunk = 7; /* the bias is of 8 */
    assert_int_equal(ref_check_problem(p, why, sizeof why), ATTN_INVALID);
    p->chunk = 0;
    assert_int_equal(ref_check_problem(p, why, sizeof why), ATTN_INVALID);
    p->chunk = 8;
    p->off = 1;
    assert_int_equal(ref_check_problem(p, why, sizeof why), ATTN_INVALID);
    p->off = 0;
    p->lin_scale = INFINITY;
    assert_int_equal(ref_check_problem(p, why, sizeof why), ATTN_INVALID);
}

/* ---- the bound ---- */

static uint32_t type; /* to which each operation is rounded */

static double rounded(double x)
{
    return sequence_rounded(type, x);
}

static double product(double a, double b)
{
    return rounded(a * b);
}

/* b + a x, two roundings */
static double with(double sum, double a, double x)
{
    return rounded(sum + product(a, x));
}

static void narrow(double *x, int64_t count)
{
    for (int64_t n = 0; n < count; n++)
        x[n] = rounded(x[n]);
}

static double narrow_weight(int64_t i, int64_t j)
{
    double s = 0;
    for (int64_t c = 0; c < DK; c++)
        s = with(s, made.q[i * DK + c], made.k[j * DK + c]);
    s = product(rounded(made.scale), s);
    if (made.biased)
        s = rounded(s + rounded(made.bias[i % made.chunk * made.chunk + j % made.chunk]));
    return s > 0 ? product(s, s) : 0;
}

/* The linear part of row i: term by term, or by the state. */
static void narrow_linear(int64_t i, bool by_terms, const double *state, double by, double *out)
{
    const int64_t far = made.causal ? i / made.chunk * made.chunk : made.tokens;
    memset(out, 0, DV * sizeof *out);
    for (int64_t j = 0; by_terms && j < far && j < keys(); j++) {
        double weight = 0;
        for (int64_t c = 0; c < DL; c++)
            weight = with(weight, made.lin_q[i * DL + c], made.lin_k[j * DL + c]);
        for (int64_t d = 0; d < DV; d++)
            out[d] = with(out[d], product(by, weight), made.v[j * DV + d]);
    }
    for (int64_t n = 0; !by_terms && n < DL * DV; n++)
        out[n % DV] = with(out[n % DV], product(by, made.lin_q[i * DL + n / DV]), state[n]);
}

static void narrow_kernel(bool by_terms, double *out)
{
    double state[DL * DV] = {0};
    const double by =
        rounded(made.lin_scale != 0 ? made.lin_scale
                                    : 1 / (double)(made.causal ? made.chunk : made.tokens));
    int64_t taken = 0;
    for (int64_t i = 0; i < made.tokens; i++) {
        const int64_t first = i / made.chunk * made.chunk, end = first + made.chunk;
        for (; taken < (made.causal ? first : made.tokens) && taken < keys(); taken++)
            for (int64_t n = 0; n < DL * DV; n++)
                state[n] =
                    with(state[n], made.lin_k[taken * DL + n / DV], made.v[taken * DV + n % DV]);
        narrow_linear(i, by_terms, state, by, out + i * DV);
        for (int64_t j = first; j < end && j < keys() && (!made.causal || j <= i); j++) {
            const double weight = narrow_weight(i, j);
            for (int64_t d = 0; d < DV; d++)
                out[i * DV + d] = with(out[i * DV + d], weight, made.v[j * DV + d]);
        }
        for (int64_t d = 0; made.gated && d < DV; d++)
            out[i * DV + d] = product(made.gate[i * DV + d], out[i * DV + d]);
    }
}

static double ratios[96 * 2 * MOST * DV];

/* Collects errors over bounds of all elements, from `count` on. */
static size_t collect(enum ref_fill_kind kind, size_t count)
{
    static double out[MOST * DV];
    const struct attn_numerics numerics = {.struct_size = sizeof numerics, .acc_type = type};
    build(ATTN_F32);
    compute(&numerics, kind);
    for (int order = 0; order < 2; order++) {
        narrow_kernel(order, out);
        for (int64_t n = 0; n < made.tokens * DV; n++) {
            const double error = fabs(out[n] - made.out[n]);
            assert_true(error <= made.bound[n]);
            ratios[count++] = made.bound[n] > 0 ? error / made.bound[n] : 0;
        }
    }
    return count;
}

static void narrow_inputs(void)
{
    narrow(made.q, made.tokens * DK);
    narrow(made.k, made.tokens * DK);
    narrow(made.lin_q, made.tokens * DL);
    narrow(made.lin_k, made.tokens * DL);
    narrow(made.v, made.tokens * DV);
    narrow(made.gate, made.tokens * DV);
}

static void tell(const char *what, size_t count)
{
    sequence_sort(ratios, count);
    printf("%s %s: error over bound at most %.3f, median %.4f, %zu elements\n",
           attn_dtype_name(type), what, ratios[count - 1], ratios[count / 2], count);
}

static void the_bound_holds(void **unused)
{
    static const uint32_t types[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    static const int64_t sizes[][2] = {{300, 16}, {65, 16}, {150, 64}, {40, 128}};
    (void)unused;
    for (int t = 0; t < 3; t++) {
        size_t count = 0;
        type = types[t];
        for (uint64_t seed = 0; seed < 48; seed++) {
            draw(sizes[seed / 16 % 4][0], sizes[seed / 16 % 4][1], seed);
            narrow_inputs();
            count = collect(REF_FILL_GENERIC, count);
        }
        tell("drawn", count);
        count = 0;
        for (uint64_t seed = 0; seed < 32; seed++) { /* all tokens alike: errors of one sign */
            draw(100, 48, seed);
            for (int64_t n = DK; n < 100 * DK; n++) {
                made.q[n] = made.q[n % DK];
                made.k[n] = made.k[n % DK];
            }
            for (int64_t n = DL; n < 100 * DL; n++) {
                made.lin_q[n] = made.lin_q[n % DL];
                made.lin_k[n] = made.lin_k[n % DL];
            }
            for (int64_t n = DV; n < 100 * DV; n++)
                made.v[n] = made.v[n % DV];
            narrow_inputs();
            count = collect(REF_FILL_STRUCTURED, count);
        }
        tell("all tokens alike", count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_as_by_hand), cmocka_unit_test(a_state_gives_the_same),
        cmocka_unit_test(one_chunk_is_gau), cmocka_unit_test(nan_reaches_the_rows_that_see_it),
        cmocka_unit_test(no_keys_give_0),   cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(the_bound_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
