/* SPDX-License-Identifier: Apache-2.0 */
/* test_instance - operands of cases without a pack: values, places in memory, scalars. */
#include "pack/make.h"
#include "tensor/operand.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "reference/dtype.h"

static struct attn_instance *make_with(const char *line, int threads)
{
    char why[512] = "";
    struct attn_case_list list = {0};
    struct attn_instance *instance = NULL;
    if (attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) != 0)
        fail_msg("%s: %s", line, why);
    assert_int_equal(list.count, 1);
    if (attn_instance_create(&list.items[0], threads, &instance, why, sizeof why) != 0)
        fail_msg("%s: %s", line, why);
    attn_case_list_free(&list);
    return instance;
}

static struct attn_instance *make(const char *line)
{
    return make_with(line, 2);
}

static const struct attn_tensor *tensor_of(const struct attn_instance *instance, uint32_t role)
{
    const struct attn_tensor *tensor = attn_tensor_find(&instance->problem, role);
    if (tensor == NULL)
        fail_msg("no %s", attn_role_name(role));
    return tensor;
}

/* Element at a logical index of up to four axes. */
static double at(const struct attn_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t index[4] = {a, b, c, d};
    int64_t offset = 0;
    for (uint32_t axis = 0; axis < t->rank; axis++) {
        assert_true(index[axis] < t->shape[axis]);
        offset += index[axis] * t->stride[axis];
    }
    return attn_dtype_load(t->dtype, t->data, offset);
}

static void assert_strides(const struct attn_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t stride[4] = {a, b, c, d};
    for (uint32_t axis = 0; axis < t->rank; axis++)
        assert_int_equal(t->stride[axis], stride[axis]);
}

static void values_are_the_streams(void **state)
{
    (void)state;
    struct attn_instance *in = make("b=2 hq=3 sq=5 sk=7 dk=4 seed=9 dtype=f16");
    const struct attn_tensor *k = tensor_of(in, ATTN_K);
    uint64_t index = 0;
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 3; h++)
            for (int64_t j = 0; j < 7; j++)
                for (int64_t c = 0; c < 4; c++) {
                    uint16_t rounded;
                    attn_dtype_store(ATTN_F16, &rounded, 0, attn_random_normal(9, ATTN_K, index++));
                    assert_true(at(k, b, h, j, c) == attn_dtype_load(ATTN_F16, &rounded, 0));
                }
    attn_instance_free(in);
}

/* The same case in every layout and view holds the same values. */
static void places_do_not_change_values(void **state)
{
    (void)state;
    static const char *const places[] = {"layout=bshd",
                                         "layout=bhds",
                                         "view=gaps",
                                         "view=permuted",
                                         "view=offset1",
                                         "view=huge",
                                         "layout=bhds view=gaps+permuted+offset1",
                                         "layout=bshd view=huge+offset1"};
    struct attn_instance *plain = make("b=2 hq=4 hkv=2 sq=3 sk=5 dk=6 dv=2 out=lse+weights "
                                       "mask=len:3/5 bias=normal:hk sink=1");
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        char line[256];
        snprintf(line, sizeof line,
                 "b=2 hq=4 hkv=2 sq=3 sk=5 dk=6 dv=2 out=lse+weights mask=len:3/5 bias=normal:hk "
                 "sink=1 %s",
                 places[p]);
        struct attn_instance *in = make(line);
        assert_int_equal(in->problem.n_tensors, plain->problem.n_tensors);
        assert_int_equal(in->bytes, plain->bytes);
        for (uint32_t t = 0; t < in->problem.n_tensors; t++) {
            const struct attn_tensor *a = &in->tensors[t], *b = &plain->tensors[t];
            assert_int_equal(a->role, b->role);
            const int64_t n[4] = {a->shape[0], a->rank > 1 ? a->shape[1] : 1,
                                  a->rank > 2 ? a->shape[2] : 1, a->rank > 3 ? a->shape[3] : 1};
            for (int64_t i = 0; !in->operands[t].output && i < n[0] * n[1] * n[2] * n[3]; i++) {
                const int64_t d = i % n[3], c = i / n[3] % n[2], e = i / n[3] / n[2] % n[1],
                              f = i / n[3] / n[2] / n[1];
                assert_true(at(a, f, e, c, d) == at(b, f, e, c, d));
            }
        }
        attn_instance_free(in);
    }
    attn_instance_free(plain);
}

