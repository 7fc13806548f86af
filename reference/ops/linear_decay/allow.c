/* SPDX-License-Identifier: Apache-2.0 */
/* allow.c - how far results of linear_decay may be off, from sizes alone: the recurrence with the
 * sizes of all numbers, which costs as much as the operator. The relative error is that of the term
 * that went the longest way. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/ops/linear_decay/linear_decay.h"

/* One head. */
struct sizes {
    const struct ref_operands *in;
    const struct ref_arithmetic *a;
    int64_t b, h, dk, dv;
    double *sum;   /* [Dk,Dv] |k| |v| that has decayed */
    double *wrong; /* [Dk,Dv] the error of the state that was given */
    double *way;   /* [Dk] sums of |g| */
    double *most;  /* the largest |v| */
    double *q, *k, *v, *g, *bonus;
};

static void load(const struct sizes *s, uint32_t role, int64_t step, int64_t width, double *to)
{
    ref_load_vector(s->in->by_role[role], (const int64_t[]){s->b, s->h, step, 0}, width, to);
}

static void load_step(const struct sizes *s, int64_t t)
{
    load(s, ATTN_Q, t, s->dk, s->q);
    load(s, ATTN_K, t, s->dk, s->k);
    load(s, ATTN_V, t, s->dv, s->v);
    load(s, ATTN_DECAY, t, s->dk, s->g);
    for (int64_t c = 0; c < s->dk; c++)
        s->way[c] += fabs(s->g[c]);
    for (int64_t d = 0; d < s->dv; d++)
        *s->most = fmax(*s->most, fabs(s->v[d]));
}

/* What underflows lose of a sum up to step t, those of stored products k v included. */
static double lost(const struct sizes *s, int64_t t, double reach)
{
    return ref_decay_lost(s->a, s->dk, t, reach) + s->a->eta_p * s->a->decay_chunk * *s->most;
}

static void fade(const struct sizes *s)
{
    for (int64_t c = 0; c < s->dk; c++) {
        const double by = exp(s->g[c]);
        for (int64_t d = 0; d < s->dv; d++) {
            s->sum[c * s->dv + d] *= by;
            s->wrong[c * s->dv + d] *= by;
        }
    }
}

/* Relative error of the oldest term at step t. */
static double oldest(const struct sizes *s, int64_t t)
{
    const struct ref_decay_term term = ref_decay_term_of(s->a, s->dk, t + 1, true);
    double most = 0;
    for (int64_t c = 0; c < s->dk; c++)
        most = fmax(most, s->way[c]);
    return ref_decay_error(s->a, &term, (double)(t + 1), most, most);
}

static void allow_row(const struct sizes *s, int64_t t, double *allowed)
{
    const struct attn_problem *p = s->in->problem;
    const double relative = oldest(s, t);
    double reach = 1, own = 0;
    for (int64_t c = 0; c < s->dk; c++) {
        reach += fabs(s->q[c]);
        own += fabs(s->q[c] * s->k[c]) * (s->bonus ? fabs(s->bonus[c]) : 1);
    }
    for (int64_t d = 0; d < s->dv; d++) {
        double sum = own * fabs(s->v[d]), wrong = 0;
        for (int64_t c = 0; c < s->dk; c++) {
            sum += fabs(s->q[c]) * s->sum[c * s->dv + d];
            wrong += fabs(s->q[c]) * s->wrong[c * s->dv + d];
        }
        allowed[d] =
            s->a->copies * (fabs(p->scale) * (sum * relative + lost(s, t, reach)) + s->a->omega) +
            fabs(p->scale) * wrong;
    }
}

static void take(const struct sizes *s)
{
    for (int64_t c = 0; c < s->dk; c++)
        for (int64_t d = 0; d < s->dv; d++)
            s->sum[c * s->dv + d] += fabs(s->k[c] * s->v[d]);
}

static void begin(const struct sizes *s, const double *handed)
{
    const struct attn_tensor *state = s->in->by_role[ATTN_STATE_IN];
    const int64_t count = s->dk * s->dv;
    memset(s->sum, 0, (size_t)count * sizeof *s->sum);
    memset(s->wrong, 0, (size_t)count * sizeof *s->wrong);
    memset(s->way, 0, (size_t)s->dk * sizeof *s->way);
    *s->most = 0;
    if (handed)
        memcpy(s->wrong, handed, (size_t)count * sizeof *s->wrong);
    for (int64_t c = 0; state && c < s->dk; c++) {
        load(s, ATTN_STATE_IN, c, s->dv, s->v);
        for (int64_t d = 0; d < s->dv; d++)
            s->sum[c * s->dv + d] = fabs(s->v[d]);
    }
    if (s->bonus)
        ref_load_vector(s->in->by_role[ATTN_BONUS], (const int64_t[]){s->h, 0}, s->dk, s->bonus);
}

static void allow_head(const struct sizes *s, double *out, double *state)
{
    const struct attn_problem *p = s->in->problem;
    for (int64_t t = 0; t < p->sk; t++) {
        load_step(s, t);
        if (p->variant == ATTN_DECAY_INCLUSIVE)
            fade(s);
        if (out)
            allow_row(s, t, out + t * s->dv);
        if (p->variant == ATTN_DECAY_EXCLUSIVE)
            fade(s);
        take(s);
    }
    const double relative = oldest(s, p->sk - 1);
    const double least = lost(s, p->sk - 1, 2) + s->a->omega;
    for (int64_t n = 0; state && n < s->dk * s->dv; n++)
        state[n] = s->a->copies * (s->sum[n] * relative + least) + s->wrong[n];
}

int ref_linear_decay_allow(const struct ref_operands *in, const struct ref_arithmetic *a,
                           const double *handed, double *const allowed[REF_OUTPUTS])
{
    const struct attn_problem *p = in->problem;
    const int64_t dk = p->dk, dv = p->dv, count = dk * dv;
    double *memory = ref_alloc_doubles(2 * dk + 1, dv + 5);
    struct sizes s = {.in = in, .a = a, .dk = dk, .dv = dv, .sum = memory};
    if (!memory)
        return ATTN_OUT_OF_MEMORY;
    s.wrong = s.sum + count;
    s.way = s.wrong + count;
    s.most = s.way + dk;
    s.q = s.most + 1;
    s.k = s.q + dk;
    s.g = s.k + dk;
    s.v = s.g + dk;
    s.bonus = in->by_role[ATTN_BONUS] ? s.v + dv : NULL;
    for (int64_t head = 0; head < p->b * p->hq; head++) {
        double *out = allowed[REF_DECAY_OUT], *state = allowed[REF_DECAY_STATE];
        s.b = head / p->hq;
        s.h = head % p->hq;
        begin(&s, handed ? handed + head * count : NULL);
        allow_head(&s, out ? out + head * p->sq * dv : NULL, state ? state + head * count : NULL);
    }
    free(memory);
    return ATTN_OK;
}
