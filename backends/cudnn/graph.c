/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - attention and its gradients in the operations that cuDNN recognises as such: which of
 * them, in which order and in which types is what its frontend (github.com/NVIDIA/cudnn-frontend,
 * node/scaled_dot_product_flash_attention.h) gives to it: CompositeSDPANode to libraries before
 * 9.21, what later ones still take, and CompositeSDPABackwardNode. After one failed call the
 * builder does nothing more. */
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
    void *rows, *len; /* tensors of the padding mask, or NULL: [b], valid queries and keys */
    void *scale;
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
    return ATTN_CUDNN_KEYS + 1 + b->graph->n_owned;
}

/* [b, hq, rows, n] */
static struct shape dense(const struct builder *b, int64_t rows, int64_t n)
{
    const struct attn_problem *p = b->problem;
    return (struct shape){{p->b, p->hq, rows, n}, {p->hq * rows * n, rows * n, n, 1}};
}

/* [b, hq, sq, n]: no memory stands behind it. */
static void *between(struct builder *b, int dtype, int64_t n)
{
    const struct shape shape = dense(b, b->problem->sq, n);
    return tensor(b, next_uid(b), dtype, &shape, VIRTUAL);
}

/* The same in floats, in memory of the workspace. */
static void *stored(struct builder *b, int64_t n)
{
    struct attn_cudnn_graph *g = b->graph;
    const struct shape shape = dense(b, b->problem->sq, n);
    assert(g->n_stored < ATTN_CUDNN_STORED);
    const int64_t uid = next_uid(b);
    g->stored_uids[g->n_stored] = uid;
    g->stored_bytes[g->n_stored++] = shape.extent[0] * shape.stride[0] * (int64_t)sizeof(float);
    return tensor(b, uid, CUDNN_DATA_FLOAT, &shape, GIVEN);
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

/* K or V as [b, hkv, d, sk]. */
static void *transposed(struct builder *b, uint32_t role)
{
    const struct attn_tensor *k = attn_tensor_find(b->problem, role);
    const struct shape shape = {{k->shape[0], k->shape[1], k->shape[3], k->shape[2]},
                                {k->stride[0], k->stride[1], k->stride[3], k->stride[2]}};
    return tensor(b, role, data_type(k->dtype), &shape, GIVEN);
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

/* The valid extents of the axes of a product, [m, k] [k, n]: with a padding mask, those beyond are
 * left out. NULL: all are valid. */
struct extents {
    void *m, *n, *k;
};

/* y = a b */
static void *matmul(struct builder *b, void *a, void *other, struct extents valid, void *y)
{
    void *what = make(b, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_type(b, what, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    finish(b, what);
    void *operation = make(b, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, other);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, what);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, valid.m);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, valid.n);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, valid.k);
    add_operation(b, operation);
    return y;
}

