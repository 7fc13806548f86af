/* SPDX-License-Identifier: Apache-2.0 */
/* inner.c - q, k and v of multi-head attention, and what its out says about the heads. */
#include "tensor/inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/operands.h"

/* One projection, head by head: y[b,h,i,c] of row h * width + c of w. */
struct projection {
    const struct attn_tensor *x, *w, *bias;
    int64_t heads, width;
    double *y;    /* [B,heads,rows,width] */
    double *size; /* [B,heads,rows]: squares of sizes are added; NULL: not wanted */
    bool *exact;
};

/* The largest power of two of which x is a whole multiple; +inf for 0. x is normal, or called less
 * than it is. */
static double unit_of(double x)
{
    uint64_t bits, mantissa;
    double unit;

    if (x == 0.0)
        return INFINITY;
    memcpy(&bits, &x, sizeof bits);
    mantissa = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    const int64_t exponent = (int64_t)(bits >> 52 & 0x7ff) - 52 + __builtin_ctzll(mantissa);
    bits = exponent > 0 ? (uint64_t)exponent << 52 : 0;
    memcpy(&unit, &bits, sizeof unit);
    return unit;
}

/* Is a number of at most 8 bits? */
static bool is_narrow(double x)
{
    return x == 0.0 || fabs(x) <= 0x1p8 * unit_of(x);
}

/* The weights of one row that are not 0. Returns their number. */
static int64_t row_of(const struct attn_tensor *w, int64_t row, int64_t *index, double *weight)
{
    int64_t count = 0;

    for (int64_t e = 0; e < w->shape[1]; e++) {
        const double value = ref_load(w, (int64_t[]){row, e});
        index[count] = e;
        weight[count] = value;
        count += value != 0.0;
    }
    return count;
}

static int project(const struct projection *p)
{
    const int64_t b = p->x->shape[0], rows = p->x->shape[1], in = p->x->shape[2];
    int64_t *index = calloc((size_t)in, sizeof *index);
    double *weight = calloc((size_t)in, sizeof *weight);
    double *x = calloc((size_t)(b * rows), (size_t)in * sizeof *x);
    const bool ok = index && weight && x;

    for (int64_t at = 0; ok && at < b * rows * in; at++) {
        x[at] = ref_load(p->x, (int64_t[]){at / in / rows, at / in % rows, at % in});
        *p->exact = *p->exact && is_narrow(x[at]);
    }
    for (int64_t row = 0; ok && row < p->heads * p->width; row++) {
        const int64_t count = row_of(p->w, row, index, weight);
        const double bias = p->bias ? ref_load(p->bias, &row) : 0.0;
        for (int64_t n = 0; n < count; n++)
            *p->exact = *p->exact && is_narrow(weight[n]);
        for (int64_t at = 0; at < b * rows; at++) {
            const int64_t batch = at / rows, i = at % rows;
            const int64_t place = (batch * p->heads + row / p->width) * rows + i;
            double sum = bias, size = fabs(bias), unit = unit_of(bias);
            for (int64_t n = 0; n < count; n++) {
                const double term = x[at * in + index[n]] * weight[n];
                sum += term;
                size += fabs(term);
                unit = fmin(unit, unit_of(term));
            }
            *p->exact = *p->exact && size <= 0x1p8 * unit && unit >= 0x1p-14 && size <= 0x1p15;
            p->y[place * p->width + row % p->width] = sum;
            if (p->size)
                p->size[place] += size * size;
        }
    }
    free(index);
    free(weight);
    free(x);
    return ok ? 0 : -1;
}

static bool is_shared(uint32_t role)
{
    return !(role >= ATTN_X_Q && role <= ATTN_B_O) && role != ATTN_OUT && role != ATTN_WEIGHTS;
}

static void add_tensor(struct attn_inner *inner, uint32_t role, double *data, int64_t heads,
                       int64_t rows, int64_t width)
{
    struct attn_problem *p = &inner->instance.problem;

    inner->instance.tensors[p->n_tensors++] = (struct attn_tensor){
        .role = role,
        .dtype = ATTN_F64,
        .rank = 4,
        .shape = {p->b, heads, rows, width},
        .stride = {heads * rows * width, rows * width, width, 1},
        .data = data,
    };
}

bool attn_inner_pruned(const struct attn_problem *p, int64_t h)
{
    const struct attn_tensor *mask = attn_tensor_find(p, ATTN_HEAD_MASK);

    return mask && ref_load(mask, &h) == 0.0;
}

/* Finds the sources of a row of out, and which columns of the heads they show. */
static int find_sources(const struct attn_problem *p, struct attn_inner *inner)
{
    const struct attn_tensor *w_o = attn_tensor_find(p, ATTN_W_O);
    const int64_t columns = p->hq * p->dv, width = w_o ? w_o->shape[0] : columns;
    int64_t *index = calloc((size_t)columns, sizeof *index);
    double *weight = calloc((size_t)columns, sizeof *weight);
    unsigned char *seen = calloc((size_t)columns, 1);

    inner->sources = calloc((size_t)width, sizeof *inner->sources);
    const bool ok = index && weight && seen && inner->sources;
    for (int64_t o = 0; ok && o < width; o++) {
        inner->sources[o] = (struct attn_inner_source){o, 1.0};
        if (w_o)
            inner->sources[o] = row_of(w_o, o, index, weight) == 1
                                    ? (struct attn_inner_source){index[0], weight[0]}
                                    : (struct attn_inner_source){-1, 0.0};
        if (inner->sources[o].column >= 0)
            seen[inner->sources[o].column] = 1;
    }
    inner->visible = true;
    for (int64_t column = 0; ok && column < columns; column++)
        inner->visible = inner->visible && (seen[column] || attn_inner_pruned(p, column / p->dv));
    free(index);
    free(weight);
    free(seen);
    return ok ? 0 : -1;
}

