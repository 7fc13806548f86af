/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - one backend on one problem, called as the harness calls it, and held to its promises. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "problem.h"

static int is_output(const struct attn_tensor *tensor)
{
    return tensor->role == ATTN_OUT || tensor->role == ATTN_LSE || tensor->role == ATTN_WEIGHTS;
}

/* Calls `visit` for every element of a tensor. */
static void each(const struct attn_tensor *tensor,
                 void (*visit)(const struct attn_tensor *, const int64_t *, void *), void *context)
{
    int64_t count = 1;
    for (uint32_t a = 0; a < tensor->rank; a++)
        count *= tensor->shape[a];
    for (int64_t n = 0; n < count; n++) {
        int64_t idx[4] = {0}, rest = n;
        for (uint32_t a = tensor->rank; a-- > 0; rest /= tensor->shape[a])
            idx[a] = rest % tensor->shape[a];
        visit(tensor, idx, context);
    }
}

static void blank(const struct attn_tensor *tensor, const int64_t *idx, void *context)
{
    int64_t at = 0;
    for (uint32_t a = 0; a < tensor->rank; a++)
        at += idx[a] * tensor->stride[a];
    size_t size = tensor->dtype == ATTN_F64 ? 8 : tensor->dtype == ATTN_F32 ? 4 : 2;
    memset((char *)context + (size_t)at * size, TEST_NAN_BYTE, size);
}

/* What lies between the rows of an output must still be primed. */
static void check_gaps(const struct attn_tensor *tensor, size_t bytes)
{
    unsigned char *copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, tensor->data, bytes);
    each(tensor, blank, copy);
    for (size_t byte = 0; byte < bytes; byte++)
        assert_int_equal(copy[byte], TEST_NAN_BYTE);
    free(copy);
}

static void run_twice(const struct attn_backend *backend, void *binding, struct test_problem *made)
{
    char why[256] = "";
    unsigned char *first[TEST_TENSORS] = {0};
    for (int run = 0; run < 2; run++) {
        for (uint32_t t = 0; t < made->problem.n_tensors; t++)
            if (is_output(&made->tensors[t]))
                memset(made->tensors[t].data, TEST_NAN_BYTE, made->bytes[t]);
        assert_int_equal(backend->run(binding, why, sizeof(why)), ATTN_OK);
        for (uint32_t t = 0; t < made->problem.n_tensors; t++) {
            if (!is_output(&made->tensors[t]))
                continue;
            if (run == 0) {
                first[t] = malloc(made->bytes[t]);
                assert_non_null(first[t]);
                memcpy(first[t], made->tensors[t].data, made->bytes[t]);
                continue;
            }
            assert_memory_equal(first[t], made->tensors[t].data, made->bytes[t]);
            free(first[t]);
            check_gaps(&made->tensors[t], made->bytes[t]);
        }
    }
}

void test_run(const struct attn_backend *backend, struct test_problem *made)
{
    char why[256] = "";
    void *plan = NULL, *binding = NULL;
    unsigned char *before[TEST_TENSORS] = {0};
    struct attn_tensor shapes[TEST_TENSORS];
    struct attn_problem problem = made->problem;
    const uint32_t n = problem.n_tensors;
    for (uint32_t t = 0; t < n; t++) {
        shapes[t] = made->tensors[t];
        shapes[t].data = NULL; /* a plan sees no data */
        before[t] = malloc(made->bytes[t]);
        assert_non_null(before[t]);
        memcpy(before[t], made->tensors[t].data, made->bytes[t]);
    }
    problem.tensors = shapes;
    test_memory.live = 0;
    if (backend->supports(&problem, &test_services, why, sizeof(why)) != ATTN_OK)
        fail_msg("supports refuses: %s", why);
    assert_int_equal(backend->create(&problem, &test_services, &plan, why, sizeof(why)), ATTN_OK);
    assert_int_equal(backend->bind(plan, made->tensors, n, &binding, why, sizeof(why)), ATTN_OK);
    run_twice(backend, binding, made);
    backend->release(binding);
    backend->destroy(plan);
    assert_int_equal(test_memory.live, 0);
    for (uint32_t t = 0; t < n; t++) {
        if (!is_output(&made->tensors[t]))
            assert_memory_equal(before[t], made->tensors[t].data, made->bytes[t]);
        free(before[t]);
    }
}

/* The harness has the proven bound; this is a multiple of the rounding that correct kernels show on
 * these small problems, and far below what a wrong cell does. */
static double tolerance(uint32_t dtype)
{
    return dtype == ATTN_F64 ? 1e-13 : dtype == ATTN_F32 ? 3e-5 : dtype == ATTN_F16 ? 2e-3 : 1.6e-2;
}

