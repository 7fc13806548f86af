/* SPDX-License-Identifier: Apache-2.0 */
/* test_identities.c - what must hold of the operator whatever the numbers are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "reference/tests/results.h"

static const struct made_spec usual = {.hq = 4, .hkv = 2, .sq = 6, .sk = 9, .dk = 5, .seed = 11};

static void values_of_one_give_one(void **state)
{
    struct results r;
    struct made m;

    (void)state;
    made_create(&m, &usual);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_V)); x++)
        made_set(made_tensor(&m, ATTN_V), x, 1.0);
    results_compute(&m, NULL, &r);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_OUT)); x++)
        results_assert_near(r.out[x], 1.0);
    made_free(&m);
}

static void keys_may_be_permuted(void **state)
{
    struct results r, s;
    struct made m;
    struct attn_tensor *k, *v;

    (void)state;
    made_create(&m, &usual);
    k = made_tensor(&m, ATTN_K);
    v = made_tensor(&m, ATTN_V);
    results_compute(&m, NULL, &r);
    for (int64_t g = 0; g < 2; g++) /* reverse the keys of each head */
        for (int64_t j = 0; j < 4; j++)
            for (int64_t c = 0; c < 5; c++) {
                int64_t a = (g * 9 + j) * 5 + c, b = (g * 9 + 8 - j) * 5 + c;
                double ka = made_get(k, a), va = made_get(v, a);
                made_set(k, a, made_get(k, b));
                made_set(v, a, made_get(v, b));
                made_set(k, b, ka);
                made_set(v, b, va);
            }
    results_compute(&m, NULL, &s);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_OUT)); x++)
        results_assert_near(r.out[x], s.out[x]);
    made_free(&m);
}

static void a_shift_of_all_logits_moves_lse_alone(void **state)
{
    struct made_spec spec = usual;
    struct results r, s;
    struct made m;

    (void)state;
    spec.features = MADE_BIAS;
    made_create(&m, &spec);
    results_compute(&m, NULL, &r);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_BIAS)); x++)
        made_set(made_tensor(&m, ATTN_BIAS), x, made_get(made_tensor(&m, ATTN_BIAS), x) + 3.0);
    results_compute(&m, NULL, &s);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_OUT)); x++)
        results_assert_near(r.out[x], s.out[x]);
    for (int64_t x = 0; x < 24; x++)
        results_assert_near(r.lse[x] + 3.0, s.lse[x]);
    made_free(&m);
}

static void the_future_does_not_matter(void **state)
{
    struct made_spec spec = usual;
    struct results r, s;
    struct made m;

    (void)state;
    spec.features = MADE_CAUSAL;
    spec.hq = spec.hkv = 1;
    made_create(&m, &spec);
    results_compute(&m, &results_f32, &r);
    for (int64_t x = 4 * 5; x < 9 * 5; x++) {
        made_set(made_tensor(&m, ATTN_K), x, NAN);
        made_set(made_tensor(&m, ATTN_V), x, INFINITY);
    }
    results_compute(&m, &results_f32, &s);
    assert_memory_equal(r.out, s.out, 4 * 5 * sizeof(double));
    assert_memory_equal(r.out_bound, s.out_bound, 4 * 5 * sizeof(double));
    assert_memory_equal(r.lse, s.lse, 4 * sizeof(double));
    assert_true(isnan(s.out[4 * 5]));
    made_free(&m);
}

static void grouped_heads_are_repeated_heads(void **state)
{
    struct made_spec repeated = usual;
    struct results r, s;
    struct made m, n;

    (void)state;
    repeated.hkv = 4;
    made_create(&m, &usual);
    made_create(&n, &repeated);
    for (int64_t x = 0; x < made_count(made_tensor(&m, ATTN_Q)); x++)
        made_set(made_tensor(&n, ATTN_Q), x, made_get(made_tensor(&m, ATTN_Q), x));
    for (int64_t h = 0; h < 4; h++)
        for (int64_t x = 0; x < 45; x++) {
            int64_t from = h / 2 * 45 + x;
            made_set(made_tensor(&n, ATTN_K), h * 45 + x, made_get(made_tensor(&m, ATTN_K), from));
            made_set(made_tensor(&n, ATTN_V), h * 45 + x, made_get(made_tensor(&m, ATTN_V), from));
        }
    results_compute(&m, NULL, &r);
    results_compute(&n, NULL, &s);
    assert_memory_equal(r.out, s.out, 4 * 6 * 5 * sizeof(double));
    made_free(&m);
    made_free(&n);
}

/* Identity projections without W_o: the heads of x side by side. */
static void requested_rows_are_rows_of_the_whole(void **state)
{
    static const int64_t index[] = {0, 5, 6, 13, 23};
    struct results r, s;
    struct made m;

    (void)state;
    made_create(&m, &usual);
    results_compute(&m, &results_f32, &r);
    results_compute_rows(&m, &results_f32, &(struct ref_units){5, index}, 3, &s);
    for (int x = 0; x < 5; x++) {
        assert_memory_equal(s.out + x * 5, r.out + index[x] * 5, 5 * sizeof(double));
        assert_memory_equal(s.out_bound + x * 5, r.out_bound + index[x] * 5, 5 * sizeof(double));
        assert_memory_equal(s.weights + x * 9, r.weights + index[x] * 9, 9 * sizeof(double));
        assert_true(s.lse[x] == r.lse[index[x]]);
    }
    made_free(&m);
}

