/* SPDX-License-Identifier: Apache-2.0 */
/* count.c - dQ, dK and dV of census, where all scores are 0, and every pair of query and key adds 1
 * or -1 to a column: sums along keys and along queries give all results in closed form, at any
 * size. OP.md, "Census", says what makes it so. */
#include <stdlib.h>
#include <string.h>

#include "reference/ops/attention_backward/work.h"
#include "reference/parallel.h"

double ref_backward_sign(uint64_t n)
{
    uint64_t x = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (x ^ x >> 31) & 1 ? -1 : 1;
}

double ref_backward_code(uint32_t role, int64_t head, int64_t i, int64_t c)
{
    static const int64_t halves[] = {1, 2, 16, 0};
    const int64_t half = halves[c % 4], block = half > 0 ? i / (2 * half) : i;
    const double first = ref_backward_sign((((uint64_t)head << 32) + (uint64_t)block) << 24 |
                                           ((uint64_t)role & 0xff) << 16 | ((uint64_t)c & 0xffff));

    return half > 0 && i / half % 2 ? -first : first;
}

/* What a row of census adds to each of its keys: one to their number, and the error and the store
 * of a term of 1 or -1. */
enum { TERMS, E_DS, T_DS, E_KEPT, T_KEPT, COUNTED };
/* |dS| of a row may be so far from 1, for LSE is rounded. */
static const double most_off = 1e-4;

struct counting {
    struct ref_backward_work *work;
    struct ref_backward_group likely; /* its constants are those of random signs */
    double *rows;                     /* [rows of the group, COUNTED] */
    double *ahead;                    /* [Sk + 1, Dk] v k of all keys before */
    /* By key, each [Sk + 1, ...]: of a head what begins less what ends there, and of all heads. */
    double *step_k, *step_v, *steps; /* Dk, Dv, COUNTED */
    double *sum_k, *sum_v;
    double *part_k, *part_v; /* sums of the magnitudes of heads */
};

/* ---- is it census? ---- */

static bool is_sign(double x)
{
    return fabs(x) == 1.0;
}

/* Is each column of x [rows, width] all 0, or all 1 and -1? Notes the latter. */
static bool have_columns(const double *x, int64_t rows, int64_t width, bool *signs)
{
    for (int64_t c = 0; c < width; c++) {
        signs[c] = is_sign(x[c]);
        for (int64_t r = 0; r < rows; r++)
            if (signs[c] ? !is_sign(x[r * width + c]) : x[r * width + c] != 0.0)
                return false;
    }
    return true;
}

/* v is 1 or -1 in the first column. */
static bool are_values(const double *v, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++)
            if (c == 0 ? !is_sign(v[r * width]) : v[r * width + c] != 0.0)
                return false;
    return true;
}

/* dO of a row is a power of two with signs, or 0; OUT is 0. */
static bool is_row(const struct ref_backward_work *work, int64_t place)
{
    const struct attn_problem *p = ref_backward_problem(work);
    const struct ref_backward_group *group = &work->group;
    const double *dout = group->dout + place * p->dv, size = fabs(dout[0]);
    const int64_t h = group->g * group->heads + place / p->sq;
    int exponent;

    if (!isfinite(size) || (size != 0.0 && frexp(size, &exponent) != 0.5))
        return false;
    for (int64_t c = 0; c < p->dv; c++)
        if (fabs(dout[c]) != size ||
            ref_load(work->job.operands.by_role[ATTN_OUT],
                     (const int64_t[]){group->b, h, place % p->sq, c}) != 0.0)
            return false;
    return true;
}

/* Do q and k have no column in common, and are all tensors those of census? */
static bool is_census(const struct ref_backward_work *work, bool *columns)
{
    const struct attn_problem *p = ref_backward_problem(work);
    const struct ref_backward_group *group = &work->group;

    if (!have_columns(group->q, group->rows, p->dq, columns) ||
        !have_columns(group->keys.k, p->sk, p->dk, columns + p->dq) ||
        !are_values(group->keys.v, p->sk, p->dv))
        return false;
    for (int64_t c = 0; c < p->dk; c++)
        if (columns[c] && columns[p->dq + c])
            return false;
    for (int64_t place = 0; place < group->rows; place++)
        if (!is_row(work, place))
            return false;
    return true;
}

bool ref_backward_may_count(const struct attn_problem *p, const struct attn_numerics *numerics)
{
    static const uint32_t others[] = {ATTN_BIAS, ATTN_ALIBI, ATTN_MASK, ATTN_GRAD_LSE};

    for (size_t r = 0; r < sizeof(others) / sizeof(*others); r++)
        if (attn_tensor_find(p, others[r]))
            return false;
    return !(p->flags & ATTN_FLAG_DROPOUT) &&
           !(numerics && (numerics->bwd_lse || numerics->bwd_delta));
}

