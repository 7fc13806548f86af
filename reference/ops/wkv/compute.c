/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - wkv in double, by its definition: one sum over the past for each step and channel.
 * No state is carried from step to step, so the reference does not share the method of what it
 * judges. OP.md derives the bound. */
#include <math.h>
#include <stdlib.h>

#include "reference/dtype.h"
#include "reference/ops/wkv/wkv.h"
#include "reference/parallel.h"

/* One batch entry in double. Arrays are [C,S]: the steps of a channel lie side by side. */
struct sequence {
    const struct ref_job *job;
    int64_t b, steps, channels;
    double *k, *v;
    double *o;     /* the running exponent of the recurrence after each step */
    double *decay, /* [C] */
        *bonus;
    double *state;         /* [C,3]: a, b, p; NULL: nothing went before */
    int64_t first, count;  /* the requested steps of this entry */
    int64_t third, thirds; /* its requested states */
};

/* The terms of one sum: steps 0 .. last of channel c, as they stand at step t. */
struct terms {
    const struct sequence *s;
    int64_t c, t;
    bool own; /* step t itself takes part, with the bonus; else the state after step t - 1 is meant
               */
    double top; /* the exponent that the recurrence takes out */
};

/* What the sums give. */
struct sums {
    double lse, mean;  /* log of the denominator; numerator over denominator */
    double wrong;      /* sum of p W */
    double spread;     /* sum of p W |v - mean| */
    double size, most; /* sum of p (1 + W) (|v| + |mean|); largest |v| */
};

static double exponent(const struct terms *x, int64_t i)
{
    const struct sequence *s = x->s;
    const double k = s->k[x->c * s->steps + i];
    return i == x->t ? s->bonus[x->c] + k : k - (double)(x->t - 1 - i) * s->decay[x->c];
}

/* The running exponent before step i: that of the state, if it is the first. */
static double running(const struct terms *x, int64_t i)
{
    const struct sequence *s = x->s;
    if (i > 0)
        return s->o[x->c * s->steps + i - 1];
    return s->state ? s->state[x->c * 3 + 2] : -INFINITY;
}

/* |a - b|, where two that do not exist are the same. */
static double apart(double a, double b)
{
    return a == b ? 0 : fabs(a - b);
}

/* What a store of a running exponent is relative to; one that does not exist is exact. */
static double size_of(double a)
{
    return isinf(a) ? 0 : fabs(a);
}

/* How wrong the exponent of a term may be on its way: what is rounded, what exp sees, and the
 * running exponents that are stored. */
struct way {
    double rounded, seen, exps, stored;
};

static double term_error(const struct ref_arithmetic *a, const struct way *way)
{
    return expm1(a->three * way->rounded + way->exps * a->e_exp + a->e_arg * way->seen +
                 a->u_state * way->stored);
}

/* Adds the step at which the terms before step i decay. */
static void add_decay(const struct terms *x, int64_t i, struct way *way)
{
    const double w = x->s->decay[x->c], before = running(x, i);
    const double after = running(x, i + 1);
    way->rounded += apart(before, w) + w + apart(before - w, after);
    way->seen += apart(before - w, after);
    way->exps += 1;
    way->stored += size_of(after);
}

/* A key of -inf weighs nothing, and its error is not a number. */
static void add_term(struct sums *sums, double p, double v, double error)
{
    sums->most = fmax(sums->most, fabs(v));
    if (p == 0)
        return;
    sums->wrong += p * error;
    sums->spread += p * error * fabs(v - sums->mean);
    sums->size += p * (1 + error) * (fabs(v) + fabs(sums->mean));
}

/* What went before the first step, and how it is weighed; false: nothing did. */
static bool earlier(const struct terms *x, double *mean, double *log_weight)
{
    const struct sequence *s = x->s;
    const double *state = s->state ? s->state + x->c * 3 : NULL;
    if (!state || (state[0] == 0 && state[1] == 0)) /* with 0, 0, -1e38 released kernels begin */
        return false;
    *mean = state[0] / state[1];
    *log_weight = state[2] + log(state[1]) - (double)x->t * s->decay[x->c];
    return true;
}

