/* SPDX-License-Identifier: Apache-2.0 */
/* product.c - see product.h */
#include "product.h"

#include <stdio.h>
#include <string.h>

#include "host_args.h"

enum { A, B, C, OPERANDS };
enum { ROW = 3, COLUMN = 4 }; /* axes of a stack */
#define LAY_THREADS 256

static int64_t rows_of(const struct attn_cuda_product *p, int operand)
{
    return operand == B ? p->n : p->m;
}

static int64_t columns_of(const struct attn_cuda_product *p, int operand)
{
    return operand == C ? p->n : p->inner;
}

/* The leading dimension of `vectors` of `length` elements; 0: cuBLAS cannot read them so. */
static int64_t leading(int64_t vectors, int64_t apart, int64_t length, int64_t step)
{
    if (length > 1 && step != 1)
        return 0;
    return vectors == 1 ? length : apart >= length ? apart : 0;
}

/* The leading dimension of an operand by rows, or by columns. */
static int64_t leading_of(const struct attn_cuda_product *p, const struct attn_cuda_stack *stack,
                          int operand, int by_columns)
{
    const int64_t rows = rows_of(p, operand), columns = columns_of(p, operand);
    return by_columns ? leading(columns, stack->stride[COLUMN], rows, stack->stride[ROW])
                      : leading(rows, stack->stride[ROW], columns, stack->stride[COLUMN]);
}

/* The same operand without gaps, by rows; matrices that a stack shares stay shared. Bytes, or -1 on
 * overflow. */
static int64_t dense_stack(const struct attn_cuda_product *p, int operand,
                           struct attn_cuda_stack *to)
{
    const struct attn_cuda_stack *from = &p->stack[operand];
    int64_t bytes = from->dtype == ATTN_F32 ? 4 : 2, elements = columns_of(p, operand);
    *to = (struct attn_cuda_stack){.dtype = from->dtype};
    to->stride[COLUMN] = 1;
    to->stride[ROW] = elements;
    if (__builtin_mul_overflow(elements, rows_of(p, operand), &elements))
        return -1;
    for (int axis = ROW - 1; axis >= 0; axis--) {
        if (from->stride[axis] == 0)
            continue;
        to->stride[axis] = elements;
        if (__builtin_mul_overflow(elements, p->extent[axis], &elements))
            return -1;
    }
    return __builtin_mul_overflow(elements, bytes, &bytes) ? -1 : bytes;
}

/* What a launch lays out; -1: too many. */
static int64_t lay_rows(const int64_t *extent)
{
    int64_t rows = 1;
    for (int axis = 0; axis < COLUMN; axis++)
        if (__builtin_mul_overflow(rows, extent[axis], &rows) || rows > INT32_MAX)
            return -1;
    return rows;
}

int attn_cuda_product_create(struct attn_cuda_product *p, char *why, size_t size)
{
    int status = attn_cuda_find_step("lay", p->stack[A].dtype, 0, &p->lay, why, size);
    for (int o = 0; o < OPERANDS && status == ATTN_OK; o++) {
        struct attn_cuda_stack dense;
        if (leading_of(p, &p->stack[o], o, 0) || leading_of(p, &p->stack[o], o, 1))
            continue;
        const int64_t bytes = dense_stack(p, o, &dense);
        const int64_t extent[] = {p->extent[0], p->extent[1], p->extent[2], rows_of(p, o)};
        if (bytes < 0 || lay_rows(extent) < 0) {
            snprintf(why, size, "an operand that must be copied has too many rows");
            status = ATTN_UNSUPPORTED;
        } else {
            status = attn_gpu_allocate((uint64_t)bytes, &p->dense[o], why, size);
            p->bytes += (uint64_t)bytes;
        }
    }
    if (status != ATTN_OK)
        attn_cuda_product_destroy(p);
    return status;
}

void attn_cuda_product_destroy(struct attn_cuda_product *p)
{
    for (int o = 0; o < OPERANDS; o++) {
        attn_gpu_release(p->dense[o]);
        p->dense[o] = NULL;
    }
}

