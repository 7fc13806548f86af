/* SPDX-License-Identifier: Apache-2.0 */
/* problem.c - problems with random tensors for the tests of backends, and runs of them. */
#include "problem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GAP = 3 }; /* elements between rows under WITH_GAPS: no multiple of a vector */

static size_t element_size(uint32_t dtype)
{
    return dtype == ATTN_F64                        ? 8
           : dtype == ATTN_F32 || dtype == ATTN_I32 ? 4
           : dtype == ATTN_BOOL                     ? 1
                                                    : 2;
}

/* 16-bit types by ldexp on their fields, so that nothing is shared with what is tested. */
static double half_value(uint16_t bits, int exponent_bits, int mantissa_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    int exponent = bits >> mantissa_bits & top, mantissa = bits & ((1 << mantissa_bits) - 1);
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == top)
        return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

static uint16_t half_bits(double value, int exponent_bits, int mantissa_bits)
{
    /* the largest that is not above, by search: slow, and obviously right */
    uint16_t best = 0;
    if (isnan(value))
        return (uint16_t)(((1 << exponent_bits) - 1) << mantissa_bits | 1);
    if (isinf(value))
        return (uint16_t)(((1 << exponent_bits) - 1) << mantissa_bits | (value < 0) << 15);
    for (int bit = 14; bit >= 0; bit--) {
        uint16_t next = (uint16_t)(best | 1 << bit);
        if (half_value(next, exponent_bits, mantissa_bits) <= fabs(value))
            best = next;
    }
    return (uint16_t)(best | (value < 0) << 15);
}

static int64_t offset_of(const struct attn_tensor *tensor, const int64_t *idx)
{
    int64_t at = 0;
    for (uint32_t a = 0; a < tensor->rank; a++)
        at += idx[a] * tensor->stride[a];
    return at;
}

double test_at(const struct attn_tensor *tensor, const int64_t *idx)
{
    int64_t at = offset_of(tensor, idx);
    switch (tensor->dtype) {
    case ATTN_F64:
        return ((const double *)tensor->data)[at];
    case ATTN_F32:
        return ((const float *)tensor->data)[at];
    case ATTN_F16:
        return half_value(((const uint16_t *)tensor->data)[at], 5, 10);
    case ATTN_BF16:
        return half_value(((const uint16_t *)tensor->data)[at], 8, 7);
    case ATTN_I32:
        return ((const int32_t *)tensor->data)[at];
    default:
        return ((const uint8_t *)tensor->data)[at];
    }
}

void test_set(const struct attn_tensor *tensor, const int64_t *idx, double value)
{
    int64_t at = offset_of(tensor, idx);
    switch (tensor->dtype) {
    case ATTN_F64:
        ((double *)tensor->data)[at] = value;
        break;
    case ATTN_F32:
        ((float *)tensor->data)[at] = (float)value;
        break;
    case ATTN_F16:
        ((uint16_t *)tensor->data)[at] = half_bits(value, 5, 10);
        break;
    case ATTN_BF16:
        ((uint16_t *)tensor->data)[at] = half_bits(value, 8, 7);
        break;
    case ATTN_I32:
        ((int32_t *)tensor->data)[at] = (int32_t)value;
        break;
    default:
        ((uint8_t *)tensor->data)[at] = (uint8_t)value;
    }
}

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

/* A random element: what is plausible for the role. */
static double draw(uint32_t role, int64_t sk, uint64_t *state)
{
    double x = uniform(state);
    switch (role) {
    case ATTN_MASK:
        return x < 0.7 ? 1 + 254 * (x < 0.35) : 0; /* any byte but 0 is true */
    case ATTN_KEEP:
    case ATTN_HEAD_MASK:
        return x < 0.7;
    case ATTN_LEN:
        return floor(x * (double)(sk + 1) * 0.999);
    case ATTN_BIAS:
        return x < 0.1 ? -INFINITY : 4 * x - 2;
    case ATTN_ALIBI:
        return x;
    default:
        return 4 * x - 2;
    }
}

/* `order` names the axes from the outermost in memory to the innermost; NULL: as they are. */
static void add(struct test_problem *made, uint32_t role, uint32_t dtype, const char *order,
                int64_t gap, int shared, uint32_t rank, const int64_t *shape)
{
    assert_true(made->problem.n_tensors < TEST_TENSORS);
    struct attn_tensor *tensor = &made->tensors[made->problem.n_tensors++];
    *tensor = (struct attn_tensor){.role = role, .dtype = dtype, .rank = rank};
    int64_t step = 1;
    for (uint32_t a = rank; a-- > 0;) {
        uint32_t axis = order ? (uint32_t)(order[a] - '0') : a;
        tensor->shape[axis] = shape[axis];
        tensor->stride[axis] = shared && axis == 0 ? 0 : step;
        if (!(shared && axis == 0))
            step = step * shape[axis] + (a == rank - 1 ? gap : 0);
    }
    size_t elements = (size_t)(step ? step : 1);
    made->bytes[made->problem.n_tensors - 1] = elements * element_size(dtype);
    tensor->data = calloc(elements, element_size(dtype));
    assert_non_null(tensor->data);
    uint64_t state = role * 0x9e3779b97f4a7c15u + 1;
    int64_t count = 1;
    for (uint32_t a = 0; a < rank; a++)
        count *= shape[a];
    for (int64_t n = 0; n < count; n++) {
        int64_t idx[4] = {0}, rest = n;
        for (uint32_t a = rank; a-- > 0; rest /= shape[a])
            idx[a] = rest % shape[a];
        test_set(tensor, idx, draw(role, made->problem.sk, &state));
    }
}