static void add_values(const struct terms *x, struct sums *sums)
{
    const int64_t last = x->own ? x->t : x->t - 1;
    const double *v = x->s->v + x->c * x->s->steps;
    double mean, weight, top = -INFINITY, total = 0, sum = 0;
    const bool before = earlier(x, &mean, &weight);

    if (before)
        top = weight;
    for (int64_t i = 0; i <= last; i++) {
        const double e = exponent(x, i);
        top = e > top || isnan(e) ? e : top;
        if (isnan(e))
            break;
    }
    if (before) {
        total = exp(weight - top);
        sum = total * mean;
    }
    for (int64_t i = 0; i <= last; i++) {
        const double p = exp(exponent(x, i) - top);
        total += p;
        sum += p * v[i];
    }
    sums->lse = top + log(total);
    sums->mean = sum / total;
}

/* Errors from the last term to the first, because a term decays at all steps after its own. */
static void add_errors(const struct ref_arithmetic *a, const struct terms *x, struct sums *sums)
{
    const struct sequence *s = x->s;
    const double *k = s->k + x->c * s->steps, *v = s->v + x->c * s->steps;
    const double end = running(x, x->t);
    struct way way = {0}, here;
    double mean = 0, weight = 0;

    if (x->own) {
        const double e = exponent(x, x->t);
        here = (struct way){fabs(e) + apart(e, x->top), apart(e, x->top), 1, 0};
        add_term(sums, exp(e - sums->lse), v[x->t], term_error(a, &here));
        way = (struct way){apart(end, x->top), apart(end, x->top), 1, 0};
    }
    for (int64_t i = x->t - 1; i >= 0; i--) {
        const double enters = apart(k[i], running(x, i + 1));
        here = (struct way){way.rounded + fabs(k[i]) + enters, way.seen + enters, way.exps + 1,
                            way.stored + size_of(running(x, i + 1))};
        add_term(sums, exp(exponent(x, i) - sums->lse), v[i], term_error(a, &here));
        add_decay(x, i, &way);
    }
    if (earlier(x, &mean, &weight)) {
        way.rounded += fabs(s->state[x->c * 3 + 2]);
        add_term(sums, exp(weight - sums->lse), mean, term_error(a, &way));
    }
}

double ref_wkv_growth(const struct ref_arithmetic *a, double steps)
{
    const double g = ref_growth(a, 2.0 * steps);
    return g + ref_growth_state(a, steps) * (1.0 + g);
}

double ref_wkv_lost(const struct ref_arithmetic *a, double steps)
{
    return (2.0 * steps + 2) * a->omega + steps * a->eta_state;
}

/* E of the quotient, and in *log_error that of the log of the denominator. */
static double error_of(const struct ref_arithmetic *a, const struct terms *x,
                       const struct sums *sums, double *log_error)
{
    const double n = (double)(x->t + 2), g = ref_wkv_growth(a, n);
    const double least = (1 - g) * (1 - sums->wrong);
    const double scale = exp(sums->lse - x->top);
    const double lost = ref_wkv_lost(a, n) * (1 + sums->most + fabs(sums->mean)) / scale;

    *log_error = 0;
    if (isnan(sums->mean))
        return 0;
    if (!(least > 0))
        return *log_error = INFINITY;
    *log_error = -log(least) + lost / least;
    return (sums->spread + g * sums->size + lost) / least +
           ref_growth(a, 1) * (fabs(sums->mean) + sums->spread / least);
}

/* Out at step t, or the state before it. */
static double sum_up(const struct terms *x, struct sums *sums, double *log_error)
{
    const struct ref_arithmetic *a = &x->s->job->arithmetic;
    *sums = (struct sums){0};
    add_values(x, sums);
    if (!x->s->job->bounds)
        return 0;
    add_errors(a, x, sums);
    return error_of(a, x, sums, log_error);
}

static void compute_out(const struct sequence *s, int64_t c, int64_t r)
{
    const struct ref_job *job = s->job;
    const struct ref_values *out = &job->result->output[REF_WKV_OUT];
    struct terms x = {s, c, ref_row_index(job, r) % s->steps, true, 0};
    const int64_t at = r * s->channels + c;
    struct sums sums;
    double unused;

    x.top = fmax(running(&x, x.t), exponent(&x, x.t));
    const double error = sum_up(&x, &sums, &unused);
    if (out->value)
        out->value[at] = sums.mean;
    if (job->bounds && out->bound)
        out->bound[at] =
            ref_bound_final(&job->arithmetic, job->operands.problem->dtype, sums.mean, error);
}

