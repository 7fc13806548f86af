/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_lsh.c - attention within buckets where v or the scale are not usual. cases/lsh.cases
 * has the rest. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/problem.h"

enum { HEADS = 2, STEPS = 36, DK = 20, DV = 17, BUCKETS = 4, MOST_ROUNDS = 3, ODD = 7 };

struct form {
    int64_t chunk, rounds, variant;
    uint64_t flags;
    double scale;
    float length, odd; /* what q is multiplied by; v of token ODD */
};

static void add(struct test_problem *made, uint32_t role, uint32_t dtype, uint32_t rank,
                const int64_t *shape)
{
    const uint32_t t = made->problem.n_tensors++;
    struct attn_tensor *tensor = &made->tensors[t];
    size_t elements = 1;
    *tensor = (struct attn_tensor){.role = role, .dtype = dtype, .rank = rank};
    for (uint32_t a = rank; a-- > 0; elements *= (size_t)shape[a]) {
        tensor->shape[a] = shape[a];
        tensor->stride[a] = (int64_t)elements;
    }
    made->bytes[t] = elements * 4;
    tensor->data = calloc(elements, 4);
    assert_non_null(tensor->data);
    for (size_t n = 0; n < elements; n++) {
        const uint32_t bits = (uint32_t)(n * 4 + role + 1) * 2654435761u >> 8;
        if (dtype == ATTN_I32)
            ((int32_t *)tensor->data)[n] = (int32_t)(bits % BUCKETS);
        else
            ((float *)tensor->data)[n] = (float)(int32_t)(bits % 2001 - 1000) / 1000;
    }
}

/* Everything but the tensors. */
static struct attn_problem problem_of(const struct form *form)
{
    return (struct attn_problem){.struct_size = sizeof(struct attn_problem),
                                 .op = ATTN_OP_LSH,
                                 .score = ATTN_SCORE_SCALED_DOT,
                                 .dtype = ATTN_F32,
                                 .flags = form->flags,
                                 .b = 1,
                                 .hq = HEADS,
                                 .hkv = HEADS,
                                 .sq = STEPS,
                                 .sk = STEPS,
                                 .dq = DK,
                                 .dk = DK,
                                 .dv = DV,
                                 .scale = form->scale,
                                 .variant = form->variant,
                                 .chunk = form->chunk,
                                 .rounds = form->rounds,
                                 .buckets = BUCKETS};
}

static void make(const struct form *form, struct test_problem *made)
{
    made->problem = problem_of(form);
    made->problem.tensors = made->tensors;
    add(made, ATTN_Q, ATTN_F32, 4, (int64_t[]){1, HEADS, STEPS, DK});
    add(made, ATTN_V, ATTN_F32, 4, (int64_t[]){1, HEADS, STEPS, DV});
    add(made, ATTN_ROTATIONS, ATTN_F32, 4, (int64_t[]){HEADS, DK, form->rounds, BUCKETS / 2});
    add(made, ATTN_BUCKETS, ATTN_I32, 4, (int64_t[]){1, HEADS, form->rounds, STEPS});
    add(made, ATTN_OUT, ATTN_F32, 4, (int64_t[]){1, HEADS, STEPS, DV});
    add(made, ATTN_LSE, ATTN_F32, 3, (int64_t[]){1, HEADS, STEPS});
    for (int n = 0; n < HEADS * STEPS * DK; n++)
        ((float *)made->tensors[0].data)[n] *= form->length;
    for (int64_t d = 0; d < DV; d++)
        ((float *)made->tensors[1].data)[ODD * DV + d] = form->odd; /* of the first head */
}

/* How often token i of a head sees token j, by the list of all places. */
static void count(const struct form *form, const int32_t *bucket, int64_t i, int *times)
{
    int64_t list[MOST_ROUNDS * STEPS], n = 0;
    int others = 0;
    for (int64_t r = 0; r < form->rounds; r++)
        for (int32_t t = 0; t < BUCKETS; t++)
            for (int64_t j = 0; j < STEPS; j++)
                if (bucket[r * STEPS + j] == t)
                    list[n++] = j;
    const int64_t pieces = n / form->chunk;
    memset(times, 0, STEPS * sizeof *times);
    for (int64_t own = 0; own < n; own++)
        for (int64_t m = 0; m < n && list[own] == i; m++) {
            const int64_t back = (own / form->chunk - m / form->chunk + pieces) % pieces;
            times[list[m]] += (back <= 1) && !(form->flags & ATTN_FLAG_CAUSAL && list[m] > i);
        }
    for (int64_t j = 0; j < STEPS; j++)
        others += j != i && times[j] > 0;
    if (form->variant == ATTN_LSH_LAST)
        times[i] = others == 0;
}

