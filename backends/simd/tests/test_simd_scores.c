/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_scores.c - the plugin on what is put to every backend, and its bilinear, gaussian and
 * additive scores under every mask and extra: tiled and in place, parameters shared and a head. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/common.h"

static const uint32_t dtypes[] = {ATTN_F32, ATTN_F16, ATTN_BF16, 0};
static const uint32_t scores[] = {ATTN_SCORE_BILINEAR, ATTN_SCORE_GAUSSIAN, ATTN_SCORE_ADDITIVE};

/* Problems of any of the scores. The widths are filled in. */
static const struct test_spec extras[] = {
    {.name = "plain", .hq = 4, .hkv = 2, .sq = 15, .sk = 39, .with = ALL_OUT},
    {.name = "decode", .hq = 6, .hkv = 2, .sq = 1, .sk = 53, .with = ALL_OUT | WITH_LEN},
    {.name = "two tiles", .b = 1, .hq = 2, .hkv = 1, .sq = 13, .sk = 600},
    {.name = "no keys, sink", .hq = 2, .sq = 14, .sk = 0, .with = ALL_OUT | WITH_SINK},
    {.name = "bottom right of lengths, alibi, poison",
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR,
     .b = 4,
     .hq = 4,
     .hkv = 2,
     .sq = 20,
     .sk = 33,
     .with = ALL_OUT | WITH_LEN | WITH_ALIBI | WITH_POISON},
    {.name = "bottom right, poison, in place",
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR,
     .b = 4,
     .hq = 2,
     .sq = 3,
     .sk = 33,
     .with = ALL_OUT | WITH_LEN | WITH_POISON},
    {.name = "window, mask, bias, sink, gaps",
     .flags = ATTN_FLAG_WINDOW,
     .left = 3,
     .right = 9,
     .hq = 4,
     .hkv = 2,
     .sq = 17,
     .sk = 40,
     .with = ALL_OUT | WITH_MASK | WITH_BIAS | WITH_SINK | WITH_GAPS},
    {.name = "softcap, lengths a query, keep mask, bshd",
     .flags = ATTN_FLAG_SOFTCAP | ATTN_FLAG_DROPOUT,
     .softcap = 1.5,
     .dropout_p = 0.3,
     .hq = 2,
     .sq = 19,
     .sk = 35,
     .with = ALL_OUT | WITH_LEN_2D | WITH_KEEP | WITH_BSHD},
    {.name = "dropout, bhds",
     .flags = ATTN_FLAG_DROPOUT,
     .dropout_p = 0.4,
     .hq = 2,
     .hkv = 1,
     .sq = 9,
     .sk = 18,
     .with = WITH_KEEP | WITH_BHDS},
    {.name = "softcap, in place",
     .flags = ATTN_FLAG_SOFTCAP,
     .softcap = 0.5,
     .hq = 4,
     .hkv = 2,
     .sq = 2,
     .sk = 18,
     .with = WITH_LSE | WITH_GAPS},
};

/* Widths that differ where the score lets them. */
static struct test_spec with_score(struct test_spec spec, uint32_t score)
{
    spec.score = score;
    spec.dq = 9;
    spec.dk = score == ATTN_SCORE_GAUSSIAN ? 9 : 13;
    spec.dv = 18;
    spec.dh = score == ATTN_SCORE_ADDITIVE ? 19 : 0;
    spec.scale = 0.2;
    return spec;
}

/* Of each problem one more, in one of the 16-bit types. */
static void matches_the_oracle(void **state)
{
    const struct attn_backend *backend = *state;
    const size_t n_extras = sizeof extras / sizeof *extras;
    for (size_t n = 0; n < 3; n++)
        for (size_t e = 0; e < 2 * n_extras; e++) {
            struct test_spec spec = with_score(extras[e % n_extras], scores[n]);
            spec.dtype = e < n_extras ? ATTN_F32 : (e + n) % 2 ? ATTN_F16 : ATTN_BF16;
            test_spec_run(backend, &spec);
            spec.with |= WITH_HEAD_PARAMS;
            if (scores[n] != ATTN_SCORE_GAUSSIAN)
                test_spec_run(backend, &spec);
        }
}

/* Spans beyond all distances, within them and of one row; every part; buckets without an order. */
static void meets_positions(void **state)
{
    const struct attn_backend *backend = *state;
    static const int64_t spans[] = {1, 7, 64, 700};
    const size_t n_extras = sizeof extras / sizeof *extras;
    for (size_t e = 0; e < n_extras; e++)
        for (int n = 0; n < 12; n++) {
            struct test_spec spec = with_score(extras[e], ATTN_SCORE_DISENTANGLED);
            spec.dk = spec.dq;
            spec.span = spans[n % 4];
            spec.parts = n % 3;
            spec.variant = n / 4 == 1 ? ATTN_POSITIONS_PAPER : ATTN_POSITIONS_CODE;
            spec.off = n - 6;
            spec.dtype = dtypes[(e + (size_t)n) % 3];
            spec.with |= n % 2 ? WITH_HEAD_PARAMS : 0;
            spec.with |= n / 4 == 2 && spec.sq + spec.sk > 1 ? WITH_BUCKETS : 0;
            test_spec_run(backend, &spec);
        }
}

