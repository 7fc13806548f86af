/* SPDX-License-Identifier: Apache-2.0 */
/* approximation.c - see approximation.h */
#include "reference/approximation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "reference/dtype.h"
#include "reference/job.h"

enum { TENSORS = 6 };

/* Softmax attention of the operands of another problem. */
struct exact {
    struct attn_problem problem;
    struct attn_tensor tensors[TENSORS];
    double *copies; /* q, k and v as doubles, where k is made of q */
};

/* The rows of both, and their weights: [count, Dv] and [count, Sk]. */
struct rows {
    int64_t count, dv, sk;
    double *memory, *own, *own_weights, *exact, *exact_weights;
};

/* Softmax attention through a window with global tokens, with nothing else that changes scores or
 * weights. */
static bool is_sparse(const struct attn_problem *p)
{
    static const uint32_t fits[] = {ATTN_Q,   ATTN_K,       ATTN_V,   ATTN_LEN,     ATTN_GLOBAL,
                                    ATTN_OUT, ATTN_WEIGHTS, ATTN_LSE, ATTN_DILATION};
    const uint32_t flags = ATTN_FLAG_WINDOW | ATTN_FLAG_CAUSAL | ATTN_FLAG_DETERMINISTIC;
    if (p->op != ATTN_OP_ATTENTION || p->score != ATTN_SCORE_SCALED_DOT || p->off != 0 ||
        !(p->flags & ATTN_FLAG_WINDOW) || (p->flags & ~flags) || !attn_tensor_find(p, ATTN_GLOBAL))
        return false;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        size_t f = 0;
        while (f < sizeof fits / sizeof *fits && fits[f] != p->tensors[t].role)
            f++;
        if (f == sizeof fits / sizeof *fits)
            return false;
    }
    return true;
}

bool ref_approximates(const struct attn_problem *problem)
{
    return ref_op_is(problem->op, REF_APPROXIMATES) || is_sparse(problem);
}

static struct attn_tensor dense(uint32_t role, const struct attn_tensor *like, double *data)
{
    struct attn_tensor t = *like;
    t.role = role;
    t.dtype = ATTN_F64;
    t.data = data;
    for (int64_t a = t.rank, stride = 1; a-- > 0; stride *= t.shape[a])
        t.stride[a] = stride;
    return t;
}

static int64_t elements(const struct attn_tensor *t)
{
    return t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
}

static void copy_rows(const struct attn_tensor *t, double *to)
{
    int64_t at[ATTN_MAX_RANK] = {0};
    for (at[0] = 0; at[0] < t->shape[0]; at[0]++)
        for (at[1] = 0; at[1] < t->shape[1]; at[1]++)
            for (at[2] = 0; at[2] < t->shape[2]; at[2]++, to += t->shape[3])
                ref_load_vector(t, at, t->shape[3], to);
}

static void normalise(double *x, int64_t width)
{
    double squares = 0;
    for (int64_t c = 0; c < width; c++)
        squares += x[c] * x[c];
    for (int64_t c = 0; c < width && squares > 0; c++)
        x[c] /= sqrt(squares);
}

/* q, k = q/|q| and v as doubles. */
static int share_keys(struct exact *x, const struct ref_operands *in)
{
    const struct attn_tensor *q = in->by_role[ATTN_Q], *v = in->by_role[ATTN_V];
    const int64_t of_q = elements(q), of_v = elements(v);
    x->copies = ref_alloc_doubles(2 * of_q + of_v, 1);
    if (!x->copies)
        return ATTN_OUT_OF_MEMORY;
    double *keys = x->copies + of_q, *values = keys + of_q;
    copy_rows(q, x->copies);
    copy_rows(q, keys);
    copy_rows(v, values);
    for (int64_t row = 0; row < of_q; row += q->shape[3])
        normalise(keys + row, q->shape[3]);
    x->tensors[0] = dense(ATTN_Q, q, x->copies);
    x->tensors[1] = dense(ATTN_K, q, keys);
    x->tensors[2] = dense(ATTN_V, v, values);
    x->problem.dtype = ATTN_F64;
    return ATTN_OK;
}

