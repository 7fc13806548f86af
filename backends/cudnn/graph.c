/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - attention in the operations that cuDNN recognises as such: which of them, in which
 * order and in which types is what its frontend (github.com/NVIDIA/cudnn-frontend, node/
 * scaled_dot_product_flash_attention.h, CompositeSDPANode) gives to libraries before 9.21, and what
 * later ones still take. After one failed call the builder does nothing more. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"
#include "graph.h"
#include "library.h"
#include "supports.h"

struct builder {
    struct attn_cudnn_graph *graph;
    const struct attn_problem *problem;
    void *rows, *len; /* tensors of the padding mask, or NULL */
    int status;
    char *why;
    size_t size;
};

/* Extents and strides of four axes. */
struct shape {
    int64_t extent[4], stride[4];
};

static void judge(struct builder *b, int status)
{
    b->status = attn_cudnn_check(status, "describing attention", b->why, b->size);
}

static void *make(struct builder *b, int type)
{
    void *made = NULL;
    if (b->status != ATTN_OK)
        return NULL;
    judge(b, attn_cudnn.CreateDescriptor(type, &made));
    assert(b->graph->n_owned < ATTN_CUDNN_DESCRIPTORS);
    if (made)
        b->graph->owned[b->graph->n_owned++] = made;
    return made;
}

static void set(struct builder *b, void *descriptor, int name, int type, int64_t count,
                const void *elements)
{
    if (b->status == ATTN_OK)
        judge(b, attn_cudnn.SetAttribute(descriptor, name, type, count, elements));
}

static void set_type(struct builder *b, void *descriptor, int name, int dtype)
{
    set(b, descriptor, name, CUDNN_TYPE_DATA_TYPE, 1, &dtype);
}

