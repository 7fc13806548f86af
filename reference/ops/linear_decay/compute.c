/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - linear_decay in double, by its definition: for each row a sum over the steps before
 * it. No state is carried on. OP.md derives the bound. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/ops/linear_decay/linear_decay.h"
#include "reference/parallel.h"

/* One head of one batch entry in double, [S,Dk] or [S,Dv]. */
struct head {
    const struct ref_job *job;
    int64_t b, h, steps, dk, dv;
    double *k, *v, *g;      /* g: logarithms of decay */
    double *decay;          /* exp(g) */
    double *prefix;         /* [S+1,Dk] sums of |g| */
    double *bonus;          /* [Dk]; NULL: 1 */
    double *state;          /* [Dk,Dv]; NULL: nothing went before */
    double *scratch;        /* [rows] of 4 Dk */
    int64_t first, rows;    /* the requested rows of out */
    int64_t third, columns; /* the requested rows of the state */
};

/* The sum for one query: over steps 0 .. last, each decayed by all steps after it. The sum of q S
 * takes dk products. */
struct sum {
    const struct head *head;
    int64_t last;
    bool spared;         /* the state decays only after the last step was read: `exclusive` */
    const double *bonus; /* of the last step; NULL: 1 */
    double scale;
    double *q;     /* [Dk] */
    double *carry; /* [Dk] decay so far, and how wrong it may be: */
    double *steps, *way;
};

/* Relative error of what column c makes of a term that entered at step `from`; -1: before all. */
static double column_error(const struct sum *x, const struct ref_decay_term *term, int64_t from,
                           int64_t c)
{
    const struct ref_arithmetic *a = &x->head->job->arithmetic;
    const int64_t chunk = (int64_t)a->decay_chunk, dk = x->head->dk;
    const int64_t begin = from + 1 > chunk ? from + 1 - chunk : 0;
    const double around = x->head->prefix[(x->last + 1) * dk + c] - x->head->prefix[begin * dk + c];
    return ref_decay_error(a, term, x->steps[c], x->way[c], around);
}

/* q k D of step i, added up over the columns; its error in *error. */
static double weigh(const struct sum *x, int64_t i, double *error)
{
    const struct head *s = x->head;
    const struct ref_arithmetic *a = &s->job->arithmetic;
    const struct ref_decay_term term = ref_decay_term_of(a, s->dk, x->last - i, false);
    const double *k = s->k + i * s->dk, *own = i == x->last ? x->bonus : NULL;
    double total = 0;
    *error = 0;
    for (int64_t c = 0; c < s->dk; c++) {
        const double p = x->q[c] * k[c] * x->carry[c] * (own ? own[c] : 1);
        total += p;
        if (s->job->bounds)
            *error += fabs(p) * column_error(x, &term, i, c);
    }
    if ((double)(x->last - i) < a->decay_chunk)
        *error += a->eta_p;
    return total;
}

static void decay_by(const struct sum *x, int64_t step)
{
    for (int64_t c = 0; c < x->head->dk; c++) {
        x->carry[c] *= x->head->decay[step * x->head->dk + c];
        x->steps[c] += 1;
        x->way[c] += fabs(x->head->g[step * x->head->dk + c]);
    }
}

static void add(const struct sum *x, double weight, double error, const double *v, double *out,
                double *bound)
{
    for (int64_t d = 0; d < x->head->dv; d++)
        out[d] += weight * v[d];
    for (int64_t d = 0; bound && d < x->head->dv; d++)
        bound[d] += error * fabs(v[d]);
}

/* What went before step 0: a row of the state for each column of k. */
static void add_state(const struct sum *x, double *out, double *bound)
{
    const struct ref_decay_term term =
        ref_decay_term_of(&x->head->job->arithmetic, x->head->dk, x->last + 1, true);
    for (int64_t c = 0; x->head->state && c < x->head->dk; c++) {
        const double p = x->q[c] * x->carry[c];
        const double error = fabs(p) * column_error(x, &term, -1, c);
        add(x, p, error, x->head->state + c * x->head->dv, out, bound);
    }
}

static void sum_up(const struct sum *x, double *out, double *bound)
{
    const struct head *s = x->head;
    const struct ref_arithmetic *a = &s->job->arithmetic;
    double reach = 1;
    memset(out, 0, (size_t)s->dv * sizeof *out);
    if (bound)
        memset(bound, 0, (size_t)s->dv * sizeof *bound);
    for (int64_t c = 0; c < s->dk; c++) {
        x->carry[c] = 1;
        x->steps[c] = x->way[c] = 0;
        reach += fabs(x->q[c]);
    }
    for (int64_t i = x->last; i >= 0; i--) {
        double error;
        const double weight = weigh(x, i, &error);
        add(x, weight, error, s->v + i * s->dv, out, bound);
        if (!(x->spared && i == x->last))
            decay_by(x, i);
    }
    add_state(x, out, bound);
    const double lost = ref_decay_lost(a, s->dk, x->last, reach);
    for (int64_t d = 0; d < s->dv; d++) {
        out[d] *= x->scale;
        if (bound)
            bound[d] = fabs(x->scale) * (bound[d] + lost) + a->omega;
    }
}

static struct sum prepare(const struct head *s, int64_t slot)
{
    double *room = s->scratch + slot * 4 * s->dk;
    return (struct sum){.head = s,
                        .scale = 1,
                        .q = room,
                        .carry = room + s->dk,
                        .steps = room + 2 * s->dk,
                        .way = room + 3 * s->dk};
}