static void layouts_and_views(void **state)
{
    (void)state;
    struct attn_instance *in = make("b=2 hq=3 sq=4 sk=4 dk=5 layout=bshd");
    assert_strides(tensor_of(in, ATTN_Q), 60, 5, 15, 1);
    assert_strides(tensor_of(in, ATTN_OUT), 60, 5, 15, 1);
    attn_instance_free(in);
    in = make("b=2 hq=3 sq=4 sk=4 dk=5 layout=bhds");
    assert_strides(tensor_of(in, ATTN_V), 60, 20, 1, 4);
    attn_instance_free(in);
    in = make("b=2 hq=3 sq=4 sk=4 dk=5 view=gaps out=lse");
    const struct attn_tensor *q = tensor_of(in, ATTN_Q);
    assert_strides(q, 96, 32, 8, 1);
    assert_strides(tensor_of(in, ATTN_OUT), 96, 32, 8, 1);
    assert_strides(tensor_of(in, ATTN_LSE), 12, 4, 1, 0);
    for (int gap = 5; gap < 8; gap++) /* what lies between the rows is poison */
        assert_true(isnan(((const float *)q->data)[gap]));
    attn_instance_free(in);
    in = make("b=2 hq=3 sq=4 sk=4 dk=5 view=permuted");
    assert_strides(tensor_of(in, ATTN_Q), 15, 5, 30, 1);
    attn_instance_free(in);
    in = make("b=2 hq=3 sq=4 sk=4 dk=5 view=broadcast");
    assert_strides(tensor_of(in, ATTN_K), 0, 20, 5, 1);
    assert_strides(tensor_of(in, ATTN_Q), 60, 20, 5, 1);
    attn_instance_free(in);
    in = make("op=mha b=2 hq=2 sq=3 dk=4 layout=bhds");
    assert_strides(tensor_of(in, ATTN_X_Q), 24, 1, 3, 0);
    assert_strides(tensor_of(in, ATTN_W_Q), 8, 1, 0, 0);
    attn_instance_free(in);
}

static void alignment(void **state)
{
    (void)state;
    struct attn_instance *in = make("sq=3 dk=4 dtype=bf16 view=offset1");
    for (uint32_t t = 0; t < in->problem.n_tensors; t++)
        assert_int_equal((uintptr_t)in->tensors[t].data % 64, 2);
    attn_instance_free(in);
    in = make("sq=3 dk=4 mask=bool:0.5");
    for (uint32_t t = 0; t < in->problem.n_tensors; t++)
        assert_int_equal((uintptr_t)in->tensors[t].data % 64, 0);
    attn_instance_free(in);
}

static void huge_offsets(void **state)
{
    (void)state;
    struct attn_instance *in = make("b=3 hq=2 sq=4 dk=5 view=huge");
    const uint32_t roles[] = {ATTN_Q, ATTN_K, ATTN_V, ATTN_OUT};
    for (size_t r = 0; r < 4; r++) {
        const struct attn_tensor *t = tensor_of(in, roles[r]);
        assert_true(2 * t->stride[0] > INT32_MAX);
        assert_true(attn_tensor_span(t) / sizeof(float) > 1ull << 31);
    }
    attn_instance_free(in);
    in = make("b=1 hq=1 sq=4 dk=5 view=huge"); /* the outermost axis that has two entries */
    assert_true(3 * tensor_of(in, ATTN_Q)->stride[2] > INT32_MAX);
    attn_instance_free(in);
}

static void spans(void **state)
{
    (void)state;
    struct attn_tensor t = {.dtype = ATTN_F32, .rank = 3};
    t.shape[0] = 2, t.shape[1] = 3, t.shape[2] = 4;
    t.stride[0] = 100, t.stride[1] = 10, t.stride[2] = 2;
    assert_int_equal(attn_tensor_span(&t), 4 * (100 + 20 + 6 + 1));
    t.stride[1] = 0;
    assert_int_equal(attn_tensor_span(&t), 4 * (100 + 6 + 1));
    t.shape[1] = 0;
    assert_int_equal(attn_tensor_span(&t), 0);
    t.shape[1] = INT64_MAX / 2;
    t.stride[1] = 4;
    assert_true(attn_tensor_span(&t) == SIZE_MAX);
    t.stride[1] = 1;
    t.dtype = ATTN_F64;
    assert_true(attn_tensor_span(&t) == SIZE_MAX);
}