/* Nothing where `other` is NULL. */
static void set_descriptor(struct builder *b, void *descriptor, int name, void *other)
{
    if (other)
        set(b, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
}

static void *finish(struct builder *b, void *descriptor)
{
    if (b->status == ATTN_OK)
        judge(b, attn_cudnn.Finalize(descriptor));
    return descriptor;
}

static void add_operation(struct builder *b, void *operation)
{
    finish(b, operation);
    assert(b->graph->n_operations < ATTN_CUDNN_OPERATIONS);
    b->graph->operations[b->graph->n_operations++] = operation;
}

enum kind {
    GIVEN = 0,
    VIRTUAL = CUDNN_ATTR_TENSOR_IS_VIRTUAL,
    BY_VALUE = CUDNN_ATTR_TENSOR_IS_BY_VALUE
};

static void *tensor(struct builder *b, int64_t uid, int dtype, const struct shape *shape,
                    enum kind kind)
{
    const int64_t alignment = 16; /* of the first element; memory of the device has 256 */
    const char yes = 1;
    void *made = make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_type(b, made, CUDNN_ATTR_TENSOR_DATA_TYPE, dtype);
    set(b, made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape->extent);
    set(b, made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape->stride);
    set(b, made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(b, made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (kind != GIVEN)
        set(b, made, (int)kind, CUDNN_TYPE_BOOLEAN, 1, &yes);
    return finish(b, made);
}

/* Each tensor is a descriptor more. */
static int64_t next_uid(const struct builder *b)
{
    return ATTN_CUDNN_ROWS + 1 + b->graph->n_owned;
}

/* [b, hq, sq, n], dense: no memory stands behind it. */
static void *between(struct builder *b, int dtype, int64_t n)
{
    const struct attn_problem *p = b->problem;
    const struct shape shape = {{p->b, p->hq, p->sq, n}, {p->hq * p->sq * n, p->sq * n, n, 1}};
    return tensor(b, next_uid(b), dtype, &shape, VIRTUAL);
}

static void *scores(struct builder *b, int dtype)
{
    return between(b, dtype, b->problem->sk);
}

static void *scalar(struct builder *b, int dtype, union attn_cudnn_scalar value)
{
    static const struct shape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    struct attn_cudnn_graph *g = b->graph;
    assert(g->n_scalars < ATTN_CUDNN_SCALARS);
    const int64_t uid = next_uid(b);
    g->scalar_uids[g->n_scalars] = uid;
    g->scalars[g->n_scalars++] = value;
    return tensor(b, uid, dtype, &one, BY_VALUE);
}

static void *scalar_int(struct builder *b, int64_t value)
{
    return scalar(b, CUDNN_DATA_INT32, (union attn_cudnn_scalar){.i = (int32_t)value});
}

static void *scalar_float(struct builder *b, double value)
{
    return scalar(b, CUDNN_DATA_FLOAT, (union attn_cudnn_scalar){.f = (float)value});
}

static int data_type(uint32_t dtype)
{
    return dtype == ATTN_F16    ? CUDNN_DATA_HALF
           : dtype == ATTN_BF16 ? CUDNN_DATA_BFLOAT16
           : dtype == ATTN_I32  ? CUDNN_DATA_INT32
                                : CUDNN_DATA_FLOAT;
}

/* An operand of the problem, with axes of extent 1 before or after its own; NULL: it has none. An
 * axis that is broadcast has extent 1. */
static void *operand(struct builder *b, uint32_t role, int before)
{
    const struct attn_tensor *given = attn_tensor_find(b->problem, role);
    struct shape shape = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    if (!given)
        return NULL;
    for (uint32_t a = 0; a < given->rank; a++)
        if (given->stride[a] != 0) {
            shape.extent[(uint32_t)before + a] = given->shape[a];
            shape.stride[(uint32_t)before + a] = given->stride[a];
        }
    return tensor(b, role, data_type(given->dtype), &shape, GIVEN);
}

/* K as [b, hkv, dk, sk]. */
static void *transposed_k(struct builder *b)
{
    const struct attn_tensor *k = attn_tensor_find(b->problem, ATTN_K);
    const struct shape shape = {{k->shape[0], k->shape[1], k->shape[3], k->shape[2]},
                                {k->stride[0], k->stride[1], k->stride[3], k->stride[2]}};
    return tensor(b, ATTN_K, data_type(k->dtype), &shape, GIVEN);
}

/* y = mode(x, other), or of x alone; select: x where `select` is true, `other` elsewhere. Axis: of
 * GEN_INDEX, else -1. */
static void *apply(struct builder *b, int mode, int precision, int64_t axis, void *x, void *other,
                   void *select, void *y)
{
    void *what = make(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(b, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_type(b, what, CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
    if (axis >= 0)
        set(b, what, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finish(b, what);
    void *operation = make(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, select);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_operation(b, operation);
    return y;
}

static void *in_floats(struct builder *b, int mode, void *x, void *other, void *y)
{
    return apply(b, mode, CUDNN_DATA_FLOAT, -1, x, other, NULL, y);
}

static void *in_ints(struct builder *b, int mode, void *x, void *other)
{
    return apply(b, mode, CUDNN_DATA_INT32, -1, x, other, NULL, scores(b, CUDNN_DATA_INT32));
}

static void *compare(struct builder *b, int mode, void *x, void *other)
{
    return apply(b, mode, CUDNN_DATA_BOOLEAN, -1, x, other, NULL, scores(b, CUDNN_DATA_BOOLEAN));
}

/* The number of the row or of the key of each score. */
enum { ROW = 2, KEY = 3 };
static void *positions(struct builder *b, void *s, int64_t axis, int precision)
{
    return apply(b, CUDNN_POINTWISE_GEN_INDEX, precision, axis, s, NULL, NULL,
                 scores(b, CUDNN_DATA_INT32));
}

/* s where allowed, -inf elsewhere. */
static void *mask(struct builder *b, void *s, void *allowed)
{
    void *nothing = scalar_float(b, -INFINITY);
    return apply(b, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, s, nothing, allowed,
                 scores(b, CUDNN_DATA_FLOAT));
}

/* y = a b. With a padding mask, extents beyond the valid ones are left out: of rows, and of the
 * axis of keys by its name in this product. */
static void *matmul(struct builder *b, void *a, void *other, int keys_override, void *y)
{
    void *what = make(b, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_type(b, what, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    finish(b, what);
    void *operation = make(b, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, other);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, what);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, b->rows);
    set_descriptor(b, operation, keys_override, b->len);
    add_operation(b, operation);
    return y;
}

/* Over keys: [b, hq, sq, 1]. */
static void *reduce(struct builder *b, int operator_, void *x)
{
    void *y = between(b, CUDNN_DATA_FLOAT, 1), *what = make(b, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(b, what, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operator_);
    set_type(b, what, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    finish(b, what);
    void *operation = make(b, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, what);
    add_operation(b, operation);
    return y;
}

/* scale * q k^T, + bias, + slope * (key - row): rows only see keys before them where this is used.
 */
static void *build_scores(struct builder *b)
{
    const struct attn_problem *p = b->problem;
    void *q = operand(b, ATTN_Q, 0), *k = transposed_k(b);
    void *s = matmul(b, q, k, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
                     scores(b, CUDNN_DATA_FLOAT));
    s = in_floats(b, CUDNN_POINTWISE_MUL, s, scalar_float(b, p->scale),
                  scores(b, CUDNN_DATA_FLOAT));
    void *bias = operand(b, ATTN_BIAS, 0), *slopes = operand(b, ATTN_ALIBI, 1);
    if (bias)
        s = in_floats(b, CUDNN_POINTWISE_ADD, s, bias, scores(b, CUDNN_DATA_FLOAT));
    if (slopes) {
        void *row = positions(b, s, ROW, CUDNN_DATA_INT32),
             *key = positions(b, s, KEY, CUDNN_DATA_INT32);
        void *distance = in_ints(b, CUDNN_POINTWISE_SUB, key, row);
        void *penalty =
            in_floats(b, CUDNN_POINTWISE_MUL, distance, slopes, scores(b, CUDNN_DATA_FLOAT));
        s = in_floats(b, CUDNN_POINTWISE_ADD, s, penalty, scores(b, CUDNN_DATA_FLOAT));
    }
    return s;
}

static void *mask_padding(struct builder *b, void *s)
{
    void *row = positions(b, s, ROW, CUDNN_DATA_INT32),
         *key = positions(b, s, KEY, CUDNN_DATA_INT32);
    row = compare(b, CUDNN_POINTWISE_CMP_LT, row, b->rows);
    key = compare(b, CUDNN_POINTWISE_CMP_LT, key, b->len);
    return mask(b, s, compare(b, CUDNN_POINTWISE_LOGICAL_AND, row, key));
}

/* row + right >= key, the row counted from the end of the keys where that is the alignment. */
static void *mask_right(struct builder *b, void *s, const struct attn_cudnn_band *band)
{
    void *row = positions(b, s, ROW, CUDNN_DATA_FLOAT),
         *key = positions(b, s, KEY, CUDNN_DATA_FLOAT);
    if (band->bottom_right) {
        row = in_ints(b, CUDNN_POINTWISE_ADD, row, b->len ? b->len : scalar_int(b, b->problem->sk));
        row =
            in_ints(b, CUDNN_POINTWISE_SUB, row, b->rows ? b->rows : scalar_int(b, b->problem->sq));
    }
    if (band->right > 0)
        row = in_ints(b, CUDNN_POINTWISE_ADD, row, scalar_int(b, band->right));
    return mask(b, s, compare(b, CUDNN_POINTWISE_CMP_GE, row, key));
}

/* key + left + 1 > row. The sum is one of floats where it is the same for all batches: so the
 * engines know it. */
static void *mask_left(struct builder *b, void *s, const struct attn_cudnn_band *band)
{
    const struct attn_problem *p = b->problem;
    void *row = positions(b, s, ROW, CUDNN_DATA_FLOAT),
         *key = positions(b, s, KEY, CUDNN_DATA_FLOAT);
    if (band->bottom_right && b->len) {
        key = in_ints(b, CUDNN_POINTWISE_ADD, key, scalar_int(b, band->left + 1));
        key = in_ints(b, CUDNN_POINTWISE_SUB, key, b->len);
        key = in_ints(b, CUDNN_POINTWISE_ADD, key, b->rows);
    } else {
        const int64_t off = band->bottom_right ? p->sk - p->sq : 0;
        key =
            in_floats(b, CUDNN_POINTWISE_ADD, key, scalar_float(b, (double)(band->left + 1 - off)),
                      scores(b, CUDNN_DATA_FLOAT));
    }
    return mask(b, s, compare(b, CUDNN_POINTWISE_CMP_GT, key, row));
}

/* p = exp(s - max) / sum, in the type of q; lse = max + log(sum), which
 * belongs to the pattern even where nobody wants it. A sink joins both. */
static void *softmax(struct builder *b, void *s)
{
    void *sink = operand(b, ATTN_SINK, 1), *lse = operand(b, ATTN_LSE, 0);
    void *max = reduce(b, CUDNN_REDUCE_TENSOR_MAX, s);
    if (sink)
        max = in_floats(b, CUDNN_POINTWISE_MAX, max, sink, between(b, CUDNN_DATA_FLOAT, 1));
    void *e = in_floats(b, CUDNN_POINTWISE_SUB, s, max, scores(b, CUDNN_DATA_FLOAT));
    e = in_floats(b, CUDNN_POINTWISE_EXP, e, NULL, scores(b, CUDNN_DATA_FLOAT));
    void *share = NULL; /* of the sink */
    if (sink) {
        share = in_floats(b, CUDNN_POINTWISE_SUB, sink, max, between(b, CUDNN_DATA_FLOAT, 1));
        share = in_floats(b, CUDNN_POINTWISE_EXP, share, NULL, between(b, CUDNN_DATA_FLOAT, 1));
    }
    void *sum = reduce(b, CUDNN_REDUCE_TENSOR_ADD, e);
    if (sink)
        sum = in_floats(b, CUDNN_POINTWISE_ADD, sum, share, between(b, CUDNN_DATA_FLOAT, 1));
    void *log = in_floats(b, CUDNN_POINTWISE_LOG, sum, NULL, between(b, CUDNN_DATA_FLOAT, 1));
    in_floats(b, CUDNN_POINTWISE_ADD, max, log, lse ? lse : between(b, CUDNN_DATA_FLOAT, 1));
    return in_floats(b, CUDNN_POINTWISE_DIV, e, sum, scores(b, data_type(b->problem->dtype)));
}

static void build(struct builder *b)
{
    const struct attn_problem *p = b->problem;
    const struct attn_cudnn_band band = attn_cudnn_band(p);
    b->len = operand(b, ATTN_LEN, 0);
    if (b->len) {
        const struct shape a_batch = {{p->b, 1, 1, 1}, {1, 1, 1, 1}};
        b->rows = tensor(b, ATTN_CUDNN_ROWS, CUDNN_DATA_INT32, &a_batch, GIVEN);
    }
    void *s = build_scores(b);
    if (b->len)
        s = mask_padding(b, s);
    if (band.right >= 0)
        s = mask_right(b, s, &band);
    if (band.left >= 0)
        s = mask_left(b, s, &band);
    matmul(b, softmax(b, s), operand(b, ATTN_V, 0),
           CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, operand(b, ATTN_OUT, 0));
}

int attn_cudnn_graph_create(const struct attn_problem *problem, void *device,
                            struct attn_cudnn_graph **graph, char *why, size_t size)
{
    struct attn_cudnn_graph *made = calloc(1, sizeof *made);
    struct builder b = {.graph = made, .problem = problem, .why = why, .size = size};
    if (!made) {
        snprintf(why, size, "no memory for a graph");
        return ATTN_OUT_OF_MEMORY;
    }
    made->device = device;
    build(&b);
    void *whole = make(&b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(&b, whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, made->n_operations,
        made->operations);
    finish(&b, whole);
    if (b.status == ATTN_OK)
        b.status = attn_cudnn_graph_engines(made, whole, why, size);
    if (b.status == ATTN_OK)
        *graph = made;
    else
        attn_cudnn_graph_destroy(made);
    return b.status;
}