/* ---- rows ---- */

/* What a row adds, by one key that stands for all: its others are alike but for signs. */
static void count_row(const struct counting *x, const struct ref_backward_row *row, double dout,
                      double *counted)
{
    const struct ref_backward_group *group = &x->work->group;
    const struct ref_arithmetic *a = &group->arithmetic;
    const double off = fabs(fabs(row->dz[0]) - 1.0), off_kept = fabs(row->kept[0] * dout - 1.0);
    double e_ds;

    counted[TERMS] = (double)(row->n + row->more);
    counted[E_DS] = off <= most_off ? off : INFINITY;
    counted[E_KEPT] = off_kept <= most_off ? off_kept : INFINITY;
    if (!x->work->job.bounds)
        return;
    e_ds = row->e_dz[0];
    /* dP is a product of one term and a power of two: exact unless factors are rounded before. */
    if (group->declared.u_factor == 0.0 && a->partial == 0.0 &&
        !(ref_backward_problem(x->work)->flags & ATTN_FLAG_SOFTCAP))
        e_ds =
            fmin(e_ds, (row->e_kept[0] + 3.0 * a->u_op * (row->kept[0] + row->e_kept[0])) * dout +
                           2.0 * a->omega * (1.0 + dout));
    counted[E_DS] += e_ds;
    counted[T_DS] = row->t_dz[0];
    counted[E_KEPT] += row->e_kept[0] * dout;
    counted[T_KEPT] = row->t_kept[0] * dout;
}

static void count_rows(void *context, int64_t begin, int64_t end)
{
    const struct counting *x = context;
    const struct ref_backward_group *group = &x->work->group;
    const struct attn_problem *p = ref_backward_problem(x->work);
    struct ref_backward_lane *lane = ref_backward_take(x->work);

    for (int64_t place = begin; place < end; place++) {
        const double dout = fabs(group->dout[place * p->dv]);
        ref_backward_row(group, group->g * group->heads + place / p->sq, place % p->sq, &lane->row);
        if (lane->row.n > 0 && dout != 0.0)
            count_row(x, &lane->row, dout, x->rows + place * COUNTED);
    }
    ref_backward_return(lane);
}

static bool all_known(const struct counting *x)
{
    for (int64_t place = 0; place < x->work->group.rows; place++)
        if (!(x->rows[place * COUNTED + E_DS] < 1.0) || !(x->rows[place * COUNTED + E_KEPT] < 1.0))
            return false;
    return true;
}

/* ---- results ---- */

/* A result that adds up `terms` signs, whose sum is `value`. */
struct sum {
    double value, terms, parts;
    double error, stored; /* of all terms */
    double u;             /* relative error of a store; 0: none */
};

/* Terms are alike but for signs, so that a store or a rounded factor changes all by the same share:
 * what it adds is that share of the sum. Sums of fewer of the terms are those of random signs. */
static double bound(const struct counting *x, const struct ref_backward_sum *sum,
                    const struct sum *s)
{
    const struct ref_arithmetic *a = &x->likely.arithmetic;
    const double alike = 1.01 * s->u * s->terms, u_factor = x->work->group.declared.u_factor;
    double off = s->error, size = s->terms;

    off += s->stored <= alike ? 1.01 * s->u * fabs(s->value) : s->stored;
    off += 2.0 * u_factor * (1.0 + u_factor) * fabs(s->value);
    off += sum->u_part > 0.0 ? sum->u_part * s->parts + sum->eta_part : 0.0;
    if (a->lambda > 0.0)
        size = fmin(size, a->lambda * sqrt(size));
    size *= 1.0 + s->error / fmax(s->terms, 1.0) + s->u;
    return ref_backward_bound(a, sum, s->value * sum->factor, off, size, s->terms);
}

static void store(const struct counting *x, const struct ref_backward_sum *sum, const struct sum *s,
                  const struct ref_values *to, int64_t at)
{
    to->value[at] = s->value * sum->factor;
    if (x->work->job.bounds && to->bound)
        to->bound[at] = bound(x, sum, s);
}

static struct ref_backward_sum sum_of(const struct counting *x, double factor, double n)
{
    return (struct ref_backward_sum){
        .factor = factor, .dtype = ref_backward_problem(x->work)->dtype, .n = (int64_t)n};
}