static void lengths(void **state)
{
    (void)state;
    struct attn_instance *in = make("b=5 sq=2 sk=9 dk=4 mask=len:3/7");
    const struct attn_tensor *len = tensor_of(in, ATTN_LEN);
    assert_int_equal(len->rank, 1);
    assert_int_equal(len->dtype, ATTN_I32);
    const double expected[] = {3, 7, 3, 7, 3};
    for (int64_t b = 0; b < 5; b++)
        assert_true(at(len, b, 0, 0, 0) == expected[b]);
    attn_instance_free(in);

    int seen[2][10] = {{0}};
    in = make("b=400 sq=2 sk=9 dk=4 mask=len:rand");
    for (int64_t b = 0; b < 400; b++)
        seen[0][(int)at(tensor_of(in, ATTN_LEN), b, 0, 0, 0)]++;
    attn_instance_free(in);
    in = make("b=200 sq=2 sk=9 dk=4 mask=len2d:rand");
    assert_int_equal(tensor_of(in, ATTN_LEN)->rank, 2);
    for (int64_t b = 0; b < 200; b++)
        for (int64_t i = 0; i < 2; i++)
            seen[1][(int)at(tensor_of(in, ATTN_LEN), b, i, 0, 0)]++;
    attn_instance_free(in);
    assert_int_equal(seen[0][0], 0); /* 1-D lengths leave no row empty, 2-D ones do */
    for (int n = 1; n < 10; n++)
        assert_true(seen[0][n] > 10 && seen[1][n] > 10);
    assert_true(seen[1][0] > 10);
}

static void masks_and_biases_broadcast(void **state)
{
    (void)state;
    struct attn_instance *in = make("b=2 hq=4 hkv=2 sq=30 sk=50 dk=4 mask=bool:0.3:qk "
                                    "bias=normal:hk dtype=bf16");
    const struct attn_tensor *mask = tensor_of(in, ATTN_MASK), *bias = tensor_of(in, ATTN_BIAS);
    assert_strides(mask, 0, 0, 50, 1);
    assert_int_equal(mask->shape[1], 4);
    assert_strides(bias, 0, 50, 0, 1);
    assert_int_equal(bias->dtype, ATTN_BF16);
    int allowed = 0, one = 0;
    for (int64_t i = 0; i < 1500; i++) {
        allowed += ((const unsigned char *)mask->data)[i] != 0;
        one += ((const unsigned char *)mask->data)[i] == 1;
    }
    assert_true(one < allowed / 10); /* true is any byte but 0 */
    assert_in_range(allowed, 450 - 90, 450 + 90);
    assert_int_equal(in->nnz, 8 * allowed);
    attn_instance_free(in);
}

/* Rows of tables by distance, as transformers 4.57.1 makes them (build_relative_position of
 * deberta_v2, max_position twice the buckets), the span added and clipped. */
static void distances_fall_into_buckets(void **state)
{
    static const int of_6[] = {0,  0,  0,  0,  0,  0,  0,  0,  1,  1,  1,  1,  1,
                               1,  2,  2,  3,  4,  5,  6,  7,  8,  9,  10, 10, 11,
                               11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11};
    static const int of_16[] = {0,  0,  0,  0,  0,  0,  0,  0,  1,  1,  1,  1,  1,  1,  2,  2,
                                2,  2,  3,  3,  3,  3,  4,  4,  4,  5,  5,  5,  6,  6,  7,  8,
                                9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
                                25, 26, 26, 27, 27, 27, 28, 28, 28, 29, 29, 29, 29, 30, 30, 30,
                                30, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31};
    (void)state;
    struct attn_instance *in = make("s=20 d=4 score=disentangled span=6 rel_buckets=log:6");
    assert_int_equal(tensor_of(in, ATTN_REL_POS)->shape[0], 39);
    for (int64_t d = 0; d < 39; d++)
        assert_true(at(tensor_of(in, ATTN_REL_POS), d, 0, 0, 0) == of_6[d]);
    attn_instance_free(in);
    in = make("s=40 d=4 score=disentangled span=16 rel_buckets=log:16");
    for (int64_t d = 0; d < 79; d++)
        assert_true(at(tensor_of(in, ATTN_REL_POS), d, 0, 0, 0) == of_16[d]);
    attn_instance_free(in);
    /* The offset counts: query 0 of two stands at key 4 of five. */
    in = make("sq=2 sk=5 d=4 score=disentangled span=6 rel_buckets=log:6 mask=past:4");
    for (int64_t d = 0; d < 6; d++)
        assert_true(at(tensor_of(in, ATTN_REL_POS), d, 0, 0, 0) == of_6[d + 19]);
    attn_instance_free(in);
}

