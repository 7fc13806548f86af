/* SPDX-License-Identifier: Apache-2.0 */
/* allow.c - how far results of wkv may be off, from sizes alone. The errors of the exponents are
 * added up step by step, weighted as the terms are; for the rest a term of a channel counts as its
 * largest. */
#include <math.h>

#include "reference/dtype.h"
#include "reference/ops/wkv/wkv.h"

/* A channel after some steps. */
struct channel {
    const struct ref_arithmetic *a;
    double decay, bonus, most; /* most: the largest |v| */
    double running, lse;       /* the running exponent; the log of the denominator */
    double mean, worst;        /* errors of exponents: by weight, and of the worst term */
    double given, given_lse;   /* errors of the state that was given */
};

static double exponent_error(const struct ref_arithmetic *a, double rounded, double seen)
{
    return a->three * rounded + a->e_exp + a->e_arg * seen;
}

static double log_of_sum(double x, double y)
{
    const double top = fmax(x, y);
    return isinf(top) ? top : top + log(exp(x - top) + exp(y - top));
}

/* The terms before a step, of the weight exp(before), and a new one. */
struct joined {
    double lse, mean, worst;
};

static struct joined join(double before, double mean, double worst, double own, double own_error)
{
    struct joined x = {.lse = log_of_sum(before, own)};
    const double share = isinf(before) ? 0 : exp(before - x.lse);
    x.mean = share * mean + (1 - share) * own_error;
    x.worst = fmax(share > 0 ? worst : 0, own_error);
    return x;
}

/* E of the quotient of a joined sum; *log_error: of the log of its denominator. */
static double error_of(const struct channel *s, const struct joined *x, double top, int64_t t,
                       double *log_error)
{
    const struct ref_arithmetic *a = s->a;
    const double steepest = x->worst > 0 ? expm1(x->worst) / x->worst : 1;
    const double wrong = x->mean * steepest, n = (double)(t + 2), g = ref_wkv_growth(a, n);
    const double least = (1 - g) * (1 - wrong), both = 2 * s->most;
    const double lost = ref_wkv_lost(a, n) * (1 + both) / exp(x->lse - top);
    *log_error = INFINITY;
    if (!(least > 0))
        return INFINITY;
    *log_error = a->copies * (-log(least) + lost / least) + s->given_lse;
    return a->copies * ((wrong * both + g * (1 + wrong) * both + lost) / least +
                        ref_growth(a, 1) * (s->most + wrong * both / least)) +
           s->given + both * expm1(s->given_lse);
}

/* What the output at step t may be off; k is its key. */
static double allow_out(const struct channel *s, double k, int64_t t)
{
    const double own = s->bonus + k, top = fmax(s->running, own);
    const double end =
        isinf(s->running) ? 0 : exponent_error(s->a, top - s->running, top - s->running);
    const struct joined x = join(s->lse, s->mean + end, s->worst + end, own,
                                 exponent_error(s->a, fabs(own) + top - own, top - own));
    double unused;
    return error_of(s, &x, top, t, &unused);
}

static void step(struct channel *s, double k)
{
    const double faded = s->running - s->decay, after = fmax(faded, k);
    const double stored = s->a->u_state * fabs(after);
    const double moved =
        isinf(faded)
            ? 0
            : stored + exponent_error(s->a, fabs(faded) + s->decay + after - faded, after - faded);
    const struct joined x = join(s->lse - s->decay, s->mean + moved, s->worst + moved, k,
                                 stored + exponent_error(s->a, fabs(k) + after - k, after - k));
    s->running = after;
    s->lse = x.lse;
    s->mean = x.mean;
    s->worst = x.worst;
}

/* a/b and p + log b, beside the stores of a, b and p. */
static void allow_state(const struct channel *s, double u, int64_t steps, double *allowed)
{
    const struct joined x = {s->lse, s->mean, s->worst};
    allowed[0] = error_of(s, &x, s->running, steps, &allowed[1]);
    allowed[0] += 2.1 * u * (s->most + allowed[0]);
    allowed[1] += u * (1.1 + fabs(s->running));
    allowed[2] = 0;
}

static struct channel begin(const struct ref_operands *in, const struct ref_arithmetic *a,
                            int64_t b, int64_t c, const double *handed)
{
    const struct attn_tensor *state = in->by_role[ATTN_STATE_IN];
    struct channel s = {.a = a, .running = -INFINITY, .lse = -INFINITY};
    s.decay = ref_load(in->by_role[ATTN_DECAY], &c);
    s.bonus = ref_load(in->by_role[ATTN_BONUS], &c);
    for (int64_t i = 0; i < in->problem->sk; i++)
        s.most = fmax(s.most, fabs(ref_load(in->by_role[ATTN_V], (const int64_t[]){b, 0, i, c})));
    if (state) {
        double unit[3];
        for (int64_t n = 0; n < 3; n++)
            unit[n] = ref_load(state, (const int64_t[]){b, c, n});
        s.running = unit[2];
        s.mean = s.worst = a->three * fabs(unit[2]);
        ref_wkv_state(unit);
        s.most = fmax(s.most, fabs(unit[0]));
        s.lse = unit[1];
    }
    if (handed) {
        s.given = handed[0];
        s.given_lse = handed[1];
    }
    return s;
}

int ref_wkv_allow(const struct ref_operands *in, const struct ref_arithmetic *a,
                  const double *handed, double *const allowed[REF_OUTPUTS])
{
    const struct attn_problem *p = in->problem;
    const double u = attn_dtype_roundoff(p->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32);
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t c = 0; c < p->dv; c++) {
            const int64_t unit = (b * p->dv + c) * 3;
            struct channel s = begin(in, a, b, c, handed ? handed + unit : NULL);
            for (int64_t t = 0; t < p->sk; t++) {
                const double k = ref_load(in->by_role[ATTN_K], (const int64_t[]){b, 0, t, c});
                if (allowed[REF_WKV_OUT])
                    allowed[REF_WKV_OUT][(b * p->sq + t) * p->dv + c] = allow_out(&s, k, t);
                step(&s, k);
            }
            if (allowed[REF_WKV_STATE])
                allow_state(&s, u, p->sk, allowed[REF_WKV_STATE] + unit);
        }
    return ATTN_OK;
}