static void expect(const struct test_spec *spec, const struct attn_tensor *tensor,
                   const int64_t *idx, double want)
{
    double got = test_at(tensor, idx), tol = tolerance(tensor->dtype) * (1 + fabs(want));
    int agrees = isnan(want) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) <= tol;
    if (!agrees)
        fail_msg("%s, type %u: role %u at [%d,%d,%d,..%d]: %.9g, expected %.9g", spec->name,
                 spec->dtype, tensor->role, (int)idx[0], (int)idx[1], (int)idx[2],
                 (int)idx[tensor->rank - 1], got, want);
}

/* mha: the projected, pruned and concatenated heads of one row of x_q against out. */
static void check_mha_row(const struct test_spec *spec, const struct attn_problem *p, int64_t b,
                          int64_t i, const double *heads)
{
    const struct attn_tensor *out = attn_tensor_find(p, ATTN_OUT);
    const struct attn_tensor *w_o = attn_tensor_find(p, ATTN_W_O);
    const struct attn_tensor *b_o = attn_tensor_find(p, ATTN_B_O);
    for (int64_t o = 0; o < out->shape[2]; o++) {
        double y = w_o ? 0 : heads[o];
        for (int64_t c = 0; w_o && c < p->hq * p->dv; c++)
            y += heads[c] * test_at(w_o, (int64_t[]){o, c});
        y += b_o ? test_at(b_o, &o) : 0;
        if (p->flags & ATTN_FLAG_RESIDUAL)
            y += test_at(attn_tensor_find(p, ATTN_X_Q), (int64_t[]){b, i, o});
        expect(spec, out, (int64_t[]){b, i, o}, y);
    }
}

static void check_head_row(const struct test_spec *spec, const struct attn_problem *p,
                           const int64_t *bhi, const double *out, const double *weights, double lse)
{
    const struct attn_tensor *out_tensor = attn_tensor_find(p, ATTN_OUT);
    const struct attn_tensor *lse_tensor = attn_tensor_find(p, ATTN_LSE);
    const struct attn_tensor *weights_tensor = attn_tensor_find(p, ATTN_WEIGHTS);
    for (int64_t c = 0; p->op == ATTN_OP_ATTENTION && c < p->dv; c++)
        expect(spec, out_tensor, (int64_t[]){bhi[0], bhi[1], bhi[2], c}, out[c]);
    if (lse_tensor)
        expect(spec, lse_tensor, bhi, lse);
    for (int64_t j = 0; weights_tensor && j < p->sk; j++)
        expect(spec, weights_tensor, (int64_t[]){bhi[0], bhi[1], bhi[2], j}, weights[j]);
}

void test_check(const struct test_spec *spec, const struct test_problem *made)
{
    const struct attn_problem *p = &made->problem;
    const struct attn_tensor *head_mask = attn_tensor_find(p, ATTN_HEAD_MASK);
    double *heads = calloc((size_t)(p->hq * p->dv + p->sk), sizeof(*heads));
    assert_non_null(heads);
    double *weights = heads + p->hq * p->dv;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->sq; i++) {
            for (int64_t h = 0; h < p->hq; h++) {
                double *out = heads + h * p->dv;
                double lse = test_oracle_row(p, b, h, i, out, weights);
                check_head_row(spec, p, (int64_t[]){b, h, i}, out, weights, lse);
                if (head_mask && test_at(head_mask, &h) == 0)
                    memset(out, 0, (size_t)p->dv * sizeof(*out));
            }
            if (p->op == ATTN_OP_MHA)
                check_mha_row(spec, p, b, i, heads);
        }
    free(heads);
}

void test_spec_run(const struct attn_backend *backend, const struct test_spec *spec)
{
    struct test_problem made;
    print_message("%s, type %u\n", spec->name, spec->dtype);
    test_problem_make(spec, &made);
    test_run(backend, &made);
    test_check(spec, &made);
    test_problem_free(&made);
}

void test_problem_refused(const struct attn_backend *backend, const struct attn_problem *problem)
{
    char why[256] = "";
    assert_int_equal(backend->supports(problem, &test_services, why, sizeof(why)),
                     ATTN_UNSUPPORTED);
    assert_true(strlen(why) > 0);
}

void test_spec_refused(const struct attn_backend *backend, const struct test_spec *spec)
{
    struct test_problem made;
    print_message("refused: %s\n", spec->name);
    test_problem_make(spec, &made);
    test_problem_refused(backend, &made.problem);
    test_problem_free(&made);
}