/* More columns than a row of scores has room for while the queries are projected. */
static void projects_wide_queries(void **state)
{
    const struct attn_backend *backend = *state;
    for (int64_t sq = 2; sq <= 14; sq += 12) {
        struct test_spec bilinear = {.name = "bilinear, wide keys",
                                     .score = ATTN_SCORE_BILINEAR,
                                     .scale = 0.02,
                                     .b = 1,
                                     .sq = sq,
                                     .sk = 5,
                                     .dq = 3,
                                     .dk = 1050};
        struct test_spec additive = {.name = "additive, many hidden units",
                                     .score = ATTN_SCORE_ADDITIVE,
                                     .scale = 0.05,
                                     .b = 1,
                                     .sq = sq,
                                     .sk = 5,
                                     .dq = 3,
                                     .dk = 2,
                                     .dh = 523};
        test_spec_run(backend, &bilinear);
        test_spec_run(backend, &additive);
    }
}

/* All elements of an operand times 2^exponent. */
static void magnify(struct test_problem *made, uint32_t role, int exponent)
{
    for (uint32_t t = 0; t < made->problem.n_tensors; t++)
        for (size_t n = 0; made->tensors[t].role == role && n < made->bytes[t] / sizeof(float);
             n++) {
            float *x = (float *)made->tensors[t].data + n;
            *x = ldexpf(*x, exponent);
        }
}

/* Scores of usual size, of one factor so small that the other one times the scale overflows. */
static void takes_a_large_scale(void **state)
{
    static const struct {
        uint32_t score, small, large;
    } kinds[] = {{ATTN_SCORE_SCALED_DOT, ATTN_Q, ATTN_K},
                 {ATTN_SCORE_SCALED_DOT, ATTN_K, ATTN_Q},
                 {ATTN_SCORE_BILINEAR, ATTN_Q, ATTN_SCORE_M},
                 {ATTN_SCORE_BILINEAR, ATTN_K, ATTN_SCORE_M},
                 {ATTN_SCORE_ADDITIVE, ATTN_SCORE_WK, ATTN_SCORE_WV}};
    for (size_t n = 0; n < 4 * sizeof kinds / sizeof *kinds; n++) {
        struct test_spec spec = {.name = "large scale",
                                 .hq = 2,
                                 .hkv = 1,
                                 .sq = n % 2 ? 3 : 20,
                                 .sk = 37,
                                 .with = ALL_OUT | (n / 2 % 2 ? WITH_BIAS : 0)};
        struct test_problem made;
        spec = with_score(spec, kinds[n / 4].score);
        spec.dq = spec.score == ATTN_SCORE_SCALED_DOT ? spec.dk : spec.dq;
        spec.scale = ldexp(0.2, 80);
        test_problem_make(&spec, &made);
        magnify(&made, kinds[n / 4].small, -130);
        magnify(&made, kinds[n / 4].large, 50);
        if (spec.score == ATTN_SCORE_ADDITIVE)
            magnify(&made, ATTN_Q, -130);
        test_run(*state, &made);
        test_check(&spec, &made);
        test_problem_free(&made);
    }
}