static void threads_do_not_matter(void **state)
{
    struct results r, s;
    struct made m;
    struct ref_units rows = {24, NULL};

    (void)state;
    made_create(&m, &usual);
    results_compute_rows(&m, &results_f32, &rows, 1, &r);
    results_compute_rows(&m, &results_f32, &rows, 4, &s);
    assert_memory_equal(r.out, s.out, 24 * 5 * sizeof(double));
    assert_memory_equal(r.out_bound, s.out_bound, 24 * 5 * sizeof(double));
    made_free(&m);
}

/* Strides in place of copies: one K and V for all, and a mask of one row. */
static void strides_of_zero_broadcast(void **state)
{
    struct made_spec spec = {
        .b = 2, .hq = 2, .sq = 3, .sk = 4, .dk = 2, .features = MADE_MASK, .seed = 13};
    static const uint32_t roles[] = {ATTN_K, ATTN_V, ATTN_MASK};
    struct results r, s;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    for (int t = 0; t < 3; t++) { /* every head a copy of the first */
        struct attn_tensor *x = made_tensor(&m, roles[t]);
        int64_t block = t < 2 ? 8 : 4;
        for (int64_t i = block; i < made_count(x); i++)
            made_set(x, i, made_get(x, i % block));
    }
    results_compute(&m, NULL, &r);
    for (int t = 0; t < 3; t++) {
        struct attn_tensor *x = made_tensor(&m, roles[t]);
        x->stride[0] = x->stride[1] = 0;
        if (t == 2)
            x->stride[2] = 0;
    }
    results_compute(&m, NULL, &s);
    assert_memory_equal(r.out, s.out, 24 * sizeof(double));
    made_free(&m);
}

/* Keys 2^29 elements apart: byte offsets beyond 2^32, element offsets beyond 2^31. */
static void offsets_beyond_32_bits(void **state)
{
    struct made_spec spec = {.sq = 2, .sk = 6, .dk = 2, .dtype = ATTN_F32, .seed = 17};
    const int64_t step = INT64_C(1) << 29;
    const size_t bytes = (size_t)(5 * step + 2) * sizeof(float);
    struct results r, s;
    struct made m;
    struct attn_tensor *k;
    void *dense, *sparse = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)state;
    if (sparse == MAP_FAILED)
        skip();
    made_create(&m, &spec);
    results_compute(&m, NULL, &r);
    k = made_tensor(&m, ATTN_K);
    dense = k->data;
    for (int64_t j = 0; j < 6; j++)
        memcpy((float *)sparse + j * step, (float *)dense + j * 2, 2 * sizeof(float));
    k->data = sparse;
    k->stride[2] = step;
    results_compute(&m, NULL, &s);
    assert_memory_equal(r.out, s.out, 4 * sizeof(double));
    k->data = dense;
    made_free(&m);
    munmap(sparse, bytes);
}

/* Each result alone is what it is among the others; the bound of out needs no out. */
static void results_may_be_left_out(void **state)
{
    struct ref_units rows = {24, NULL};
    double bound[24 * 5], lse[24];
    struct ref_result bound_alone = {.output[0].bound = bound},
                      lse_alone = {.output[1].value = lse};
    struct results r;
    struct made m;
    char why[256];

    (void)state;
    made_create(&m, &usual);
    results_compute(&m, &results_f32, &r);
    assert_int_equal(ref_compute(&m.problem,
                                 &(struct ref_request){.units = {rows},
                                                       .numerics = &results_f32,
                                                       .fill = REF_FILL_GENERIC,
                                                       .threads = 2},
                                 &bound_alone, why, sizeof(why)),
                     ATTN_OK);
    assert_int_equal(
        ref_compute(&m.problem,
                    &(struct ref_request){.units = {rows}, .fill = REF_FILL_GENERIC, .threads = 2},
                    &lse_alone, why, sizeof(why)),
        ATTN_OK);
    assert_memory_equal(bound, r.out_bound, sizeof(bound));
    assert_memory_equal(lse, r.lse, sizeof(lse));
    made_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_one_give_one),
        cmocka_unit_test(keys_may_be_permuted),
        cmocka_unit_test(a_shift_of_all_logits_moves_lse_alone),
        cmocka_unit_test(the_future_does_not_matter),
        cmocka_unit_test(grouped_heads_are_repeated_heads),
        cmocka_unit_test(requested_rows_are_rows_of_the_whole),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(offsets_beyond_32_bits),
        cmocka_unit_test(results_may_be_left_out),
        cmocka_unit_test(strides_of_zero_broadcast),
    };

    return cmocka_run_group_tests_name("identities", tests, NULL, NULL);
}