static void alibi_slopes(void **state)
{
    (void)state;
    struct attn_instance *in = make("hq=8 sq=2 dk=4 bias=alibi");
    for (int64_t h = 0; h < 8; h++)
        assert_true(at(tensor_of(in, ATTN_ALIBI), h, 0, 0, 0) == ldexp(1.0, -(int)h - 1));
    attn_instance_free(in);
    /* 6 heads: those of 4, then every other one of 8 */
    static const double six[] = {0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3};
    in = make("hq=6 sq=2 dk=4 bias=alibi");
    for (int64_t h = 0; h < 6; h++)
        assert_true(at(tensor_of(in, ATTN_ALIBI), h, 0, 0, 0) == six[h]);
    assert_int_equal(tensor_of(in, ATTN_ALIBI)->dtype, ATTN_F32);
    attn_instance_free(in);
    in = make("hq=12 sq=2 dk=4 bias=alibi dtype=f64");
    for (int64_t h = 0; h < 12; h++) {
        const double power = h < 8 ? -(double)(h + 1) : -(2 * (double)(h - 8) + 1) / 2;
        assert_true(fabs(at(tensor_of(in, ATTN_ALIBI), h, 0, 0, 0) - exp2(power)) < 1e-15);
    }
    attn_instance_free(in);
}

static void fills(void **state)
{
    (void)state;
    struct attn_instance *in = make("sq=40 dk=8 fill=uniform");
    double low = 9, high = -9;
    for (int64_t i = 0; i < 40; i++) {
        low = fmin(low, at(tensor_of(in, ATTN_Q), 0, 0, i, 0));
        high = fmax(high, at(tensor_of(in, ATTN_Q), 0, 0, i, 0));
    }
    assert_true(low >= -1 && low < -0.7 && high < 1 && high > 0.7);
    assert_int_equal(in->kind, REF_FILL_GENERIC);
    attn_instance_free(in);
    in = make("sq=4 dk=8 fill=ones");
    assert_true(at(tensor_of(in, ATTN_V), 0, 0, 3, 7) == 1);
    assert_int_equal(in->kind, REF_FILL_STRUCTURED);
    attn_instance_free(in);
    in = make("sq=4 dk=8 fill=zeros");
    assert_true(at(tensor_of(in, ATTN_K), 0, 0, 3, 7) == 0);
    attn_instance_free(in);
}

/* Which kinds of numbers an operand has. */
static void kinds_in(const struct attn_tensor *t, bool *has_nan, bool *has_infinity)
{
    *has_nan = *has_infinity = false;
    for (int64_t n = 0; n < attn_operand_count(t); n++) {
        const double x = attn_dtype_load(t->dtype, t->data, n);
        *has_nan = *has_nan || isnan(x);
        *has_infinity = *has_infinity || isinf(x);
    }
}

static void global_tokens(void **state)
{
    (void)state;
    struct attn_instance *in = make("b=2 hq=3 s=9 dk=2 mask=window:1:2:4/1+global:3");
    static const double steps[] = {4, 1, 4};
    for (int64_t i = 0; i < 18; i++)
        assert_true((at(tensor_of(in, ATTN_GLOBAL), i / 9, i % 9, 0, 0) != 0) == (i % 9 < 3));
    for (int64_t h = 0; h < 3; h++)
        assert_true(at(tensor_of(in, ATTN_DILATION), h, 0, 0, 0) == steps[h]);
    assert_null(attn_tensor_find(&in->problem, ATTN_Q_GLOBAL));
    assert_int_equal(in->nnz, ref_count_allowed(&in->problem));
    attn_instance_free(in);
}

/* q of global rows, q_global of others, k_global where no row is global: nobody reads them. */
static void poison_around_global_tokens(void **state)
{
    (void)state;
    int64_t batches = 0;
    struct attn_instance *in = make("b=6 hq=4 hkv=2 s=30 dk=4 mask=window:2:1+global:rand:0.02 "
                                    "global_proj=1 fill=poison");
    for (int64_t b = 0; b < 6; b++) {
        bool any = false, nan = true;
        for (int64_t i = 0; i < 30; i++) {
            const bool global = at(tensor_of(in, ATTN_GLOBAL), b, i, 0, 0) != 0;
            any = any || global;
            for (int64_t h = 0; h < 4; h++)
                for (int64_t c = 0; c < 4; c++) {
                    assert_int_equal(isnan(at(tensor_of(in, ATTN_Q), b, h, i, c)), global);
                    assert_int_equal(isnan(at(tensor_of(in, ATTN_Q_GLOBAL), b, h, i, c)), !global);
                }
        }
        for (int64_t j = 0; j < 30; j++)
            nan = nan && !isfinite(at(tensor_of(in, ATTN_K_GLOBAL), b, 1, j, 3)) &&
                  !isfinite(at(tensor_of(in, ATTN_V_GLOBAL), b, 0, j, 0));
        assert_int_equal(nan, !any);
        batches += any;
    }
    assert_in_range(batches, 1, 5);
    attn_instance_free(in);
}

