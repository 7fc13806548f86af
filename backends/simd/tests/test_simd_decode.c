/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_decode.c - few rows against many keys: K and V read in place or packed, keys split into
 * parts, on every instance that this machine has. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/common.h"
#include "attnbench/rows.h"

static const struct test_spec specs[] = {
    {.name = "one row", .hq = 2, .sq = 1, .sk = 1500, .dq = 128, .with = WITH_LSE},
    {.name = "one row, odd widths",
     .hq = 2,
     .sq = 1,
     .sk = 1031,
     .dq = 37,
     .dv = 83,
     .with = WITH_LSE | WITH_GAPS},
    {.name = "narrow", .sq = 1, .sk = 5000, .dq = 5, .dv = 3, .with = WITH_LSE | WITH_LEN},
    {.name = "every count of rows in place, 2", .hq = 2, .hkv = 1, .sq = 1, .sk = 1100, .dq = 64},
    {.name = "3, lengths",
     .hq = 3,
     .hkv = 1,
     .sq = 1,
     .sk = 1100,
     .dq = 80,
     .with = WITH_LSE | WITH_LEN},
    {.name = "4, bshd", .hq = 8, .hkv = 2, .sq = 1, .sk = 1100, .dq = 64, .with = WITH_BSHD},
    {.name = "5, sink", .hq = 1, .sq = 5, .sk = 1100, .dq = 72, .with = WITH_LSE | WITH_SINK},
    {.name = "6, dropout",
     .flags = ATTN_FLAG_DROPOUT,
     .dropout_p = 0.3,
     .hq = 2,
     .hkv = 1,
     .sq = 3,
     .sk = 1100,
     .dq = 48,
     .with = WITH_LSE | WITH_KEEP},
    {.name = "7, alibi, bias",
     .hq = 1,
     .sq = 7,
     .sk = 1100,
     .dq = 40,
     .with = WITH_LSE | WITH_BIAS | WITH_ALIBI},
    {.name = "8, causal, poison",
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR,
     .hq = 2,
     .hkv = 1,
     .sq = 4,
     .sk = 1100,
     .dq = 64,
     .with = WITH_LSE | WITH_LEN | WITH_POISON},
    {.name = "10, window leaves parts empty",
     .flags = ATTN_FLAG_WINDOW,
     .left = 20,
     .right = 9,
     .off = 700,
     .hq = 2,
     .hkv = 1,
     .sq = 5,
     .sk = 1900,
     .dq = 24,
     .with = WITH_LSE},
    {.name = "12, mask, keep mask",
     .flags = ATTN_FLAG_DROPOUT | ATTN_FLAG_SOFTCAP,
     .dropout_p = 0.2,
     .softcap = 2.0,
     .hq = 12,
     .hkv = 1,
     .sq = 1,
     .sk = 1100,
     .dq = 64,
     .with = WITH_LSE | WITH_MASK | WITH_KEEP},
    {.name = "14, in place or packed", .hq = 7, .hkv = 1, .sq = 2, .sk = 1300, .dq = 64},
    {.name = "20, packed", .hq = 5, .hkv = 1, .sq = 4, .sk = 1300, .dq = 128, .with = WITH_LSE},
    {.name = "one row, parts of several long tiles",
     .b = 1,
     .hq = 40,
     .sq = 1,
     .sk = 5000,
     .dq = 8,
     .with = WITH_LSE | WITH_LEN},
    {.name = "64, packed, sink, lengths",
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR,
     .b = 1,
     .hq = 8,
     .hkv = 1,
     .sq = 8,
     .sk = 1300,
     .dq = 64,
     .with = WITH_LSE | WITH_SINK | WITH_LEN | WITH_POISON},
    {.name = "key by key in memory",
     .hq = 2,
     .hkv = 1,
     .sq = 2,
     .sk = 1300,
     .dq = 40,
     .with = WITH_LSE | WITH_BHDS},
    {.name = "gaussian",
     .score = ATTN_SCORE_GAUSSIAN,
     .hq = 3,
     .hkv = 1,
     .sq = 1,
     .sk = 2100,
     .dq = 20,
     .with = WITH_LSE},
    {.name = "bilinear",
     .score = ATTN_SCORE_BILINEAR,
     .scale = 0.2,
     .hq = 2,
     .hkv = 1,
     .sq = 2,
     .sk = 2100,
     .dq = 12,
     .dk = 18,
     .with = WITH_LSE | WITH_SINK},
    {.name = "additive",
     .score = ATTN_SCORE_ADDITIVE,
     .b = 1,
     .sq = 2,
     .sk = 2100,
     .dq = 9,
     .dk = 13,
     .dh = 7,
     .with = WITH_LSE},
    {.name = "weights", .hq = 2, .hkv = 1, .sq = 1, .sk = 1100, .dq = 64, .with = ALL_OUT},
    {.name = "sinks alone", .hq = 2, .sq = 1, .sk = 0, .dq = 64, .with = WITH_LSE | WITH_SINK},
};

/* Each in f32 and in one of these. */
static const uint32_t halves[] = {ATTN_BF16, ATTN_F16};

static struct test_spec typed(size_t n, uint32_t dtype)
{
    struct test_spec spec = specs[n];
    spec.dtype = dtype;
    return spec;
}

static void matches_the_oracle(void **state)
{
    for (size_t n = 0; n < sizeof specs / sizeof *specs; n++) {
        const struct test_spec half = typed(n, halves[n % 2]);
        test_spec_run(*state, &specs[n]);
        test_spec_run(*state, &half);
    }
}

