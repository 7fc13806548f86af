/* SPDX-License-Identifier: Apache-2.0 */
/* test_onednn_frame.c - what the onednn backend does around attention, against a double loop:
 * scores that are no dot product, projected heads, and layouts, of which it says what it copies. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/common.h"
#include "../onednn.h"

#define HIDDEN 1024 /* with 128 keys a tile of additive.c */

static const struct test_spec scores[] = {
    {.name = "bilinear", .score = ATTN_SCORE_BILINEAR, .sq = 5, .sk = 9, .dq = 6, .dk = 8, .dv = 3},
    {.name = "bilinear, a matrix a head, grouped, bhds",
     .score = ATTN_SCORE_BILINEAR,
     .flags = ATTN_FLAG_CAUSAL,
     .hq = 4,
     .hkv = 2,
     .sq = 5,
     .sk = 9,
     .dq = 6,
     .dk = 8,
     .with = ALL_OUT | WITH_HEAD_PARAMS | WITH_BHDS},
    {.name = "gaussian",
     .score = ATTN_SCORE_GAUSSIAN,
     .hq = 4,
     .hkv = 2,
     .sq = 5,
     .sk = 9,
     .dq = 6},
    {.name = "gaussian, softcap, lse, weights",
     .score = ATTN_SCORE_GAUSSIAN,
     .flags = ATTN_FLAG_SOFTCAP,
     .softcap = 2,
     .hq = 2,
     .sq = 5,
     .sk = 9,
     .dq = 6,
     .with = ALL_OUT | WITH_SINK | WITH_BSHD},
    {.name = "gaussian, poison",
     .score = ATTN_SCORE_GAUSSIAN,
     .b = 3,
     .sq = 9,
     .sk = 24,
     .dq = 8,
     .with = WITH_LEN | WITH_POISON},
    {.name = "gaussian, decode", .score = ATTN_SCORE_GAUSSIAN, .hq = 4, .sq = 1, .sk = 9, .dq = 6},
    {.name = "gaussian, no keys",
     .score = ATTN_SCORE_GAUSSIAN,
     .sq = 2,
     .sk = 0,
     .dq = 6,
     .with = ALL_OUT | WITH_SINK},
    {.name = "additive",
     .score = ATTN_SCORE_ADDITIVE,
     .scale = 1,
     .hq = 4,
     .hkv = 2,
     .sq = 5,
     .sk = 9,
     .dq = 6,
     .dk = 4,
     .dh = 7},
    {.name = "additive, parameters a head, bhds, poison",
     .score = ATTN_SCORE_ADDITIVE,
     .scale = 0.5,
     .hq = 2,
     .sq = 2,
     .sk = 24,
     .dq = 6,
     .dh = 7,
     .with = ALL_OUT | WITH_HEAD_PARAMS | WITH_BHDS | WITH_MASK | WITH_POISON},
    {.name = "additive, no keys",
     .score = ATTN_SCORE_ADDITIVE,
     .sq = 2,
     .sk = 0,
     .dq = 6,
     .dh = 7,
     .with = ALL_OUT},
    {.name = "additive, several tiles of keys",
     .score = ATTN_SCORE_ADDITIVE,
     .scale = 0.03,
     .b = 1,
     .sq = 2,
     .sk = 150,
     .dq = 2,
     .dh = HIDDEN},
    {.name = "additive, several tiles of queries",
     .score = ATTN_SCORE_ADDITIVE,
     .scale = 0.03,
     .b = 1,
     .sq = 9,
     .sk = 20,
     .dq = 2,
     .dh = HIDDEN},
    {.name = "mha, bilinear, no keys",
     .op = ATTN_OP_MHA,
     .score = ATTN_SCORE_BILINEAR,
     .hq = 2,
     .sq = 3,
     .sk = 0,
     .dq = 3,
     .dk = 5,
     .e = 6,
     .with = WITH_X_K | WITH_W_O | WITH_PROJ_BIAS | WITH_LSE},
    {.name = "mha, bilinear, grouped",
     .op = ATTN_OP_MHA,
     .score = ATTN_SCORE_BILINEAR,
     .hq = 4,
     .hkv = 2,
     .sq = 3,
     .sk = 5,
     .dq = 3,
     .dk = 5,
     .dv = 4,
     .e = 6,
     .with = WITH_X_K | WITH_W_O | WITH_PROJ_BIAS | WITH_LSE | WITH_HEAD_PARAMS},
    {.name = "mha, gaussian",
     .op = ATTN_OP_MHA,
     .score = ATTN_SCORE_GAUSSIAN,
     .scale = 0.05,
     .hq = 2,
     .sq = 5,
     .sk = 5,
     .dq = 3,
     .e = 6,
     .with = WITH_W_O | WITH_HEAD_MASK},
    {.name = "mha, additive",
     .op = ATTN_OP_MHA,
     .score = ATTN_SCORE_ADDITIVE,
     .hq = 2,
     .sq = 3,
     .sk = 5,
     .dq = 3,
     .dh = 4,
     .e = 6,
     .with = WITH_X_K | WITH_W_O | WITH_HEAD_PARAMS},
};

