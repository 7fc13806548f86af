/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - chunked in double, by its definition: for each row a sum over the keys of its chunk,
 * and one over all keys of the linear part. No state is built. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/ops/chunked/chunked.h"
#include "reference/parallel.h"

/* One head of one batch entry in double. */
struct head {
    const struct ref_job *job;
    struct ref_arithmetic arithmetic;
    int64_t b, h, tokens, dk, dl, dv;
    double *k, *lin_k, *v;             /* [S,Dk], [S,Dl], [S,Dv] */
    double *scratch;                   /* [rows] of Dk + Dl + 2 Dv */
    struct ref_chunked_column *column; /* [rows,Dv] */
    int64_t first, rows;               /* the requested rows of out */
};

/* One row: token i sees keys [begin, end) of its chunk, and [0, far) through the linear part. */
struct row {
    const struct head *head;
    int64_t i, begin, end, far;
    double *q, *lin_q, *linear, *gate;
    double *out;
    struct ref_chunked_column *column; /* NULL: no bound is wanted */
    struct ref_chunked_bound bound;
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* scale q.k and the bias of key j. */
static struct ref_chunked_cell cell_of(const struct row *x, int64_t j)
{
    const struct head *s = x->head;
    const struct attn_problem *p = s->job->operands.problem;
    const struct attn_tensor *bias = s->job->operands.by_role[ATTN_BIAS];
    const double *k = s->k + j * s->dk;
    struct ref_chunked_cell cell = {0};
    double sum = 0;
    for (int64_t c = 0; c < s->dk; c++) {
        sum += x->q[c] * k[c];
        cell.size += fabs(x->q[c] * k[c]);
        cell.reach += fabs(x->q[c]) + fabs(k[c]);
    }
    cell.product = p->scale * sum;
    if (bias)
        cell.bias = ref_load(bias, (const int64_t[]){s->b, s->h, x->i % p->chunk, j % p->chunk});
    return cell;
}

/* The sum over the keys of the chunk. NaN in a score stays NaN; 0 times a value is added, too. */
static void add_quadratic(struct row *x)
{
    const struct head *s = x->head;
    for (int64_t j = x->begin; j < x->end; j++) {
        const double *v = s->v + j * s->dv;
        const struct ref_chunked_cell cell = cell_of(x, j);
        const double score = cell.product + cell.bias, positive = score <= 0 ? 0 : score;
        const double weight = positive * positive;
        for (int64_t d = 0; d < s->dv; d++)
            x->out[d] += weight * v[d];
        if (!x->column)
            continue;
        const double error = ref_chunked_weight_error(&x->bound, s->dk, &cell, weight);
        for (int64_t d = 0; d < s->dv; d++) {
            x->column[d].error += error * fabs(v[d]);
            x->column[d].size += (weight + error) * fabs(v[d]);
            x->column[d].own += 1 + weight + error + fabs(v[d]);
        }
    }
}

/* The sum over the keys of the linear part, before its scale. */
static void add_linear(struct row *x)
{
    const struct head *s = x->head;
    for (int64_t j = 0; j < x->far; j++) {
        const double *k = s->lin_k + j * s->dl, *v = s->v + j * s->dv;
        double weight = 0, size = 0, small = 0;
        for (int64_t c = 0; c < s->dl; c++) {
            weight += x->lin_q[c] * k[c];
            size += fabs(x->lin_q[c] * k[c]);
            small += (1 + fabs(x->lin_q[c])) * (1 + fabs(k[c]));
        }
        for (int64_t d = 0; d < s->dv; d++)
            x->linear[d] += weight * v[d];
        for (int64_t d = 0; x->column && d < s->dv; d++) {
            x->column[d].linear += size * fabs(v[d]);
            x->column[d].small += small * (1 + fabs(v[d]));
        }
    }
}

/* The keys that row i sees. */
static void look(struct row *x)
{
    const struct ref_operands *in = &x->head->job->operands;
    const struct attn_problem *p = in->problem;
    const bool causal = p->flags & ATTN_FLAG_CAUSAL;
    const int64_t chunk = x->i - x->i % p->chunk;
    int64_t none, end;
    ref_key_range(in, x->head->b, x->i, &none, &end);
    x->begin = chunk;
    x->end = larger(chunk, smaller(end, chunk + p->chunk));
    x->far = causal ? smaller(end, chunk) : end;
}

static void prepare(const struct head *s, int64_t r, struct row *x)
{
    const struct ref_job *job = s->job;
    const struct ref_operands *in = &job->operands;
    const struct ref_values *out = &job->result->output[0];
    const struct attn_tensor *gate = in->by_role[ATTN_GATE];
    *x = (struct row){.head = s, .i = ref_row_index(job, s->first + r) % s->tokens};
    const int64_t at[] = {s->b, s->h, x->i, 0};
    x->q = s->scratch + r * (s->dk + s->dl + 2 * s->dv);
    x->lin_q = x->q + s->dk;
    x->linear = x->lin_q + s->dl;
    x->gate = gate ? x->linear + s->dv : NULL;
    x->out = out->value + (s->first + r) * s->dv;
    look(x);
    ref_load_vector(in->by_role[ATTN_Q], at, s->dk, x->q);
    ref_load_vector(in->by_role[ATTN_LIN_Q], at, s->dl, x->lin_q);
    if (gate)
        ref_load_vector(gate, at, s->dv, x->gate);
    memset(x->linear, 0, (size_t)s->dv * sizeof *x->linear);
    memset(x->out, 0, (size_t)s->dv * sizeof *x->out);
    if (!job->bounds || !out->bound)
        return;
    x->column = s->column + r * s->dv;
    memset(x->column, 0, (size_t)s->dv * sizeof *x->column);
    ref_chunked_bound_begin(&s->arithmetic, in->problem, s->dl, x->end - x->begin, x->far,
                            &x->bound);
}

static void compute_row(const struct head *s, int64_t r)
{
    const struct attn_problem *p = s->job->operands.problem;
    const double lin_scale = ref_chunked_lin_scale(p);
    double *bounds = s->job->result->output[0].bound;
    struct row x;
    prepare(s, r, &x);
    add_quadratic(&x);
    add_linear(&x);
    for (int64_t d = 0; d < s->dv; d++) {
        const double sum = x.out[d] + lin_scale * x.linear[d];
        const double *gate = x.gate ? x.gate + d : NULL;
        x.out[d] = gate ? *gate * sum : sum;
        if (x.column)
            bounds[(s->first + r) * s->dv + d] =
                ref_bound_final(&s->arithmetic, p->dtype, x.out[d],
                                ref_chunked_error(&x.bound, &x.column[d], sum, gate));
    }
}

static void compute_rows(void *context, int64_t begin, int64_t end)
{
    for (int64_t r = begin; r < end; r++)
        compute_row(context, r);
}

static void load_head(const struct head *s)
{
    const struct ref_operands *in = &s->job->operands;
    for (int64_t j = 0; j < s->tokens; j++) {
        const int64_t at[] = {s->b, s->h, j, 0};
        ref_load_vector(in->by_role[ATTN_K], at, s->dk, s->k + j * s->dk);
        ref_load_vector(in->by_role[ATTN_LIN_K], at, s->dl, s->lin_k + j * s->dl);
        ref_load_vector(in->by_role[ATTN_V], at, s->dv, s->v + j * s->dv);
    }
}

int ref_chunked_compute(const struct ref_job *job)
{
    const struct attn_problem *p = job->operands.problem;
    const struct ref_units *units = &job->request->units[0];
    struct head s = {.job = job, .tokens = p->sk, .dk = p->dk, .dv = p->dv};
    if (!job->result->output[0].value)
        return ATTN_OK;
    s.dl = job->operands.by_role[ATTN_LIN_Q]->shape[3];
    s.arithmetic = ref_chunked_arithmetic(job, s.dl);
    const int64_t most = larger(1, smaller(units->count, p->sq));
    s.k = ref_alloc_doubles(s.tokens, s.dk + s.dl + s.dv);
    s.scratch = ref_alloc_doubles(most, s.dk + s.dl + 2 * s.dv);
    s.column = job->bounds ? calloc((size_t)(most * s.dv), sizeof *s.column) : NULL;
    int status = s.k && s.scratch && (s.column || !job->bounds) ? ATTN_OK : ATTN_OUT_OF_MEMORY;

    if (status == ATTN_OK) {
        s.lin_k = s.k + s.tokens * s.dk;
        s.v = s.lin_k + s.tokens * s.dl;
    }
    for (int64_t head = 0, row = 0; status == ATTN_OK && head < p->b * p->hq; head++) {
        s.b = head / p->hq;
        s.h = head % p->hq;
        s.first = row;
        s.rows = ref_units_take(units, p->sq, head, &row);
        if (s.rows == 0)
            continue;
        load_head(&s);
        attn_parallel_for(job->threads, s.rows, 1, compute_rows, &s);
    }
    free(s.k);
    free(s.scratch);
    free(s.column);
    return status;
}