/* NaN and infinities in one key or query: in the rows that see it, what IEEE makes of the score. */
static void keeps_nan_to_its_rows(void **state)
{
    const struct attn_backend *backend = *state;
    const double values[] = {NAN, INFINITY, -INFINITY};
    const uint32_t roles[] = {ATTN_Q, ATTN_K};
    for (int m = 0; m < 3 * 3 * 3 * 2 * 2; m++) {
        int n = m / 3;
        struct test_spec spec = {.name = "not finite at 2 under causal",
                                 .dtype = dtypes[m % 3],
                                 .flags = ATTN_FLAG_CAUSAL,
                                 .b = 1,
                                 .sq = n % 2 ? 5 : 20,
                                 .sk = 20,
                                 .with = ALL_OUT};
        struct test_problem made;
        uint32_t role = roles[n / 6 % 2];
        spec = with_score(spec, scores[n / 2 % 3]);
        /* The oracle adds up q M k term by term, infinities of both signs where q^T M has one. */
        if (spec.score == ATTN_SCORE_BILINEAR && role == ATTN_K && isinf(values[n / 12]))
            continue;
        test_problem_make(&spec, &made);
        test_set(attn_tensor_find(&made.problem, role), (int64_t[]){0, 0, 2, 1}, values[n / 12]);
        test_run(backend, &made);
        test_check(&spec, &made);
        test_problem_free(&made);
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

static void run_cut(const struct attn_backend *backend, struct test_problem *made,
                    const char *item_rows, uint32_t threads)
{
    const struct attn_option option = {"item_rows", item_rows};
    const struct attn_services services = {.struct_size = sizeof services,
                                           .threads = threads,
                                           .options = &option,
                                           .n_options = 1,
                                           .alloc = plain_alloc,
                                           .free = plain_free};
    char why[256];
    void *plan, *binding;
    assert_int_equal(backend->create(&made->problem, &services, &plan, why, sizeof why), ATTN_OK);
    assert_int_equal(
        backend->bind(plan, made->tensors, made->problem.n_tensors, &binding, why, sizeof why),
        ATTN_OK);
    assert_int_equal(backend->run(binding, why, sizeof why), ATTN_OK);
    backend->release(binding);
    backend->destroy(plan);
}

/* A row's bits depend neither on the rows it is computed with nor on the threads. */
static void same_bits_however_cut(void **state)
{
    const struct attn_backend *backend = *state;
    const struct test_spec plain = {.name = "cut", .hq = 4, .hkv = 2, .sq = 61, .sk = 70};
    for (int n = 0; n < 3; n++) {
        struct test_spec spec = with_score(plain, scores[n]);
        struct test_problem made;
        test_problem_make(&spec, &made);
        const struct attn_tensor *out = attn_tensor_find(&made.problem, ATTN_OUT);
        size_t bytes = made.bytes[out - made.tensors];
        unsigned char *first = malloc(bytes);
        assert_non_null(first);
        run_cut(backend, &made, "6", 1);
        memcpy(first, out->data, bytes);
        memset(out->data, 0xff, bytes);
        run_cut(backend, &made, "90", 3);
        assert_memory_equal(first, out->data, bytes);
        free(first);
        test_problem_free(&made);
    }
}

/* A score without its parameters, or with those of another. */
static void refuses_odd_parameters(void **state)
{
    const struct attn_backend *backend = *state;
    for (int n = 0; n < 3; n++) {
        const struct test_spec plain = {.name = "parameters", .sq = 2, .sk = 2};
        struct test_spec spec = with_score(plain, n ? ATTN_SCORE_ADDITIVE : ATTN_SCORE_BILINEAR);
        struct test_problem made;
        test_problem_make(&spec, &made);
        if (n == 2)
            made.tensors[made.problem.n_tensors - 1].shape[1]++;
        else if (n == 1)
            made.problem.n_tensors--;
        else
            made.problem.score = ATTN_SCORE_ADDITIVE, made.problem.dh = 9;
        test_problem_refused(backend, &made.problem);
        made.problem.n_tensors += n == 1;
        test_problem_free(&made);
    }
}

/* Sizes and offsets that nothing has, operands that are missing or of an odd rank. */
static void refuses_odd_sizes(void **state)
{
    for (int n = 0; n < 6; n++) {
        const struct test_spec spec = {
            .name = "sizes", .hq = 4, .hkv = 2, .sq = 3, .sk = 3, .dq = 8, .with = WITH_LSE};
        struct test_problem made;
        test_problem_make(&spec, &made);
        struct attn_problem bad = made.problem;
        bad.sk = n == 0 ? INT64_MAX : bad.sk;
        bad.dv = n == 1 ? INT64_C(1) << 30 : bad.dv;
        bad.off = n == 2 ? INT64_MIN : bad.off;
        bad.n_tensors = n == 3 ? 3 : bad.n_tensors;
        bad.dtype = n == 4 ? ATTN_F64 : bad.dtype;
        made.tensors[4].rank = n == 5 ? 2 : 3;
        test_problem_refused(*state, &bad);
        test_problem_free(&made);
    }
}

/* All of attention, but for mask offsets that nothing of this size has. */
static int takes(const struct test_spec *spec)
{
    return spec->op != ATTN_OP_MHA && spec->off < INT64_C(1) << 40;
}

static int test_rung(const struct attn_backend *rung)
{
    struct test_subject subject = {.backend = rung, .dtypes = dtypes, .takes = takes};
    char why[256];
    if (rung->probe(NULL, why, sizeof why) != ATTN_OK) {
        print_message("%s: %s: nothing to test\n", rung->name, why);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(matches_the_oracle, (void *)(uintptr_t)rung),
        cmocka_unit_test_prestate(meets_positions, (void *)(uintptr_t)rung),
        cmocka_unit_test_prestate(projects_wide_queries, (void *)(uintptr_t)rung),
        cmocka_unit_test_prestate(takes_a_large_scale, (void *)(uintptr_t)rung),
        cmocka_unit_test_prestate(keeps_nan_to_its_rows, (void *)(uintptr_t)rung),
        cmocka_unit_test_prestate(same_bits_however_cut, (void *)(uintptr_t)rung),
        cmocka_unit_test_prestate(refuses_odd_parameters, (void *)(uintptr_t)rung),
        cmocka_unit_test_prestate(refuses_odd_sizes, (void *)(uintptr_t)rung),
    };
    int failed = test_common(&subject);
    return failed + cmocka_run_group_tests_name(rung->name, tests, NULL, NULL);
}

int main(void)
{
    int failed = 0;
    for (uint32_t n = 0; n < attn_plugin.n_backends; n++) {
        const char *name = attn_plugin.backends[n]->name;
        if (!strstr(name, "bf16") && !strstr(name, "fp16")) /* one type alone, these as avx512 */
            failed += test_rung(attn_plugin.backends[n]);
    }
    return failed;
}