/* Over the axes that y does not have. */
static void *reduce(struct builder *b, int operator_, void *x, void *y)
{
    void *what = make(b, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
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

/* x seen with the axes of y, and in its type. */
static void *reshape(struct builder *b, void *x, void *y)
{
    void *operation = make(b, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_descriptor(b, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add_operation(b, operation);
    return y;
}

/* scale * q k^T, + bias, + slope * (key - row): rows only see keys before them where this is used.
 */
static void *build_scores(struct builder *b, void *q, void *k)
{
    const struct attn_problem *p = b->problem;
    void *s =
        matmul(b, q, k, (struct extents){.m = b->rows, .n = b->len}, scores(b, CUDNN_DATA_FLOAT));
    b->scale = scalar_float(b, p->scale);
    s = in_floats(b, CUDNN_POINTWISE_MUL, s, b->scale, scores(b, CUDNN_DATA_FLOAT));
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
    void *max = reduce(b, CUDNN_REDUCE_TENSOR_MAX, s, between(b, CUDNN_DATA_FLOAT, 1));
    if (sink)
        max = in_floats(b, CUDNN_POINTWISE_MAX, max, sink, between(b, CUDNN_DATA_FLOAT, 1));
    void *e = in_floats(b, CUDNN_POINTWISE_SUB, s, max, scores(b, CUDNN_DATA_FLOAT));
    e = in_floats(b, CUDNN_POINTWISE_EXP, e, NULL, scores(b, CUDNN_DATA_FLOAT));
    void *share = NULL; /* of the sink */
    if (sink) {
        share = in_floats(b, CUDNN_POINTWISE_SUB, sink, max, between(b, CUDNN_DATA_FLOAT, 1));
        share = in_floats(b, CUDNN_POINTWISE_EXP, share, NULL, between(b, CUDNN_DATA_FLOAT, 1));
    }
    void *sum = reduce(b, CUDNN_REDUCE_TENSOR_ADD, e, between(b, CUDNN_DATA_FLOAT, 1));
    if (sink)
        sum = in_floats(b, CUDNN_POINTWISE_ADD, sum, share, between(b, CUDNN_DATA_FLOAT, 1));
    void *log = in_floats(b, CUDNN_POINTWISE_LOG, sum, NULL, between(b, CUDNN_DATA_FLOAT, 1));
    in_floats(b, CUDNN_POINTWISE_ADD, max, log, lse ? lse : between(b, CUDNN_DATA_FLOAT, 1));
    return in_floats(b, CUDNN_POINTWISE_DIV, e, sum, scores(b, data_type(b->problem->dtype)));
}

static void *mask_positions(struct builder *b, void *s)
{
    const struct attn_cudnn_band band = attn_cudnn_band(b->problem);
    if (band.right >= 0)
        s = mask_right(b, s, &band);
    if (band.left >= 0)
        s = mask_left(b, s, &band);
    return s;
}

static void build_forward(struct builder *b)
{
    void *s = build_scores(b, operand(b, ATTN_Q, 0), transposed(b, ATTN_K));
    if (b->len)
        s = mask_padding(b, s);
    s = mask_positions(b, s);
    matmul(b, softmax(b, s), operand(b, ATTN_V, 0), (struct extents){.m = b->rows, .k = b->len},
           operand(b, ATTN_OUT, 0));
}

/* delta = the sum of GRAD_OUT * OUT over columns, in memory. */
static void *row_sums(struct builder *b, void *dout)
{
    const int64_t dv = b->problem->dv;
    void *delta = in_floats(b, CUDNN_POINTWISE_MUL, dout, operand(b, ATTN_OUT, 0),
                            between(b, CUDNN_DATA_FLOAT, dv));
    delta = reduce(b, CUDNN_REDUCE_TENSOR_ADD, delta, between(b, CUDNN_DATA_FLOAT, 1));
    return in_floats(b, CUDNN_POINTWISE_MUL, delta, scalar_float(b, 1), stored(b, 1));
}

/* p = exp(s - LSE) */
static void *weights(struct builder *b, void *q, void *k)
{
    void *s = build_scores(b, q, k);
    if (b->len)
        s = mask_padding(b, s);
    s = in_floats(b, CUDNN_POINTWISE_SUB, s, operand(b, ATTN_LSE, 0), scores(b, CUDNN_DATA_FLOAT));
    s = mask_positions(b, s);
    return in_floats(b, CUDNN_POINTWISE_EXP, s, NULL, scores(b, CUDNN_DATA_FLOAT));
}

/* GRAD_K or GRAD_V: s^T x, s in the type of q, added up over the query heads of a key head. */
static void gradient_of_keys(struct builder *b, void *s, void *x, uint32_t role)
{
    const struct attn_problem *p = b->problem;
    const int dtype = data_type(p->dtype);
    const int64_t all = p->sq * p->sk;
    const struct shape turned = {{p->b, p->hq, p->sk, p->sq}, {p->hq * all, all, 1, p->sk}};
    const struct shape heads = dense(b, p->sk, attn_tensor_find(p, role)->shape[3]);
    const int grouped = p->hq != p->hkv;
    void *gradient = operand(b, role, 0);
    void *y = grouped ? tensor(b, next_uid(b), dtype, &heads, VIRTUAL) : gradient;
    void *s_t = reshape(b, s, tensor(b, next_uid(b), dtype, &turned, VIRTUAL));
    matmul(b, s_t, x, (struct extents){.m = b->len, .k = b->rows}, y);
    if (grouped)
        reduce(b, CUDNN_REDUCE_TENSOR_ADD, y, gradient);
}

/* GRAD_Q: ds k, by way of a sum of floats in memory. */
static void gradient_of_queries(struct builder *b, void *ds, void *k_t)
{
    const struct attn_problem *p = b->problem;
    const struct attn_tensor *k = attn_tensor_find(p, ATTN_K);
    const struct shape shape = {{k->shape[0], k->shape[1], k->shape[2], k->shape[3]},
                                {k->stride[0], k->stride[1], k->stride[2], k->stride[3]}};
    void *rows = reshape(b, k_t, tensor(b, next_uid(b), CUDNN_DATA_FLOAT, &shape, VIRTUAL));
    void *sum = matmul(b, ds, rows, (struct extents){.m = b->rows, .k = b->len}, stored(b, p->dq));
    in_floats(b, CUDNN_POINTWISE_IDENTITY, sum, NULL, operand(b, ATTN_GRAD_Q, 0));
}

static void build_backward(struct builder *b)
{
    void *q = operand(b, ATTN_Q, 0), *k_t = transposed(b, ATTN_K);
    void *dout = operand(b, ATTN_GRAD_OUT, 0);
    void *delta = row_sums(b, dout);
    void *p = weights(b, q, k_t);
    gradient_of_keys(b, p, dout, ATTN_GRAD_V);
    void *ds = matmul(b, dout, transposed(b, ATTN_V), (struct extents){.m = b->rows, .n = b->len},
                      scores(b, CUDNN_DATA_FLOAT));
    ds = in_floats(b, CUDNN_POINTWISE_SUB, ds, delta, scores(b, CUDNN_DATA_FLOAT));
    ds = in_floats(b, CUDNN_POINTWISE_MUL, ds, p, scores(b, CUDNN_DATA_FLOAT));
    ds = in_floats(b, CUDNN_POINTWISE_MUL, ds, b->scale, scores(b, CUDNN_DATA_FLOAT));
    gradient_of_keys(b, ds, q, ATTN_GRAD_K);
    gradient_of_queries(b, ds, k_t);
}

static void build(struct builder *b)
{
    const struct attn_problem *p = b->problem;
    if (attn_cudnn_is_padded(p)) {
        const struct shape a_batch = {{p->b, 1, 1, 1}, {1, 1, 1, 1}};
        b->rows = tensor(b, ATTN_CUDNN_ROWS, CUDNN_DATA_INT32, &a_batch, GIVEN);
        b->len = operand(b, ATTN_LEN, 0);
        if (!b->len)
            b->len = tensor(b, ATTN_CUDNN_KEYS, CUDNN_DATA_INT32, &a_batch, GIVEN);
    }
    if (p->op == ATTN_OP_ATTENTION_BACKWARD)
        build_backward(b);
    else
        build_forward(b);
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