static int exact_of(const struct attn_problem *problem, struct exact *x)
{
    static const uint32_t roles[] = {ATTN_Q, ATTN_K, ATTN_V, ATTN_LEN, ATTN_OUT};
    struct ref_operands in;
    int status = ATTN_OK;
    ref_operands_init(&in, problem);
    *x = (struct exact){.problem = {.struct_size = sizeof x->problem,
                                    .op = ATTN_OP_ATTENTION,
                                    .score = ATTN_SCORE_SCALED_DOT,
                                    .dtype = problem->dtype,
                                    .flags = problem->flags & ATTN_FLAG_CAUSAL,
                                    .b = problem->b,
                                    .hq = problem->hq,
                                    .hkv = problem->hkv,
                                    .sq = problem->sq,
                                    .sk = problem->sk,
                                    .dq = problem->dq,
                                    .dk = problem->dk,
                                    .dv = problem->dv,
                                    .scale = problem->scale,
                                    .tensors = x->tensors}};
    const bool shared = !in.by_role[ATTN_K];
    if (shared)
        status = share_keys(x, &in);
    x->problem.n_tensors = shared ? 3 : 0;
    for (size_t r = shared ? 3 : 0; r < sizeof roles / sizeof *roles; r++) {
        const struct attn_tensor *t = attn_tensor_find(problem, roles[r]);
        if (t)
            x->tensors[x->problem.n_tensors++] = *t;
    }
    for (uint32_t t = 0; shared && t < x->problem.n_tensors; t++)
        if (x->tensors[t].role == ATTN_OUT)
            x->tensors[t].dtype = ATTN_F64;
    return status;
}

static double norm(const double *x, const double *y, int64_t n)
{
    double squares = 0;
    for (int64_t c = 0; c < n; c++) {
        const double d = x[c] - (y ? y[c] : 0);
        squares += d * d;
    }
    return sqrt(squares);
}

static double product(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += x[c] * y[c];
    return sum;
}

static void compare_weights(const struct rows *rows, int64_t r, struct ref_approximation *a)
{
    const double *own = rows->own_weights + r * rows->sk;
    const double *exact = rows->exact_weights + r * rows->sk;
    double variation = 0, kept = 0, negative = 0;
    for (int64_t j = 0; j < rows->sk; j++) {
        variation += fabs(own[j] - exact[j]) / 2;
        kept += own[j] != 0 ? exact[j] : 0;
        negative -= own[j] < 0 ? own[j] : 0;
    }
    a->tv_mean += variation / (double)rows->count;
    a->tv_max = ref_larger(variation, a->tv_max);
    a->mass_kept += kept / (double)rows->count;
    a->negative_mass += negative / (double)rows->count;
}