static void store_row(const struct counting *x, int64_t place, int64_t entry, const double *value,
                      const bool *columns)
{
    const struct attn_problem *p = ref_backward_problem(x->work);
    const double *row = x->rows + place * COUNTED;
    struct ref_backward_sum sum = sum_of(x, p->scale, row[TERMS]);

    if (x->work->job.bounds)
        ref_backward_over_keys(&x->likely, sum.n, &sum);
    for (int64_t c = 0; c < p->dq; c++) {
        const double n = columns[p->dq + c] ? row[TERMS] : 0.0;
        const struct sum s = {.value = value[c],
                              .terms = n,
                              .error = n * row[E_DS],
                              .stored = n * row[T_DS],
                              .u = x->work->group.declared.u_ds};
        store(x, &sum, &s, &x->work->job.result->output[REF_GRAD_Q], entry * p->dq + c);
    }
}

static void store_key(const struct counting *x, int64_t j, int64_t entry, const bool *columns)
{
    const struct attn_problem *p = ref_backward_problem(x->work);
    const struct ref_backward_declared *d = &x->work->group.declared;
    const struct ref_values *dk = &x->work->job.result->output[REF_GRAD_K];
    const struct ref_values *dv = &x->work->job.result->output[REF_GRAD_V];
    const double *rows = x->steps + j * COUNTED, v = x->work->group.keys.v[j * p->dv];
    struct ref_backward_sum sum = sum_of(x, p->scale, rows[TERMS]);

    sum.part = p->sq;
    sum.u_part = d->u_partial;
    sum.eta_part = d->eta_partial_k * (double)x->work->group.heads;
    if (x->work->job.bounds)
        ref_backward_over_queries(&x->likely, 3.0, &sum);
    for (int64_t c = 0; dk->value && c < p->dk; c++) {
        const double n = columns[c] ? 1.0 : 0.0;
        const struct sum s = {.value = v * x->sum_k[j * p->dk + c],
                              .terms = n * rows[TERMS],
                              .parts = x->part_k[j * p->dk + c],
                              .error = n * rows[E_DS],
                              .stored = n * rows[T_DS],
                              .u = d->u_ds};
        store(x, &sum, &s, dk, entry * p->dk + c);
    }
    sum.factor = 1.0;
    sum.eta_part = d->eta_partial * (double)x->work->group.heads;
    if (x->work->job.bounds)
        ref_backward_over_queries(&x->likely, 2.0, &sum);
    for (int64_t c = 0; dv->value && c < p->dv; c++) {
        const struct sum s = {.value = x->sum_v[j * p->dv + c],
                              .terms = rows[TERMS],
                              .parts = x->part_v[j * p->dv + c],
                              .error = rows[E_KEPT],
                              .stored = rows[T_KEPT],
                              .u = x->work->group.arithmetic.u_p};
        store(x, &sum, &s, dv, entry * p->dv + c);
    }
}

/* ---- sums ---- */

static void sum_keys(const struct counting *x)
{
    const struct attn_problem *p = ref_backward_problem(x->work);
    const struct ref_keys *keys = &x->work->group.keys;

    for (int64_t j = 0; j < p->sk; j++)
        for (int64_t c = 0; c < p->dk; c++)
            x->ahead[(j + 1) * p->dk + c] =
                x->ahead[j * p->dk + c] + keys->v[j * p->dv] * keys->k[j * p->dk + c];
}

static void step(double *steps, const struct ref_run *run, double factor, const double *row,
                 int64_t width)
{
    for (int64_t c = 0; c < width; c++) {
        steps[run->begin * width + c] += factor * row[c];
        steps[run->end * width + c] -= factor * row[c];
    }
}

/* dQ of a row, and where its part in keys begins and ends. */
static void take_row(const struct counting *x, int64_t place, const bool *columns, double *value)
{
    const struct ref_backward_work *work = x->work;
    const struct attn_problem *p = ref_backward_problem(work);
    const struct ref_backward_group *group = &work->group;
    const double *q = group->q + place * p->dq, *dout = group->dout + place * p->dv;
    const double first = dout[0] < 0.0 ? -1.0 : 1.0;
    double one[COUNTED]; /* what it adds to each of its keys */
    struct ref_sight sight;
    struct ref_run run;

    memset(value, 0, (size_t)p->dq * sizeof(*value));
    memcpy(one, x->rows + place * COUNTED, sizeof(one));
    if (one[TERMS] > 0.0) {
        one[TERMS] = 1.0;
        ref_sight_of(&work->job.operands, group->b, group->g * group->heads + place / p->sq,
                     place % p->sq, &sight);
        for (int64_t from = 0; ref_sight_next(&sight, from, &run); from = run.end) {
            for (int64_t c = 0; c < p->dq; c++)
                value[c] +=
                    first * (x->ahead[run.end * p->dk + c] - x->ahead[run.begin * p->dk + c]);
            step(x->step_k, &run, first, q, p->dk);
            step(x->step_v, &run, 1.0 / fabs(dout[0]), dout, p->dv);
            step(x->steps, &run, 1.0, one, COUNTED);
        }
    }
    if (work->entry_of_row[place] >= 0)
        store_row(x, place, work->entry_of_row[place], value, columns);
}