/* A row of x that no query sees is a query itself where keys have no x of their own. */
static void poison_of_queries_is_nan(void **state)
{
    (void)state;
    bool nan, infinity;
    struct attn_instance *in = make("op=mha b=2 hq=1 s=9 dk=1 mask=len:3 fill=poison");
    kinds_in(tensor_of(in, ATTN_X_Q), &nan, &infinity);
    assert_true(nan && !infinity);
    attn_instance_free(in);
    in = make("op=mha b=2 hq=1 sq=9 sk=9 dk=1 mask=len:3 kv=cross fill=poison");
    kinds_in(tensor_of(in, ATTN_X_K), &nan, &infinity);
    assert_true(nan && infinity);
    kinds_in(tensor_of(in, ATTN_X_Q), &nan, &infinity);
    assert_true(!nan && !infinity);
    attn_instance_free(in);
}

/* Of an operator without a softmax, too: what lies beyond the lengths. */
static void poison_lies_beyond_the_lengths(void **state)
{
    (void)state;
    static const uint32_t poisoned[] = {ATTN_K, ATTN_LIN_K, ATTN_V};
    struct attn_instance *in =
        make("op=chunked b=2 h=2 s=7 d=3 chunk=4 mask=len:7/3 bias=normal:hk fill=poison");
    bool nan, infinity;
    for (size_t n = 0; n < 3; n++)
        for (int64_t j = 0; j < 7; j++) {
            const struct attn_tensor *t = tensor_of(in, poisoned[n]);
            assert_true(isfinite(at(t, 0, 1, j, 2)));
            assert_int_equal(isfinite(at(t, 1, 1, j, 2)) != 0, j < 3);
        }
    kinds_in(tensor_of(in, ATTN_LIN_Q), &nan, &infinity);
    assert_true(!nan && !infinity);
    assert_strides(tensor_of(in, ATTN_BIAS), 0, 4, 0, 1);
    attn_instance_free(in);
}