static const struct attn_backend *onednn(void)
{
    return attn_plugin.backends[0];
}

static int set_up(void)
{
    char why[256] = "";
    if (attn_plugin.init(NULL, why, sizeof(why)) == ATTN_OK &&
        onednn()->probe(NULL, why, sizeof(why)) == ATTN_OK)
        return 0;
    print_error("%s\n", why);
    return -1;
}

static void every_score_matches_the_oracle(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof(scores) / sizeof(scores[0]); s++)
        test_spec_run(onednn(), &scores[s]);
}

/* A key at infinity has the score -infinity, though q.k and the norms cancel to NaN; NaN is NaN. */
static void a_key_at_infinity_takes_no_part_in_a_gaussian(void **state)
{
    (void)state;
    const double values[] = {INFINITY, -INFINITY, NAN};
    const uint32_t outputs[] = {0, ALL_OUT};
    for (int n = 0; n < 6; n++) {
        const struct test_spec spec = {.name = "gaussian, a key that is not finite",
                                       .score = ATTN_SCORE_GAUSSIAN,
                                       .flags = ATTN_FLAG_CAUSAL,
                                       .sq = 5,
                                       .sk = 5,
                                       .dq = 4,
                                       .with = outputs[n / 3]};
        struct test_problem made;
        test_problem_make(&spec, &made);
        test_set(attn_tensor_find(&made.problem, ATTN_K), (int64_t[]){0, 0, 2, 1}, values[n % 3]);
        test_run(onednn(), &made);
        test_check(&spec, &made);
        test_problem_free(&made);
    }
}

/* The end of what a plan says of itself, from ", copies" on, and the memory it takes. */
static size_t said(const struct test_problem *made, char *text, size_t size)
{
    static const struct attn_option by_primitives = {"path", "primitives"};
    struct test_memory memory = {0};
    struct attn_services services = test_services_make(1, &memory);
    char why[256] = "", all[256] = "";
    void *plan = NULL;
    services.options = &by_primitives;
    services.n_options = 1;
    assert_int_equal(onednn()->create(&made->problem, &services, &plan, why, sizeof(why)), ATTN_OK);
    onednn()->describe(plan, all, sizeof(all));
    onednn()->destroy(plan);
    const char *found = strstr(all, ", copies");
    snprintf(text, size, "%s", found ? found : "");
    return memory.bytes;
}

/* Elements of one tensor twice as far apart, in memory of their own. */
static void spread(struct test_problem *made, uint32_t role)
{
    uint32_t t = 0;
    while (made->tensors[t].role != role)
        t++;
    struct attn_tensor old = made->tensors[t], *now = &made->tensors[t];
    made->bytes[t] *= 2;
    now->data = calloc(made->bytes[t], 1);
    assert_non_null(now->data);
    int64_t count = 1;
    for (uint32_t a = 0; a < old.rank; a++) {
        now->stride[a] *= 2;
        count *= old.shape[a];
    }
    for (int64_t n = 0; n < count; n++) {
        int64_t idx[4] = {0}, rest = n;
        for (uint32_t a = old.rank; a-- > 0; rest /= old.shape[a])
            idx[a] = rest % old.shape[a];
        test_set(now, idx, test_at(&old, idx));
    }
    free(old.data);
}

static void broadcast(struct test_problem *made, uint32_t role, int axis)
{
    for (uint32_t t = 0; t < made->problem.n_tensors; t++)
        if (made->tensors[t].role == role)
            made->tensors[t].stride[axis] = 0;
}

/* Layouts, the operands that are copied in each, and how many elements that is. */
static const struct layout {
    const char *copies;
    uint32_t op, with, spread[4], broadcast; /* roles */
    int axis;
    size_t elements;
} layouts[] = {
    {"", ATTN_OP_ATTENTION, 0, {0}, 0, 0, 0},
    {"", ATTN_OP_ATTENTION, WITH_BSHD, {0}, 0, 0, 0},
    {"", ATTN_OP_ATTENTION, WITH_GAPS, {0}, 0, 0, 0},
    {", copies out", ATTN_OP_ATTENTION, WITH_BHDS, {0}, 0, 0, 2 * 4 * 40 * 16},
    {", copies q, k, v, out",
     ATTN_OP_ATTENTION,
     0,
     {ATTN_Q, ATTN_K, ATTN_V, ATTN_OUT},
     0,
     0,
     4 * 2 * 4 * 40 * 16},
    {", copies k", ATTN_OP_ATTENTION, 0, {0}, ATTN_K, 2, 2 * 4 * 40 * 16},
    {", copies v", ATTN_OP_ATTENTION, 0, {0}, ATTN_V, 3, 2 * 4 * 40 * 16},
    {"", ATTN_OP_ATTENTION, 0, {0}, ATTN_K, 1, 0},
    {"", ATTN_OP_ATTENTION, 0, {0}, ATTN_Q, 0, 0},
    {"", ATTN_OP_MHA, 0, {0}, 0, 0, 0},
    {", copies x_q, out", ATTN_OP_MHA, 0, {ATTN_X_Q, ATTN_OUT}, 0, 0, 2 * 2 * 40 * 16},
    {", copies x_k", ATTN_OP_MHA, WITH_X_K, {ATTN_X_K}, 0, 0, 2 * 40 * 17},
    {", copies x_v", ATTN_OP_MHA, WITH_X_K, {0}, ATTN_X_V, 1, 2 * 40 * 18},
};