#define ADD(role, type, order, shared, ...)                                                        \
    add(made, role, type, order, gap, shared,                                                      \
        (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* In addition to those of attention. OUT and LSE are random: only `supports` is asked. */
static void add_gradients(struct test_problem *made)
{
    const struct attn_problem *p = &made->problem;
    const uint32_t t = p->dtype, wide = t == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    const int64_t gap = 0;
    ADD(ATTN_LSE, wide, NULL, 0, p->b, p->hq, p->sq);
    ADD(ATTN_GRAD_OUT, t, NULL, 0, p->b, p->hq, p->sq, p->dv);
    ADD(ATTN_GRAD_Q, t, NULL, 0, p->b, p->hq, p->sq, p->dq);
    ADD(ATTN_GRAD_K, t, NULL, 0, p->b, p->hkv, p->sk, p->dk);
    ADD(ATTN_GRAD_V, t, NULL, 0, p->b, p->hkv, p->sk, p->dv);
}

static void add_operands(const struct test_spec *spec, struct test_problem *made)
{
    const struct attn_problem *p = &made->problem;
    uint32_t t = p->dtype, w = spec->with;
    int64_t gap = w & WITH_GAPS ? GAP : 0, e = spec->e;
    const char *order = w & WITH_BSHD ? "0213" : w & WITH_BHDS ? "0132" : NULL;
    if (p->op == ATTN_OP_ATTENTION || p->op == ATTN_OP_ATTENTION_BACKWARD) {
        ADD(ATTN_Q, t, order, 0, p->b, p->hq, p->sq, p->dq);
        ADD(ATTN_K, t, order, 0, p->b, p->hkv, p->sk, p->dk);
        ADD(ATTN_V, t, order, 0, p->b, p->hkv, p->sk, p->dv);
        ADD(ATTN_OUT, t, order, 0, p->b, p->hq, p->sq, p->dv);
        if (p->op == ATTN_OP_ATTENTION_BACKWARD)
            add_gradients(made);
        return;
    }
    ADD(ATTN_X_Q, t, NULL, 0, p->b, p->sq, e);
    if (w & WITH_X_K) {
        ADD(ATTN_X_K, t, NULL, 0, p->b, p->sk, e + 1);
        ADD(ATTN_X_V, t, NULL, 0, p->b, p->sk, e + 2);
    }
    ADD(ATTN_W_Q, t, NULL, 0, p->hq * p->dq, e);
    ADD(ATTN_W_K, t, NULL, 0, p->hkv * p->dk, e + (w & WITH_X_K ? 1 : 0));
    ADD(ATTN_W_V, t, NULL, 0, p->hkv * p->dv, e + (w & WITH_X_K ? 2 : 0));
    if (w & WITH_W_O)
        ADD(ATTN_W_O, t, NULL, 0, e, p->hq * p->dv);
    if (w & WITH_PROJ_BIAS) {
        ADD(ATTN_B_Q, t, NULL, 0, p->hq * p->dq);
        ADD(ATTN_B_K, t, NULL, 0, p->hkv * p->dk);
        ADD(ATTN_B_V, t, NULL, 0, p->hkv * p->dv);
        if (w & WITH_W_O)
            ADD(ATTN_B_O, t, NULL, 0, e);
    }
    ADD(ATTN_OUT, t, NULL, 0, p->b, p->sq, w & WITH_W_O ? e : p->hq * p->dv);
}

static void add_buckets(const struct test_spec *spec, struct test_problem *made)
{
    const int64_t gap = 0, distances = spec->sq + spec->sk - 1;
    ADD(ATTN_REL_POS, ATTN_I32, NULL, 0, distances);
    const struct attn_tensor *table = &made->tensors[made->problem.n_tensors - 1];
    for (int64_t n = 0; n < distances; n++)
        test_set(table, &n, (double)(n * n / 3 % (2 * spec->span)));
}

static void add_extras(const struct test_spec *spec, struct test_problem *made)
{
    const struct attn_problem *p = &made->problem;
    uint32_t t = p->dtype, wide = t == ATTN_F64 ? ATTN_F64 : ATTN_F32, w = spec->with;
    int64_t gap = w & WITH_GAPS ? GAP : 0;
    int shared = !(w & WITH_HEAD_PARAMS);
    if (p->score == ATTN_SCORE_BILINEAR)
        ADD(ATTN_SCORE_M, t, NULL, shared, p->hq, p->dq, p->dk);
    if (p->score == ATTN_SCORE_ADDITIVE) {
        ADD(ATTN_SCORE_WQ, t, NULL, shared, p->hq, p->dh, p->dq);
        ADD(ATTN_SCORE_WK, t, NULL, shared, p->hq, p->dh, p->dk);
        ADD(ATTN_SCORE_WV, t, NULL, shared, p->hq, p->dh);
    }
    if (p->score == ATTN_SCORE_DISENTANGLED) {
        ADD(ATTN_SCORE_KR, t, NULL, shared, p->hq, 2 * spec->span, p->dk);
        ADD(ATTN_SCORE_QR, t, NULL, shared, p->hq, 2 * spec->span, p->dk);
    }
    if (w & WITH_BUCKETS)
        add_buckets(spec, made);
    if (w & WITH_LSE)
        ADD(ATTN_LSE, wide, NULL, 0, p->b, p->hq, p->sq);
    if (w & WITH_WEIGHTS)
        ADD(ATTN_WEIGHTS, t, NULL, 0, p->b, p->hq, p->sq, p->sk);
    if (w & WITH_MASK)
        ADD(ATTN_MASK, ATTN_BOOL, NULL, 1, p->b, p->hq, p->sq, p->sk);
    if (w & WITH_BIAS)
        ADD(ATTN_BIAS, t, NULL, 1, p->b, p->hq, p->sq, p->sk);
    if (w & WITH_LEN)
        ADD(ATTN_LEN, ATTN_I32, NULL, 0, p->b);
    if (w & WITH_LEN_2D)
        ADD(ATTN_LEN, ATTN_I32, NULL, 0, p->b, p->sq);
    if (w & WITH_ALIBI)
        ADD(ATTN_ALIBI, wide, NULL, 0, p->hq);
    if (w & WITH_SINK)
        ADD(ATTN_SINK, wide, NULL, 0, p->hq);
    if (w & WITH_KEEP)
        ADD(ATTN_KEEP, ATTN_BOOL, NULL, 0, p->b, p->hq, p->sq, p->sk);
    if (w & WITH_HEAD_MASK)
        ADD(ATTN_HEAD_MASK, ATTN_BOOL, NULL, 0, p->hq);
}

static int key_used(const struct attn_problem *p, int64_t b, int64_t g, int64_t j)
{
    for (int64_t h = g * (p->hq / p->hkv); h < (g + 1) * (p->hq / p->hkv); h++)
        for (int64_t i = 0; i < p->sq; i++)
            if (test_allowed(p, b, h, i, j))
                return 1;
    return 0;
}

/* Poisons what no query may see; a problem without such a key is a mistake in the test. */
static void poison(const struct attn_problem *p)
{
    const struct attn_tensor *k = attn_tensor_find(p, ATTN_K), *v = attn_tensor_find(p, ATTN_V);
    int poisoned = 0;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t g = 0; g < p->hkv; g++)
            for (int64_t j = 0; j < p->sk; j++) {
                if (key_used(p, b, g, j))
                    continue;
                poisoned++;
                for (int64_t c = 0; c < p->dk; c++)
                    test_set(k, (int64_t[]){b, g, j, c}, c % 2 ? NAN : INFINITY);
                for (int64_t c = 0; c < p->dv; c++)
                    test_set(v, (int64_t[]){b, g, j, c}, c % 2 ? -INFINITY : NAN);
            }
    assert_true(poisoned > 0);
}

static int64_t or_else(int64_t value, int64_t fallback)
{
    return value ? value : fallback;
}

void test_problem_make(const struct test_spec *spec, struct test_problem *made)
{
    int64_t dk = or_else(spec->dk, spec->dq), hq = or_else(spec->hq, 1);
    *made = (struct test_problem){0};
    struct attn_problem *p = &made->problem;
    *p = (struct attn_problem){
        .struct_size = sizeof(*p),
        .op = spec->op ? spec->op : ATTN_OP_ATTENTION,
        .score = spec->score ? spec->score : ATTN_SCORE_SCALED_DOT,
        .dtype = spec->dtype ? spec->dtype : ATTN_F32,
        .flags = spec->flags,
        .b = or_else(spec->b, 2),
        .hq = hq,
        .hkv = or_else(spec->hkv, hq),
        .sq = spec->sq,
        .sk = spec->sk,
        .dq = spec->dq,
        .dk = dk,
        .dv = or_else(spec->dv, spec->dq),
        .dh = spec->dh,
        .scale = spec->scale != 0 ? spec->scale : 1 / sqrt((double)dk),
        .softcap = spec->softcap,
        .off = spec->off,
        .window_left = spec->left,
        .window_right = spec->right,
        .parts = spec->parts,
        .variant = spec->variant,
        .dropout_p = spec->dropout_p,
        .dropout_seed = 0x123456789abcdefu,
        .tensors = made->tensors,
    };
    add_operands(spec, made);
    add_extras(spec, made);
    if (spec->with & WITH_POISON)
        poison(p);
}

void test_problem_free(struct test_problem *made)
{
    for (uint32_t t = 0; t < made->problem.n_tensors; t++)
        free(made->tensors[t].data);
}