static void finish(const struct ref_job *job, uint32_t type, int64_t width,
                   const struct ref_values *values, int64_t r)
{
    for (int64_t x = r * width; values->bound && job->bounds && x < (r + 1) * width; x++)
        values->bound[x] =
            ref_bound_final(&job->arithmetic, type, values->value[x], values->bound[x]);
}

static void compute_row(const struct head *s, int64_t r, int64_t slot)
{
    const struct ref_job *job = s->job;
    const struct attn_problem *p = job->operands.problem;
    const struct ref_values *out = &job->result->output[REF_DECAY_OUT];
    struct sum x = prepare(s, slot);
    if (!out->value)
        return;
    x.last = ref_row_index(job, r) % p->sq;
    x.spared = p->variant == ATTN_DECAY_EXCLUSIVE;
    x.bonus = s->bonus;
    x.scale = p->scale;
    ref_load_vector(job->operands.by_role[ATTN_Q], (const int64_t[]){s->b, s->h, x.last, 0}, s->dk,
                    x.q);
    sum_up(&x, out->value + r * s->dv, job->bounds && out->bound ? out->bound + r * s->dv : NULL);
    finish(job, p->dtype, s->dv, out, r);
}

/* A row of the state after the last step: what a query of one column reads. */
static void compute_state(const struct head *s, int64_t r, int64_t slot)
{
    const struct ref_job *job = s->job;
    const struct ref_values *state = &job->result->output[REF_DECAY_STATE];
    struct sum x = prepare(s, slot);
    if (!state->value)
        return;
    memset(x.q, 0, (size_t)s->dk * sizeof *x.q);
    x.q[ref_unit_number(&job->request->units[REF_DECAY_STATE], r) % s->dk] = 1;
    x.last = s->steps - 1;
    sum_up(&x, state->value + r * s->dv,
           job->bounds && state->bound ? state->bound + r * s->dv : NULL);
    finish(job, ref_wide_type(job, ATTN_STATE_OUT), s->dv, state, r);
}

static void compute_rows(void *context, int64_t begin, int64_t end)
{
    const struct head *s = context;
    for (int64_t r = begin; r < end; r++)
        if (r < s->rows)
            compute_row(s, s->first + r, r);
        else
            compute_state(s, s->third + r - s->rows, r);
}

static void load_head(struct head *s)
{
    const struct ref_operands *in = &s->job->operands;
    const struct attn_tensor *state = in->by_role[ATTN_STATE_IN];
    for (int64_t i = 0; i < s->steps; i++) {
        const int64_t at[] = {s->b, s->h, i, 0};
        ref_load_vector(in->by_role[ATTN_K], at, s->dk, s->k + i * s->dk);
        ref_load_vector(in->by_role[ATTN_V], at, s->dv, s->v + i * s->dv);
        ref_load_vector(in->by_role[ATTN_DECAY], at, s->dk, s->g + i * s->dk);
    }
    memset(s->prefix, 0, (size_t)s->dk * sizeof *s->prefix);
    for (int64_t n = 0; n < s->steps * s->dk; n++) {
        s->decay[n] = exp(s->g[n]);
        s->prefix[n + s->dk] = s->prefix[n] + fabs(s->g[n]);
    }
    if (s->bonus)
        ref_load_vector(in->by_role[ATTN_BONUS], (const int64_t[]){s->h, 0}, s->dk, s->bonus);
    for (int64_t c = 0; s->state && c < s->dk; c++)
        ref_load_vector(state, (const int64_t[]){s->b, s->h, c, 0}, s->dv, s->state + c * s->dv);
}

int ref_linear_decay_compute(const struct ref_job *job)
{
    const struct attn_problem *p = job->operands.problem;
    const struct ref_units *rows = &job->request->units[REF_DECAY_OUT];
    const bool states = job->result->output[REF_DECAY_STATE].value != NULL;
    const struct ref_units *columns = &job->request->units[REF_DECAY_STATE];
    struct head s = {.job = job, .steps = p->sk, .dk = p->dk, .dv = p->dv};
    double *memory = ref_alloc_doubles(p->sk + 1, 4 * p->dk + p->dv);
    double *scratch = ref_alloc_doubles(p->sq + p->dk, 4 * p->dk);
    double *rest = ref_alloc_doubles(p->dk, p->dv + 1);
    int status = memory && scratch && rest ? ATTN_OK : ATTN_OUT_OF_MEMORY;

    s.k = memory;
    s.scratch = scratch;
    if (status == ATTN_OK) {
        s.g = s.k + p->sk * p->dk;
        s.decay = s.g + p->sk * p->dk;
        s.prefix = s.decay + p->sk * p->dk;
        s.v = s.prefix + (p->sk + 1) * p->dk;
        s.bonus = job->operands.by_role[ATTN_BONUS] ? rest : NULL;
        s.state = job->operands.by_role[ATTN_STATE_IN] ? rest + p->dk : NULL;
    }
    for (int64_t head = 0, row = 0, column = 0; status == ATTN_OK && head < p->b * p->hq; head++) {
        s.b = head / p->hq;
        s.h = head % p->hq;
        s.first = row;
        s.rows = ref_units_take(rows, p->sq, head, &row);
        s.third = column;
        s.columns = states ? ref_units_take(columns, p->dk, head, &column) : 0;
        if (s.rows + s.columns == 0)
            continue;
        load_head(&s);
        attn_parallel_for(job->threads, s.rows + s.columns, 1, compute_rows, &s);
    }
    free(memory);
    free(scratch);
    free(rest);
    return status;
}