/* A layout's results are right, and what it says it copies is what it takes memory for beyond a
 * dense one. Scratch memory of the library may differ by less than an operand. */
static void says_what_it_copies(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof(layouts) / sizeof(layouts[0]); n++) {
        const struct layout *layout = &layouts[n];
        struct test_spec spec = {.name = layout->copies,
                                 .op = layout->op,
                                 .hq = 4,
                                 .sq = 40,
                                 .sk = 40,
                                 .dq = 16,
                                 .e = 16,
                                 .scale = 0.01, /* projected heads are large */
                                 .with = layout->with & WITH_X_K};
        struct test_problem made, dense;
        char text[256];
        spec.with |= layout->op == ATTN_OP_MHA ? WITH_W_O : 0;
        test_problem_make(&spec, &dense);
        spec.with |= layout->with;
        test_problem_make(&spec, &made);
        for (int r = 0; r < 4 && layout->spread[r]; r++)
            spread(&made, layout->spread[r]);
        if (layout->broadcast)
            broadcast(&made, layout->broadcast, layout->axis);
        size_t plain = said(&dense, text, sizeof(text)), extra = said(&made, text, sizeof(text));
        assert_string_equal(text, layout->copies);
        size_t copied = layout->elements * sizeof(float);
        size_t slack = layout->with & WITH_BHDS ? sizeof(float) * 2 * 4 * 40 * 16 : 0;
        print_message("%s: %zu bytes, %zu when dense\n", text, extra, plain);
        assert_in_range(extra, plain + copied, plain + copied + slack);
        test_run(onednn(), &made);
        test_check(&spec, &made);
        test_problem_free(&made);
        test_problem_free(&dense);
    }
}

/* The library's tanh over every 1021st f32, with its sign: relative error against what is declared.
 * NOTES.md has the figure over all of them. */
static void tanh_keeps_its_bound(void **state)
{
    (void)state;
    enum { N = 1 << 18, STEP = 1021 };
    struct attn_onednn_library library;
    struct attn_onednn_step step = {0};
    struct test_memory memory = {0};
    const struct attn_services services = test_services_make(1, &memory), *s = &services;
    dnnl_memory_desc_t desc = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    char why[256];
    double worst = 0;
    float *x = malloc(sizeof(*x) * N), *y = malloc(sizeof(*y) * N);
    assert_true(x && y);
    assert_int_equal(attn_onednn_open(&library, s, why, sizeof(why)), ATTN_OK);
    assert_int_equal(attn_onednn_desc(&desc, ATTN_F32, 1, (int64_t[]){N}, NULL), 0);
    assert_int_equal(attn_onednn_attributes(&attributes, 1, NULL), 0);
    assert_int_equal(dnnl_eltwise_forward_primitive_desc_create(
                         &description, library.engine, dnnl_forward_inference, dnnl_eltwise_tanh,
                         desc, desc, 0, 0, attributes),
                     0);
    assert_int_equal(attn_onednn_step_make(&library, &step, description), 0);
    assert_int_equal(attn_onednn_step_add(&library, &step, DNNL_ARG_SRC, desc, x), 0);
    assert_int_equal(attn_onednn_step_add(&library, &step, DNNL_ARG_DST, desc, y), 0);
    for (uint64_t base = 0x00800000u; base < 0x7f800000u; base += (uint64_t)N * STEP) {
        for (uint32_t n = 0; n < N; n++) {
            uint64_t bits = base + (uint64_t)n * STEP;
            uint32_t word = (uint32_t)(bits < 0x7f800000u ? bits : 0x7f800000u) | n << 31;
            memcpy(&x[n], &word, sizeof(word));
        }
        assert_int_equal(attn_onednn_step_run(&library, &step), 0);
        for (uint32_t n = 0; n < N; n++)
            worst = fmax(worst, fabs((double)y[n] / tanh((double)x[n]) - 1));
    }
    attn_onednn_step_free(&library, &step);
    dnnl_primitive_desc_destroy(description);
    dnnl_primitive_attr_destroy(attributes);
    dnnl_memory_desc_destroy(desc);
    free(x);
    free(y);
    print_message("tanh: %.3f of what is declared\n", worst / ATTN_ONEDNN_E_TANH);
    assert_true(worst > 0 && worst <= ATTN_ONEDNN_E_TANH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_score_matches_the_oracle),
        cmocka_unit_test(a_key_at_infinity_takes_no_part_in_a_gaussian),
        cmocka_unit_test(says_what_it_copies),
        cmocka_unit_test(tanh_keeps_its_bound),
    };
    return set_up() ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