/* a, b and p are rounded when they are stored. */
static void compute_state(const struct sequence *s, int64_t c, int64_t r)
{
    const struct ref_job *job = s->job;
    const struct ref_arithmetic *a = &job->arithmetic;
    const struct ref_values *state = &job->result->output[REF_WKV_STATE];
    const uint32_t type = ref_wide_type(job, ATTN_STATE_OUT);
    const double u = attn_dtype_roundoff(type);
    struct terms x = {s, c, s->steps, false, 0};
    struct sums sums;
    double log_error;

    x.top = running(&x, s->steps);
    const double error = sum_up(&x, &sums, &log_error);
    const double value[3] = {sums.mean, sums.lse, 0};
    const double bound[3] = {error + 2.1 * u * (fabs(sums.mean) + error),
                             log_error + u * (1.1 + fabs(x.top)), 0};
    for (int n = 0; n < 3; n++) {
        if (state->value)
            state->value[r * 3 + n] = value[n];
        if (job->bounds && state->bound)
            state->bound[r * 3 + n] = n < 2 ? ref_bound_final(a, type, value[n], bound[n]) : 0;
    }
}

static void compute_channels(void *context, int64_t begin, int64_t end)
{
    const struct sequence *s = context;
    for (int64_t c = begin; c < end; c++) {
        for (int64_t r = s->first; r < s->first + s->count; r++)
            compute_out(s, c, r);
    }
    for (int64_t r = s->third; r < s->third + s->thirds; r++) {
        const int64_t c = ref_unit_number(&s->job->request->units[REF_WKV_STATE], r) % s->channels;
        if (c >= begin && c < end)
            compute_state(s, c, r);
    }
}

static void load(struct sequence *s)
{
    const struct ref_operands *in = &s->job->operands;
    const struct attn_tensor *state = in->by_role[ATTN_STATE_IN];
    for (int64_t c = 0; c < s->channels; c++) {
        double *o = s->o + c * s->steps, before = -INFINITY;
        s->decay[c] = ref_load(in->by_role[ATTN_DECAY], &c);
        s->bonus[c] = ref_load(in->by_role[ATTN_BONUS], &c);
        for (int64_t n = 0; state && n < 3; n++)
            s->state[c * 3 + n] = ref_load(state, (const int64_t[]){s->b, c, n});
        if (state)
            before = s->state[c * 3 + 2];
        for (int64_t i = 0; i < s->steps; i++) {
            const int64_t at[] = {s->b, 0, i, c};
            s->k[c * s->steps + i] = ref_load(in->by_role[ATTN_K], at);
            s->v[c * s->steps + i] = ref_load(in->by_role[ATTN_V], at);
            before = fmax(before - s->decay[c], s->k[c * s->steps + i]);
            o[i] = before;
        }
    }
}

int ref_wkv_compute(const struct ref_job *job)
{
    const struct attn_problem *p = job->operands.problem;
    const struct ref_units *rows = &job->request->units[REF_WKV_OUT];
    const struct ref_units *states = &job->request->units[REF_WKV_STATE];
    const bool wants = job->result->output[REF_WKV_STATE].value != NULL;
    struct sequence s = {.job = job, .steps = p->sk, .channels = p->dv};
    double *memory = ref_alloc_doubles(3 * p->sk + 5, p->dv);

    if (!memory)
        return ATTN_OUT_OF_MEMORY;
    s.k = memory;
    s.v = s.k + p->sk * p->dv;
    s.o = s.v + p->sk * p->dv;
    s.decay = s.o + p->sk * p->dv;
    s.bonus = s.decay + p->dv;
    s.state = job->operands.by_role[ATTN_STATE_IN] ? s.bonus + p->dv : NULL;
    for (int64_t row = 0, state = 0; s.b < p->b; s.b++) {
        s.first = row;
        s.count = ref_units_take(rows, p->sq, s.b, &row);
        s.third = state;
        s.thirds = wants ? ref_units_take(states, p->dv, s.b, &state) : 0;
        if (s.count == 0 && s.thirds == 0)
            continue;
        load(&s);
        attn_parallel_for(job->threads, p->dv, 1, compute_channels, &s);
    }
    free(memory);
    return ATTN_OK;
}

void ref_wkv_state(double *unit)
{
    const double a = unit[0], b = unit[1], p = unit[2];
    unit[0] = a / b;
    unit[1] = p + log(b);
    unit[2] = 0;
}