int attn_cuda_lay_start(void *queue, void *kernel, const struct attn_cuda_lay *lay, char *why,
                        size_t size)
{
    struct attn_cuda_lay one = *lay;
    const int64_t columns = one.extent[COLUMN], rows = lay_rows(one.extent);
    if (rows < 0) {
        snprintf(why, size, "an operand has too many rows");
        return ATTN_FAILED;
    }
    if (rows == 0 || columns == 0)
        return ATTN_OK;
    one.threads = columns < LAY_THREADS ? (int32_t)(columns + 31) / 32 * 32 : LAY_THREADS;
    const struct attn_gpu_grid grid = {
        .blocks_x = (uint32_t)rows, .blocks_z = 1, .threads = (uint32_t)one.threads};
    return attn_gpu_launch(queue, kernel, &grid, &one, why, size);
}

/* Between an operand and its dense place. */
static int lay_out(const struct attn_cuda_product *p, int operand, void *data, int back, char *why,
                   size_t size)
{
    const struct attn_cuda_stack *given = &p->stack[operand];
    struct attn_cuda_stack dense;
    dense_stack(p, operand, &dense);
    struct attn_cuda_lay lay = {.to = back ? data : p->dense[operand],
                                .from = back ? p->dense[operand] : data};
    for (int axis = 0; axis < ATTN_CUDA_AXES; axis++) {
        lay.extent[axis] = axis == ROW                ? rows_of(p, operand)
                           : axis == COLUMN           ? columns_of(p, operand)
                           : given->stride[axis] == 0 ? 1
                                                      : p->extent[axis];
        lay.to_stride[axis] = back ? given->stride[axis] : dense.stride[axis];
        lay.from_stride[axis] = back ? dense.stride[axis] : given->stride[axis];
    }
    return attn_cuda_lay_start(attn_cublas_queue(p->cublas), p->lay, &lay, why, size);
}

/* A product as cuBLAS gets it: all operands in place, and what is left of the stack. */
struct call {
    int64_t extent[3], m, n, inner;
    struct attn_cuda_stack stack[3];
    char *data[3];
};

static int runs_on(const struct call *call, int outer, int inner)
{
    for (int o = 0; o < OPERANDS; o++)
        if (call->stack[o].stride[outer] != call->extent[inner] * call->stack[o].stride[inner])
            return 0;
    return 1;
}

static int fits(const struct call *call, int operand)
{
    const int64_t *stride = call->stack[operand].stride;
    const int64_t columns = operand == C ? call->n : call->inner;
    return leading(call->m, stride[ROW], columns, stride[COLUMN]) ||
           leading(columns, stride[COLUMN], call->m, stride[ROW]);
}

/* Rows of c, of all matrices that meet the same b, are rows of one matrix, where they lie so: query
 * heads of a group, batches that share a weight. */
static void join_rows(struct call *call)
{
    for (int axis = ROW - 1; axis >= 0; axis--) {
        struct call joined = *call;
        int64_t *a = joined.stack[A].stride, *c = joined.stack[C].stride;
        if (call->m == 1) {
            a[ROW] = a[axis];
            c[ROW] = c[axis];
        }
        joined.m *= call->extent[axis];
        joined.extent[axis] = 1;
        if (call->stack[B].stride[axis] == 0 && a[axis] == call->m * a[ROW] &&
            c[axis] == call->m * c[ROW] && fits(&joined, A) && fits(&joined, C))
            *call = joined;
    }
}

/* The axes of the stack that lie one behind the other, as one: the others have extent 1. */
static void join_stack(struct call *call)
{
    for (int outer = ROW - 2; outer >= 0; outer--)
        for (int inner = outer + 1; inner < ROW; inner++) {
            if (call->extent[outer] == 1 || call->extent[inner] == 1 ||
                !runs_on(call, outer, inner))
                continue;
            call->extent[inner] *= call->extent[outer];
            call->extent[outer] = 1;
        }
}