static int ascending(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* `cosines` has room for all rows. */
static void compare_rows(const struct rows *rows, double *cosines, struct ref_approximation *a)
{
    double difference = 0, size = 0;
    int64_t known = 0;
    for (int64_t r = 0; r < rows->count; r++) {
        const double *own = rows->own + r * rows->dv, *exact = rows->exact + r * rows->dv;
        const double off = norm(own, exact, rows->dv), length = norm(exact, NULL, rows->dv);
        const double lengths = length * norm(own, NULL, rows->dv);
        difference += off * off;
        size += length * length;
        if (length > 0)
            a->max_row = ref_larger(off / length, a->max_row);
        if (lengths > 0)
            cosines[known++] = product(own, exact, rows->dv) / lengths;
        compare_weights(rows, r, a);
    }
    a->rows = rows->count;
    a->rel_fro = size > 0 ? sqrt(difference / size) : 0;
    qsort(cosines, (size_t)known, sizeof *cosines, ascending);
    a->cosine_min = known ? cosines[0] : 1;
    a->cosine_median = known ? (cosines[known / 2] + cosines[(known - 1) / 2]) / 2 : 1;
}

/* Computes the same rows of both problems. */
static int compute_both(const struct attn_problem *problem, const struct exact *exact,
                        const struct ref_request *request, const struct rows *rows, char *why,
                        size_t size)
{
    struct ref_result own = {.output = {{.value = rows->own}}};
    struct ref_result other = {.output = {{.value = rows->exact}}};
    const int weights = ref_output_of(ref_op_find(ATTN_OP_ATTENTION), ATTN_WEIGHTS);
    other.output[weights].value = rows->exact_weights;
    if (problem->op == ATTN_OP_ATTENTION)
        own.output[weights].value = rows->own_weights;
    else
        own.implied = rows->own_weights;
    int status = ref_compute(problem, request, &own, why, size);
    if (status == ATTN_OK)
        status = ref_compute(&exact->problem, request, &other, why, size);
    return status;
}

static double flops_of(const struct attn_problem *problem)
{
    const struct ref_op *op = ref_op_find(problem->op);
    struct ref_shape shape;
    ref_shape_of_problem(op, problem, &shape);
    return op->flops(&shape, (op->traits & REF_SOFTMAX) ? (double)ref_count_allowed(problem) : 0);
}

/* Bytes of all tensors, or of those that exact attention has, too. */
static double bytes_of(const struct attn_problem *problem, const struct exact *only)
{
    double bytes = 0;
    for (uint32_t n = 0; n < problem->n_tensors; n++) {
        const struct attn_tensor *t = &problem->tensors[n];
        double own = (double)attn_dtype_size(t->dtype);
        for (uint32_t a = 0; a < t->rank; a++)
            own *= t->stride[a] != 0 || t->shape[a] == 0 ? (double)t->shape[a] : 1;
        if (!only || attn_tensor_find(&only->problem, t->role))
            bytes += own;
    }
    return bytes;
}

int ref_approximation(const struct attn_problem *problem, const struct ref_request *request,
                      struct ref_approximation *result, char *why, size_t size)
{
    const int64_t given = request->units[0].count;
    const int64_t count = given < REF_APPROXIMATION_ROWS ? given : REF_APPROXIMATION_ROWS;
    struct rows rows = {.count = count, .dv = problem->dv, .sk = problem->sk};
    struct exact exact = {.copies = NULL};
    int64_t index[REF_APPROXIMATION_ROWS];
    double cosines[REF_APPROXIMATION_ROWS];

    *result = (struct ref_approximation){0};
    if (!ref_approximates(problem) || count == 0) {
        snprintf(why, size, "nothing to compare with softmax attention");
        return ATTN_UNSUPPORTED;
    }
    for (int64_t r = 0; r < count; r++)
        index[r] =
            ref_unit_number(&request->units[0], count > 1 ? r * (given - 1) / (count - 1) : 0);
    const struct ref_request both = {.units = {{count, index}}, .threads = request->threads};
    int status = exact_of(problem, &exact);
    rows.memory = ref_alloc_doubles(2 * count, rows.dv + rows.sk);
    if (status == ATTN_OK && !rows.memory)
        status = ATTN_OUT_OF_MEMORY;
    if (status == ATTN_OK) {
        rows.own = rows.memory;
        rows.exact = rows.own + count * rows.dv;
        rows.own_weights = rows.exact + count * rows.dv;
        rows.exact_weights = rows.own_weights + count * rows.sk;
        status = compute_both(problem, &exact, &both, &rows, why, size);
    } else {
        snprintf(why, size, "no memory to compare %lld rows", (long long)count);
    }
    if (status == ATTN_OK) {
        compare_rows(&rows, cosines, result);
        result->flops_ratio = flops_of(problem) / flops_of(&exact.problem);
        result->bytes_ratio = bytes_of(problem, NULL) / bytes_of(problem, &exact);
    }
    free(rows.memory);
    free(exact.copies);
    return status;
}