/* A row of out and its lse, in double. */
static double row_of(const struct test_problem *made, int64_t h, int64_t i, const int *times,
                     double *out)
{
    const float *q = (const float *)made->tensors[0].data + h * STEPS * DK;
    const float *v = (const float *)made->tensors[1].data + h * STEPS * DV;
    double s[STEPS], most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < STEPS; j++) {
        double dot = 0, square = 0;
        for (int64_t c = 0; c < DK; c++) {
            dot += (double)q[i * DK + c] * (double)q[j * DK + c];
            square += (double)q[j * DK + c] * (double)q[j * DK + c];
        }
        s[j] = made->problem.scale * dot / sqrt(square);
        most = times[j] && s[j] > most ? s[j] : most;
    }
    memset(out, 0, DV * sizeof *out);
    for (int64_t j = 0; j < STEPS; j++) {
        const double p = times[j] * exp(s[j] - most);
        for (int64_t d = 0; times[j] && d < DV; d++)
            out[d] += p * (double)v[j * DV + d];
        sum += times[j] ? p : 0;
    }
    for (int64_t d = 0; d < DV; d++)
        out[d] /= sum;
    return most + log(sum);
}

/* Returns in how many rows token ODD is not seen. */
static int check(const struct form *form, const struct test_problem *made)
{
    const int32_t *bucket = made->tensors[3].data;
    const float *out = made->tensors[4].data, *lse = made->tensors[5].data;
    int unseen = 0;
    for (int64_t row = 0; row < HEADS * STEPS; row++) {
        const int64_t h = row / STEPS, i = row % STEPS;
        double want[DV];
        int times[STEPS];
        count(form, bucket + h * form->rounds * STEPS, i, times);
        assert_float_equal(lse[row], row_of(made, h, i, times, want), 2e-5);
        for (int64_t d = 0; d < DV; d++) {
            if (isnan(want[d]))
                assert_true(isnan(out[row * DV + d]));
            else
                assert_float_equal(out[row * DV + d], want[d], 2e-5);
        }
        unseen += h == 0 && times[ODD] == 0;
    }
    return unseen;
}

static void run(const struct attn_backend *backend, const struct form *form, int *unseen)
{
    struct test_problem made = {0};
    make(form, &made);
    test_run(backend, &made);
    *unseen += check(form, &made);
    test_problem_free(&made);
}

/* One piece, pieces of one token, pieces that a vector does not divide; the own token. */
static void keeps_nan_to_its_rows(void **state)
{
    const int64_t chunks[] = {STEPS, 1, 6, 18};
    for (int n = 0; n < 4 * MOST_ROUNDS * 4; n++) {
        const struct form form = {.chunk = chunks[n % 4],
                                  .rounds = n / 4 % MOST_ROUNDS + 1,
                                  .variant = n / 4 / MOST_ROUNDS % 2,
                                  .flags = n / 4 / MOST_ROUNDS / 2 ? ATTN_FLAG_CAUSAL : 0,
                                  .scale = 0.7,
                                  .length = 1,
                                  .odd = NAN};
        int unseen = 0;
        run(*state, &form, &unseen);
        if (form.chunk == 1 || (form.chunk == STEPS && form.variant == ATTN_LSH_LAST))
            assert_true(unseen > 0);
    }
}

/* 1 over the length of a query, times the scale, is beyond f32, and the score is not. */
static void takes_a_large_scale(void **state)
{
    const struct form form = {
        .chunk = 6, .rounds = 2, .scale = 0x1p65, .length = 0x1p-65f, .odd = 0.5f};
    int unseen = 0;
    run(*state, &form, &unseen);
}

static void refuses_odd_sizes(void **state)
{
    const struct form form = {.chunk = 6, .rounds = 2, .scale = 1, .length = 1};
    for (int n = 0; n < 4; n++) {
        struct test_problem made = {0};
        make(&form, &made);
        made.problem.buckets = n == 0 ? 3 : BUCKETS;
        made.problem.chunk = n == 1 ? 5 : 6;
        made.problem.variant = n == 2 ? 2 : 0;
        made.problem.sq = made.problem.sk = n == 3 ? INT64_C(1) << 25 : STEPS;
        test_problem_refused(*state, &made.problem);
        test_problem_free(&made);
    }
}

int main(void)
{
    int failed = 0;
    for (uint32_t n = 0; n < 2; n++) { /* the others refuse the operator */
        const struct attn_backend *rung = attn_plugin.backends[n];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(keeps_nan_to_its_rows, (void *)(uintptr_t)rung),
            cmocka_unit_test_prestate(takes_a_large_scale, (void *)(uintptr_t)rung),
            cmocka_unit_test_prestate(refuses_odd_sizes, (void *)(uintptr_t)rung),
        };
        char why[256];
        if (rung->probe(NULL, why, sizeof why) == ATTN_OK)
            failed += cmocka_run_group_tests_name(rung->name, tests, NULL, NULL);
        else
            print_message("%s: %s: nothing to test\n", rung->name, why);
    }
    return failed;
}