static void multi_head_operands(void **state)
{
    (void)state;
    struct attn_instance *in = make("op=mha b=2 hq=4 hkv=2 sq=3 sk=5 dk=6 dv=7 e=10 kv=cross "
                                    "proj_bias=1 prune=1/3 out=lse");
    const struct attn_problem *p = &in->problem;
    assert_int_equal(tensor_of(in, ATTN_W_Q)->shape[0], 24);
    assert_int_equal(tensor_of(in, ATTN_W_K)->shape[0], 12);
    assert_int_equal(tensor_of(in, ATTN_W_V)->shape[0], 14);
    assert_int_equal(tensor_of(in, ATTN_W_O)->shape[0], 10);
    assert_int_equal(tensor_of(in, ATTN_W_O)->shape[1], 28);
    assert_int_equal(tensor_of(in, ATTN_X_K)->shape[1], 5);
    assert_int_equal(tensor_of(in, ATTN_B_V)->shape[0], 14);
    assert_int_equal(tensor_of(in, ATTN_OUT)->rank, 3);
    assert_int_equal(tensor_of(in, ATTN_OUT)->shape[2], 10);
    assert_null(attn_tensor_find(p, ATTN_X_V));
    const double keep[] = {1, 0, 1, 0};
    for (int64_t h = 0; h < 4; h++)
        assert_true(at(tensor_of(in, ATTN_HEAD_MASK), h, 0, 0, 0) == keep[h]);
    char why[256] = "";
    if (ref_check_problem(p, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
    attn_instance_free(in);
    in = make("op=mha hq=3 sq=3 dk=4 wo=0");
    assert_null(attn_tensor_find(&in->problem, ATTN_W_O));
    assert_int_equal(tensor_of(in, ATTN_OUT)->shape[2], 12);
    attn_instance_free(in);
}

static void weights_keep_the_scale(void **state)
{
    (void)state;
    struct attn_instance *in = make("op=mha hq=4 sq=3 dk=16 e=256 score=additive dh=32");
    const struct attn_tensor *w = tensor_of(in, ATTN_W_Q);
    double square = 0;
    for (int64_t i = 0; i < 64; i++)
        for (int64_t j = 0; j < 256; j++)
            square += at(w, i, j, 0, 0) * at(w, i, j, 0, 0);
    assert_true(fabs(square / 64 - 1) < 0.1);
    const struct attn_tensor *s = tensor_of(in, ATTN_SCORE_WQ);
    assert_strides(s, 0, 16, 1, 0);
    assert_int_equal(s->shape[0], 4);
    attn_instance_free(in);
}

/* Rows (or, where there are more rows than columns, columns) are orthonormal. */
static void stiefel_weights(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "op=mha hq=4 sq=3 dk=8 e=48 dtype=f64 weights=stiefel",
        "op=mha hq=4 sq=3 dk=16 e=24 dtype=f64 weights=stiefel",
        "op=mha hq=1 sq=3 dk=150 e=150 dtype=f64 weights=stiefel",
    };
    for (size_t l = 0; l < 3; l++) {
        struct attn_instance *in = make(lines[l]), *alone = make_with(lines[l], 1);
        const uint32_t roles[] = {ATTN_W_Q, ATTN_W_O};
        for (int r = 0; r < 2; r++) {
            const struct attn_tensor *w = tensor_of(in, roles[r]);
            const int rows = w->shape[0] <= w->shape[1];
            const int64_t count = w->shape[!rows], length = w->shape[rows];
            for (int64_t i = 0; i < count; i++)
                for (int64_t j = 0; j <= i; j++) {
                    double dot = 0;
                    for (int64_t c = 0; c < length; c++)
                        dot += rows ? at(w, i, c, 0, 0) * at(w, j, c, 0, 0)
                                    : at(w, c, i, 0, 0) * at(w, c, j, 0, 0);
                    assert_true(fabs(dot - (i == j)) < 1e-13);
                }
            assert_memory_equal(w->data, tensor_of(alone, roles[r])->data, attn_tensor_span(w));
        }
        attn_instance_free(in);
        attn_instance_free(alone);
    }
}

/* Rows of a block are orthogonal, of two blocks they are not; their lengths differ. Heads differ
 * with params=head, and share one set without. */
static void orthogonal_features(void **state)
{
    (void)state;
    enum { M = 20, DK = 8 };
    const char *line = "op=performer h=2 s=3 d=8 features=20 dtype=f64 params=head";
    struct attn_instance *in = make(line), *alone = make_with(line, 1);
    const struct attn_tensor *w = tensor_of(in, ATTN_FEATURES);
    double square = 0, across = 0;
    assert_memory_equal(w->data, tensor_of(alone, ATTN_FEATURES)->data, attn_tensor_span(w));
    for (int64_t h = 0; h < 2; h++)
        for (int64_t r = 0; r < M; r++)
            for (int64_t e = 0; e <= r; e++) {
                double dot = 0;
                for (int64_t c = 0; c < DK; c++)
                    dot += at(w, h, r, c, 0) * at(w, h, e, c, 0);
                if (e == r)
                    square += dot;
                else if (e / DK == r / DK)
                    assert_true(fabs(dot) < 1e-12);
                else
                    across = fmax(across, fabs(dot));
            }
    assert_true(fabs(square / (2 * M * DK) - 1) < 0.2 && across > 1);
    assert_true(at(w, 0, 0, 0, 0) != at(w, 1, 0, 0, 0));
    attn_instance_free(in);
    attn_instance_free(alone);
    in = make("op=performer h=2 s=3 d=8 features=20");
    assert_strides(tensor_of(in, ATTN_FEATURES), 0, 8, 1, 0);
    attn_instance_free(in);
}

static void scalars_and_work(void **state)
{
    (void)state;
    struct attn_instance *in =
        make("b=2 hq=3 sq=4 sk=6 dk=8 dv=10 mask=causal_br+window:2:-1 softcap=30 dropout=0.25 "
             "seed=77 out=lse+weights");
    const struct attn_problem *p = &in->problem;
    assert_int_equal(p->flags, ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR |
                                   ATTN_FLAG_SOFTCAP | ATTN_FLAG_DROPOUT);
    assert_true(p->scale == 1 / sqrt(8.0) && p->softcap == 30 && p->dropout_p == 0.25);
    assert_int_equal(p->dropout_seed, 77);
    assert_int_equal(p->window_left, 2);
    assert_int_equal(p->window_right, -1);
    assert_int_equal(in->nnz, 2 * 3 * 4 * 3); /* three keys a row */
    assert_true(in->flops == 2.0 * (8 + 10) * 72);
    assert_int_equal(in->bytes, 4 * (2 * 3 * (4 * 8 + 6 * 8 + 6 * 10 + 4 * 10 + 4 + 4 * 6)));
    assert_true(isnan(at(tensor_of(in, ATTN_OUT), 1, 2, 3, 9)));
    char why[256] = "";
    if (ref_check_problem(p, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
    attn_instance_free(in);
    in = make("sq=4 sk=0 dk=8"); /* no keys: still a problem with places for data */
    assert_int_equal(in->nnz, 0);
    assert_non_null(tensor_of(in, ATTN_K)->data);
    assert_int_equal(attn_tensor_span(tensor_of(in, ATTN_K)), 0);
    attn_instance_free(in);
}

/* Row n of q. */
static const float *query(const struct attn_instance *in, int64_t n)
{
    const struct attn_tensor *q = attn_tensor_find(&in->problem, ATTN_Q);
    return (const float *)q->data + n * q->shape[3];
}

/* Few distinct queries, shared by the heads of a group; neighbours differ; v are signs. */
static void few_queries(void **state)
{
    (void)state;
    enum { SQ = 300, D = 16 };
    struct attn_instance *in = make("b=2 hq=4 hkv=2 sq=300 sk=90 dk=16 fill=few_queries");
    const struct attn_tensor *v = attn_tensor_find(&in->problem, ATTN_V);
    for (int64_t head = 0; head < 8; head += 2) {
        const float *seen[64];
        int64_t count = 0, elsewhere = 0;
        for (int64_t i = 0; i < 2 * SQ; i++) { /* two heads of one group */
            const float *q = query(in, head * SQ + i);
            int64_t n = 0;
            while (n < count && memcmp(seen[n], q, D * sizeof *q) != 0)
                n++;
            assert_true(n < 32);
            seen[n] = q;
            count += n == count;
            if (i % SQ > 0)
                assert_memory_not_equal(q, q - D, D * sizeof *q);
            elsewhere += i >= 64 && memcmp(q, q - (ptrdiff_t)64 * D, D * sizeof *q) != 0;
        }
        assert_int_equal(count, 32);
        assert_true(elsewhere > 400);
    }
    for (int64_t x = 0; x < attn_operand_count(v); x++)
        assert_true(fabsf(((const float *)v->data)[x]) == 1);
    attn_instance_free(in);
}

/* What can be copied from the case's own inputs is what would be drawn, under every fill. */
static void copies_are_what_is_drawn(void **state)
{
    static const char *const lines[] = {
        "b=2 hq=4 hkv=2 s=9 d=33 mask=bool:0.7 bias=normal:hk sink=1 view=gaps",
        "b=2 h=2 sq=5 sk=12 d=8 score=bilinear mask=len:rand bias=alibi dtype=f16 layout=bshd",
        "b=3 h=2 s=7 d=16 score=additive dh=4 mask=causal view=broadcast+offset1 dtype=f64",
        "op=mha b=2 h=2 s=9 d=8 weights=stiefel dtype=bf16",
    };
    (void)state;
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++) {
        struct attn_instance *own = make(lines[n]);
        for (enum attn_fill fill = ATTN_FILL_UNIFORM; fill < ATTN_FILL_COUNT; fill++) {
            struct attn_case c = own->c; /* nothing in the copy is owned */
            struct attn_instance *drawn, *copied;
            char why[512];
            c.fill = fill;
            if (!attn_fill_fits(&own->c, fill, NULL, 0))
                continue;
            assert_int_equal(attn_instance_create(&c, 2, &drawn, why, sizeof why), 0);
            assert_int_equal(attn_instance_create_like(&c, own, 2, &copied, why, sizeof why), 0);
            assert_int_equal(drawn->problem.n_tensors, copied->problem.n_tensors);
            for (uint32_t t = 0; t < drawn->problem.n_tensors; t++)
                if (memcmp(drawn->tensors[t].data, copied->tensors[t].data,
                           attn_tensor_span(&drawn->tensors[t])))
                    fail_msg("%s fill=%s: %s differs", lines[n], attn_fill_name(fill),
                             attn_role_name(drawn->tensors[t].role));
            assert_true(drawn->nnz == copied->nnz && drawn->flops == copied->flops);
            attn_instance_free(drawn);
            attn_instance_free(copied);
        }
        attn_instance_free(own);
    }
}

static void threads_do_not_change_bits(void **state)
{
    (void)state;
    const char *line = "b=2 hq=3 sq=100 dk=70 mask=bool:0.4";
    struct attn_instance *one = make_with(line, 1), *four = make_with(line, 4);
    for (uint32_t t = 0; t < one->problem.n_tensors; t++)
        assert_memory_equal(one->tensors[t].data, four->tensors[t].data, one->operands[t].span);
    attn_instance_free(one);
    attn_instance_free(four);
}

/* Under AddressSanitizer, too, a refused allocation is to be an answer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void memory_refused(void **state)
{
    (void)state;
    char why[512] = "";
    struct attn_case_list list = {0};
    const char *line = "b=1000000 hq=1000 sq=100000 sk=1000 dk=1000";
    assert_int_equal(attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why), 0);
    struct attn_instance *instance = NULL;
    assert_int_equal(attn_instance_create(&list.items[0], 1, &instance, why, sizeof why), -1);
    assert_null(instance);
    assert_string_equal(why, "no memory for q");
    attn_case_list_free(&list);
}

static void names_of_roles(void **state)
{
    (void)state;
    assert_string_equal(attn_role_name(ATTN_W_O), "w_o");
    assert_string_equal(attn_role_name(ATTN_SCORE_WV), "score_w_v");
    assert_string_equal(attn_role_name(ATTN_BLOCK_TABLE), "?");
}

/* fill=smooth: rows of q and of k follow each other within a head, whatever the operator; v does
 * not. */
static void smooth_rows_are_alike(void **state)
{
    static const char *const lines[] = {
        "b=2 hq=4 hkv=2 sq=30 sk=50 dk=3 dtype=f64 fill=smooth layout=bhds view=broadcast",
        "op=linformer b=2 hq=4 hkv=2 sq=30 sk=50 dk=3 dtype=f64 fill=smooth landmarks=4"};
    static const uint32_t roles[] = {ATTN_Q, ATTN_K};
    (void)state;
    for (size_t n = 0; n < 4; n++) {
        struct attn_instance *in = make(lines[n / 2]);
        const struct attn_tensor *t = tensor_of(in, roles[n % 2]), *v = tensor_of(in, ATTN_V);
        const int64_t steps = t->shape[2];
        assert_int_equal(in->kind, REF_FILL_GENERIC);
        for (int64_t row = 0; row < t->shape[1] * steps; row++) {
            const int64_t h = row / steps, i = row % steps;
            for (int64_t c = 0; c < 3; c++) {
                const double own = attn_random_normal(1, t->role, (uint64_t)(row * 3 + c));
                const double want =
                    i ? 0.98 * at(t, 0, h, i - 1, c) + sqrt(1 - 0.98 * 0.98) * own : own;
                assert_true(fabs(at(t, 0, h, i, c) - want) < 1e-15);
            }
        }
        assert_true(at(v, 0, 0, 1, 0) == attn_random_normal(1, ATTN_V, 3));
        attn_instance_free(in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_streams),
        cmocka_unit_test(places_do_not_change_values),
        cmocka_unit_test(layouts_and_views),
        cmocka_unit_test(alignment),
        cmocka_unit_test(huge_offsets),
        cmocka_unit_test(spans),
        cmocka_unit_test(lengths),
        cmocka_unit_test(masks_and_biases_broadcast),
        cmocka_unit_test(alibi_slopes),
        cmocka_unit_test(distances_fall_into_buckets),
        cmocka_unit_test(fills),
        cmocka_unit_test(global_tokens),
        cmocka_unit_test(poison_around_global_tokens),
        cmocka_unit_test(poison_of_queries_is_nan),
        cmocka_unit_test(poison_lies_beyond_the_lengths),
        cmocka_unit_test(multi_head_operands),
        cmocka_unit_test(weights_keep_the_scale),
        cmocka_unit_test(stiefel_weights),
        cmocka_unit_test(orthogonal_features),
        cmocka_unit_test(scalars_and_work),
        cmocka_unit_test(few_queries),
        cmocka_unit_test(copies_are_what_is_drawn),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(memory_refused),
        cmocka_unit_test(names_of_roles),
        cmocka_unit_test(smooth_rows_are_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