/* An operand as op(X) with `rows` rows by columns, which cuBLAS wants. */
static struct attn_cublas_matrix matrix_of(const struct attn_cuda_stack *stack, int64_t rows,
                                           int64_t columns, int batch_axis)
{
    const int64_t ld = leading(columns, stack->stride[COLUMN], rows, stack->stride[ROW]);
    return (struct attn_cublas_matrix){
        .dtype = stack->dtype,
        .transposed = !ld,
        .ld = ld ? ld : leading(rows, stack->stride[ROW], columns, stack->stride[COLUMN]),
        .stride = stack->stride[batch_axis],
    };
}

static struct attn_cuda_stack turned(const struct attn_cuda_stack *stack)
{
    struct attn_cuda_stack t = *stack;
    t.stride[ROW] = stack->stride[COLUMN];
    t.stride[COLUMN] = stack->stride[ROW];
    return t;
}

/* One batch along the longest axis of the stack, for each index of the others. A c by rows is the
 * transposed product: c^T = b a^T. */
static int multiply(const struct attn_cuda_product *p, const struct call *call, int adds, char *why,
                    size_t size)
{
    int axis = 0, status = ATTN_OK;
    for (int other = 1; other < ROW; other++)
        if (call->extent[other] > call->extent[axis])
            axis = other;
    const int by_columns =
        leading(call->n, call->stack[C].stride[COLUMN], call->m, call->stack[C].stride[ROW]) != 0;
    const int first = by_columns ? A : B, second = by_columns ? B : A;
    const struct attn_cuda_stack other = turned(&call->stack[second]);
    const struct attn_cuda_stack c = by_columns ? call->stack[C] : turned(&call->stack[C]);
    struct attn_cublas_product one = {.m = by_columns ? call->m : call->n,
                                      .n = by_columns ? call->n : call->m,
                                      .k = call->inner,
                                      .batch = call->extent[axis],
                                      .adds = adds};
    one.a = matrix_of(&call->stack[first], one.m, one.k, axis);
    one.b = matrix_of(&other, one.k, one.n, axis);
    one.c = matrix_of(&c, one.m, one.n, axis);
    const int x = (axis + 1) % ROW, y = (axis + 2) % ROW;
    for (int64_t n = 0; n < call->extent[x] * call->extent[y] && status == ATTN_OK; n++) {
        char *at[OPERANDS];
        for (int o = 0; o < OPERANDS; o++) {
            const struct attn_cuda_stack *s = &call->stack[o];
            const int64_t offset =
                n % call->extent[x] * s->stride[x] + n / call->extent[x] * s->stride[y];
            at[o] = call->data[o] + offset * (s->dtype == ATTN_F32 ? 4 : 2);
        }
        one.a.data = at[first];
        one.b.data = at[second];
        one.c.data = at[C];
        status = attn_cublas_multiply(p->cublas, &one, why, size);
    }
    return status;
}

int attn_cuda_product_start(const struct attn_cuda_product *p, const void *a, const void *b,
                            void *c, int adds, char *why, size_t size)
{
    struct call call = {.m = p->m, .n = p->n, .inner = p->inner};
    const void *given[OPERANDS] = {a, b, c};
    int status = ATTN_OK;
    int64_t matrices = 1;
    for (int axis = 0; axis < ROW; axis++) {
        call.extent[axis] = p->extent[axis];
        matrices *= p->extent[axis];
    }
    if (matrices == 0 || p->m == 0 || p->n == 0 || p->inner == 0)
        return ATTN_OK;
    memcpy(call.data, given, sizeof given);
    for (int o = 0; o < OPERANDS && status == ATTN_OK; o++) {
        call.stack[o] = p->stack[o];
        if (!p->dense[o])
            continue;
        if (o != C || adds)
            status = lay_out(p, o, call.data[o], 0, why, size);
        dense_stack(p, o, &call.stack[o]);
        call.data[o] = p->dense[o];
    }
    join_rows(&call);
    join_stack(&call);
    if (status == ATTN_OK)
        status = multiply(p, &call, adds, why, size);
    if (status == ATTN_OK && p->dense[C])
        status = lay_out(p, C, c, 1, why, size);
    return status;
}