/* The operator of q, k and v with a softmax. */
static uint32_t attention(void)
{
    const struct ref_op *const *op = ref_ops;

    while (*op && !ref_op_is((*op)->op, REF_QKV | REF_SOFTMAX))
        op++;
    return *op ? (*op)->op : 0;
}

static double *room(int64_t a, int64_t b, int64_t c)
{
    return calloc((size_t)(a * b) * (size_t)(c > 0 ? c : 1) + 1, sizeof(double));
}

int attn_inner_create(const struct attn_instance *mha, struct attn_inner *inner)
{
    const struct attn_problem *p = &mha->problem;
    const struct attn_tensor *x_q = attn_tensor_find(p, ATTN_X_Q);
    const struct attn_tensor *x_k = attn_tensor_find(p, ATTN_X_K);
    const struct attn_tensor *x_v = attn_tensor_find(p, ATTN_X_V);

    *inner = (struct attn_inner){.q = room(p->b, p->hq * p->sq, p->dq),
                                 .k = room(p->b, p->hkv * p->sk, p->dk),
                                 .v = room(p->b, p->hkv * p->sk, p->dv),
                                 .out = room(p->b, p->hq * p->sq, p->dv),
                                 .q_size = room(p->b, p->hq, p->sq),
                                 .exact = true};
    inner->instance.c = mha->c; /* nothing in the copy is owned */
    inner->instance.kind = mha->kind;
    inner->instance.problem = *p;
    inner->instance.problem.op = attention();
    inner->instance.problem.tensors = inner->instance.tensors;
    inner->instance.problem.n_tensors = 0;
    for (uint32_t t = 0; t < p->n_tensors; t++)
        if (is_shared(p->tensors[t].role))
            inner->instance.tensors[inner->instance.problem.n_tensors++] = p->tensors[t];
    add_tensor(inner, ATTN_Q, inner->q, p->hq, p->sq, p->dq);
    add_tensor(inner, ATTN_K, inner->k, p->hkv, p->sk, p->dk);
    add_tensor(inner, ATTN_V, inner->v, p->hkv, p->sk, p->dv);
    add_tensor(inner, ATTN_OUT, inner->out, p->hq, p->sq, p->dv);

    x_k = x_k ? x_k : x_q;
    const struct projection all[] = {
        {x_q, attn_tensor_find(p, ATTN_W_Q), attn_tensor_find(p, ATTN_B_Q), p->hq, p->dq, inner->q,
         inner->q_size, &inner->exact},
        {x_k, attn_tensor_find(p, ATTN_W_K), attn_tensor_find(p, ATTN_B_K), p->hkv, p->dk, inner->k,
         NULL, &inner->exact},
        {x_v ? x_v : x_k, attn_tensor_find(p, ATTN_W_V), attn_tensor_find(p, ATTN_B_V), p->hkv,
         p->dv, inner->v, NULL, &inner->exact}};
    int status = inner->q && inner->k && inner->v && inner->out && inner->q_size ? 0 : -1;
    for (int n = 0; n < 3 && status == 0; n++)
        status = project(&all[n]);
    for (int64_t row = 0; status == 0 && row < p->b * p->hq * p->sq; row++)
        inner->q_size[row] = sqrt(inner->q_size[row]);
    if (status == 0)
        status = find_sources(p, inner);
    if (status != 0)
        attn_inner_free(inner);
    return status;
}

void attn_inner_free(struct attn_inner *inner)
{
    free(inner->q);
    free(inner->k);
    free(inner->v);
    free(inner->out);
    free(inner->q_size);
    free(inner->sources);
    memset(inner, 0, sizeof *inner);
}

void attn_inner_read(const struct attn_instance *mha, struct attn_inner *inner)
{
    const struct attn_problem *p = &mha->problem;
    const struct attn_tensor *out = attn_tensor_find(p, ATTN_OUT);
    const struct attn_tensor *x_q = attn_tensor_find(p, ATTN_X_Q);
    const struct attn_tensor *b_o = attn_tensor_find(p, ATTN_B_O);
    const bool residual = p->flags & ATTN_FLAG_RESIDUAL;

    for (int64_t n = 0; n < p->b * p->hq * p->sq * p->dv; n++)
        inner->out[n] = NAN;
    inner->beside = 0.0;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->sq; i++)
            for (int64_t o = 0; o < out->shape[2]; o++) {
                const struct attn_inner_source *source = &inner->sources[o];
                const int64_t at[] = {b, i, o}, h = source->column / p->dv;
                double added = b_o ? ref_load(b_o, &o) : 0.0;
                if (source->column < 0)
                    continue;
                added += residual ? ref_load(x_q, at) : 0.0;
                inner->beside = fmax(inner->beside, fabs(added));
                inner->out[((b * p->hq + h) * p->sq + i) * p->dv + source->column % p->dv] =
                    (ref_load(out, at) - added) / source->weight;
            }
}