static void *plain_alloc(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void plain_free(void *context, void *memory)
{
    (void)context;
    free(memory);
}

/* Runs a problem `runs` times on some threads; gives what the plan declares. */
static struct attn_numerics run_on(const struct attn_backend *backend,
                                   const struct test_problem *made, uint32_t threads, int runs)
{
    struct attn_services services = {.struct_size = sizeof services,
                                     .threads = threads,
                                     .alloc = plain_alloc,
                                     .free = plain_free};
    struct attn_numerics numerics = {.struct_size = sizeof numerics};
    char why[256] = "";
    void *plan = NULL, *binding = NULL;
    assert_int_equal(backend->create(&made->problem, &services, &plan, why, sizeof why), ATTN_OK);
    backend->numerics(plan, &numerics);
    assert_int_equal(
        backend->bind(plan, made->tensors, made->problem.n_tensors, &binding, why, sizeof why),
        ATTN_OK);
    for (int n = 0; n < runs; n++)
        assert_int_equal(backend->run(binding, why, sizeof why), ATTN_OK);
    backend->release(binding);
    backend->destroy(plan);
    return numerics;
}

/* A copy of the tensor of a role, or NULL. */
static void *copy_of(const struct test_problem *made, uint32_t role, size_t *bytes)
{
    const struct attn_tensor *tensor = attn_tensor_find(&made->problem, role);
    if (!tensor)
        return NULL;
    *bytes = made->bytes[tensor - made->tensors];
    void *copy = malloc(*bytes + 1);
    assert_non_null(copy);
    return memcpy(copy, tensor->data, *bytes);
}

static void check_bits(const struct attn_backend *backend, struct test_spec spec)
{
    static const uint32_t roles[] = {ATTN_OUT, ATTN_LSE};
    struct test_spec single;
    struct test_problem made, alone;
    spec.with &= ~(uint32_t)WITH_GAPS;
    spec.sk *= spec.dtype == ATTN_F32 ? 1 : 2; /* as many bytes, so as many parts */
    single = spec;
    single.b = 1;
    test_problem_make(&spec, &made);
    test_problem_make(&single, &alone);
    const struct attn_numerics one = run_on(backend, &made, 1, 1);
    assert_int_equal(one.splits > 1, spec.sk > 0 && !(spec.with & WITH_WEIGHTS));
    assert_int_equal(run_on(backend, &alone, 1, 1).splits, one.splits);
    for (size_t r = 0; r < 2; r++) {
        size_t bytes;
        void *first = copy_of(&made, roles[r], &bytes);
        for (uint32_t threads = 2; first && threads <= 7; threads += threads == 3 ? 4 : 1) {
            assert_int_equal(run_on(backend, &made, threads, 3).splits, one.splits);
            void *again = copy_of(&made, roles[r], &bytes);
            assert_memory_equal(first, again, bytes);
            free(again);
        }
        free(first);
    }
    test_problem_free(&made);
    test_problem_free(&alone);
}

/* As many parts whatever the threads and the batch, and the same bits from each run. */
static void same_bits_from_any_threads(void **state)
{
    for (size_t n = 0; n < sizeof specs / sizeof *specs; n++)
        check_bits(*state, typed(n, n % 3 == 2 ? halves[n % 2] : ATTN_F32));
}

/* An infinity in one column of V spoils that column, NaN in it too, and no bit of any other. */
static void infinity_stays_in_its_column(void **state)
{
    const int64_t bad[] = {0, 0, 777, 11};
    for (int64_t m = 0; m < 12; m++) {
        const uint32_t dtype = m % 3 ? halves[m % 3 - 1] : ATTN_F32;
        const int64_t sq = 1 + m / 3;
        const struct test_spec spec = {
            .name = "infinity", .dtype = dtype, .b = 1, .sq = sq, .sk = 1100, .dq = 64};
        struct test_problem made;
        size_t bytes;
        test_problem_make(&spec, &made);
        run_on(*state, &made, 1, 1);
        void *clean = copy_of(&made, ATTN_OUT, &bytes);
        for (int n = 0; n < 2; n++) {
            test_set(attn_tensor_find(&made.problem, ATTN_V), bad, n ? NAN : -INFINITY);
            run_on(*state, &made, 1, 1);
            const struct attn_tensor *out = attn_tensor_find(&made.problem, ATTN_OUT);
            for (int64_t i = 0; i < sq; i++) {
                float spoilt = attn_element_read(dtype, out->data, i * 64 + 11);
                assert_true(n ? isnan(spoilt) : spoilt == -INFINITY);
                attn_element_write(dtype, out->data, i * 64 + 11,
                                   attn_element_read(dtype, clean, i * 64 + 11));
            }
            assert_memory_equal(out->data, clean, bytes);
        }
        free(clean);
        test_problem_free(&made);
    }
}

int main(void)
{
    int failed = 0;
    for (uint32_t n = 0; n < attn_plugin.n_backends; n++) {
        const struct attn_backend *backend = attn_plugin.backends[n];
        if (strstr(backend->name, "bf16") || strstr(backend->name, "fp16"))
            continue; /* one type alone, and few rows as avx512 has them */
        void *subject = (void *)(uintptr_t)backend;
        char why[256];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(matches_the_oracle, subject),
            cmocka_unit_test_prestate(same_bits_from_any_threads, subject),
            cmocka_unit_test_prestate(infinity_stays_in_its_column, subject),
        };
        print_message("%s\n", backend->name);
        if (backend->probe(NULL, why, sizeof why) != ATTN_OK)
            print_message("%s: not tested\n", why);
        else
            failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