/* Adds a head's sums by key to those of all, and clears its steps. */
static void end_head(double *steps, int64_t keys, int64_t width, double *sums, double *parts)
{
    for (int64_t j = 0; j < keys; j++)
        for (int64_t c = 0; c < width; c++) {
            const double sum = steps[j * width + c];
            sums[j * width + c] += sum;
            parts[j * width + c] += fabs(sum);
            steps[(j + 1) * width + c] += sum;
        }
    memset(steps, 0, (size_t)((keys + 1) * width) * sizeof(*steps));
}

static void take_all(const struct counting *x, int64_t keys, const bool *columns, double *value)
{
    const struct ref_backward_work *work = x->work;
    const struct attn_problem *p = ref_backward_problem(work);
    const struct ref_units *units = &work->job.request->units[REF_GRAD_K];

    sum_keys(x);
    for (int64_t place = 0; place < work->group.rows; place++) {
        take_row(x, place, columns, value);
        if ((place + 1) % p->sq == 0) {
            end_head(x->step_k, p->sk, p->dk, x->sum_k, x->part_k);
            end_head(x->step_v, p->sk, p->dv, x->sum_v, x->part_v);
        }
    }
    for (int64_t n = COUNTED; n < p->sk * COUNTED; n++)
        x->steps[n] += x->steps[n - COUNTED];
    for (int64_t n = 0; n < p->sk * COUNTED; n++) /* differences of small numbers */
        x->steps[n] = fmax(x->steps[n], 0.0);
    for (int64_t entry = work->first; entry < work->first + keys; entry++)
        store_key(x, ref_unit_number(units, entry) % p->sk, entry, columns);
}

/* Rows are looked at by one key that stands for all. */
static bool look(struct counting *x)
{
    struct ref_backward_group *group = &x->work->group;
    const int64_t chunk = 64;

    group->few = true;
    group->n_others = 0;
    attn_parallel_for(x->work->job.threads, group->rows, chunk, count_rows, x);
    group->few = false;
    return all_known(x);
}

int ref_backward_count(struct ref_backward_work *work, int64_t first_key, int64_t keys,
                       bool *counted)
{
    const struct attn_problem *p = ref_backward_problem(work);
    const int64_t more = p->sk + 1;
    struct counting x = {.work = work, .likely = work->group};
    double *room, *next;
    bool *columns;

    *counted = false;
    if (!work->job.request->given || work->bias || work->sinks || work->slopes ||
        !ref_backward_may_count(p, work->job.request->numerics))
        return ATTN_OK;
    columns = calloc((size_t)(p->dq + p->dk), sizeof(*columns));
    if (columns && !is_census(work, columns)) {
        free(columns);
        return ATTN_OK;
    }
    x.rows = calloc((size_t)(work->group.rows * COUNTED), sizeof(*x.rows));
    next = room = ref_alloc_doubles(more, 4 * p->dk + 3 * p->dv + COUNTED + p->dq);
    if (columns && x.rows && room) {
        double **const arrays[] = {&x.ahead,  &x.step_k, &x.sum_k,  &x.part_k,
                                   &x.step_v, &x.sum_v,  &x.part_v, &x.steps};
        const int64_t widths[] = {p->dk, p->dk, p->dk, p->dk, p->dv, p->dv, p->dv, COUNTED};
        memset(room, 0, (size_t)(more * (4 * p->dk + 3 * p->dv + COUNTED)) * sizeof(*room));
        for (size_t n = 0; n < sizeof(arrays) / sizeof(*arrays); next += more * widths[n++])
            *arrays[n] = next;
        work->first = first_key;
        ref_backward_likely(&work->job, &x.likely);
        *counted = look(&x);
        if (*counted)
            take_all(&x, keys, columns, next);
    }
    const bool made = columns && x.rows && room;
    free(columns);
    free(x.rows);
    free(room);
    return made ? ATTN_OK : ATTN_OUT_OF_MEMORY;
}
