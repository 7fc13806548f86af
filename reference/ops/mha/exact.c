/* SPDX-License-Identifier: Apache-2.0 */
/* exact.c - projections whose sums no order of summation rounds, and projections by few weights.
 * OP.md has the derivation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/ops/mha/mha.h"

/* Weights are few where so many of a column, or one in so many, are not 0 on average. */
#define FEW    4
#define SPARSE 8

/* The exponent of the lowest bit of a number that is not 0. */
static int lowest_bit(double x)
{
    uint64_t bits, mantissa;
    int exponent;

    memcpy(&bits, &x, sizeof(bits));
    mantissa = bits & ((1ull << 52) - 1);
    exponent = (int)(bits >> 52 & 0x7ff);
    if (exponent > 0)
        mantissa |= 1ull << 52;
    else
        exponent = 1;
    return exponent - 1075 + __builtin_ctzll(mantissa);
}

/* Is x a number that rounding to `u_in` does not change: a whole multiple of its lowest bit, and at
 * most 1 / u_in of them? */
static bool survives(double x, int lowest, double u_in)
{
    return u_in == 0.0 || fabs(x) * u_in <= ldexp(1.0, lowest);
}

struct ref_exactness ref_exactness_of(const struct ref_job *job, bool stored)
{
    const struct ref_arithmetic *a = &job->arithmetic;
    const struct attn_numerics *numerics = job->request->numerics;
    const struct attn_problem *problem = job->operands.problem;
    const uint32_t types[] = {numerics->acc_type ? numerics->acc_type : problem->dtype,
                              stored ? (numerics->proj_type ? numerics->proj_type : problem->dtype)
                                     : 0,
                              numerics->partial_type};
    struct ref_exactness x = {.most = INFINITY, .u_in = a->u_in};
    int exponent;

    for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
        if (!types[t])
            continue;
        x.u = fmax(x.u, attn_dtype_roundoff(types[t]));
        x.most = fmin(x.most, attn_dtype_max(types[t]));
        x.least = fmax(x.least, a->ftz ? attn_dtype_min_normal(types[t])
                                       : attn_dtype_min_subnormal(types[t]));
    }
    /* A rounding that is not to so many bits may change any number. Heads, which are not stored as
     * projections are, have errors that W_o may meet later. */
    if (!stored)
        x.u = INFINITY;
    if (x.u_in != 0.0 && (frexp(x.u_in, &exponent) != 0.5 || x.u_in > 0.25))
        x.u = INFINITY;
    return x;
}

bool ref_exact_sum(const struct ref_exactness *x, double size, double unit)
{
    /* Just below 2^t: `size` may be a sum that double has rounded. */
    return size == 0.0 ||
           (size * x->u * (1.0 + 0x1p-40) <= unit && unit >= x->least && size <= x->most);
}

double ref_exact_unit(const struct ref_exactness *x, const double *value, int64_t step,
                      int64_t count)
{
    double most = 0.0;
    int lowest = 1 << 16;

    for (int64_t i = 0; i < count; i++) {
        const double v = value[i * step];
        if (v == 0.0)
            continue;
        if (!isfinite(v))
            return 0.0;
        const int bit = lowest_bit(v);
        lowest = bit < lowest ? bit : lowest;
        most = fabs(v) > most ? fabs(v) : most;
        /* Two of them in one sum are one too many. */
        if (!(most * x->u <= ldexp(1.0, lowest)) || !survives(v, bit, x->u_in))
            return 0.0;
    }
    return lowest < 1 << 16 ? ldexp(1.0, lowest) : INFINITY;
}

double ref_mha_fold(const struct ref_projection *p)
{
    /* On generic fills the error is taken in squares as that of a chain of all terms. */
    return ref_growth(p->a, p->a->generic ? (double)p->in + 2.0 : 2.0);
}

/* ---- few weights ---- */

bool ref_few_create(struct ref_few *few, const double *w, int64_t out, int64_t in)
{
    int64_t count = 0, most = out * (in < FEW * SPARSE ? FEW : in / SPARSE);

    *few = (struct ref_few){0};
    for (int64_t n = 0; n < out * in && count <= most; n++)
        count += w[n] != 0.0;
    if (count > most)
        return false;
    few->start = malloc((size_t)(out + 1) * sizeof(*few->start));
    few->index = malloc((size_t)(count + 1) * sizeof(*few->index));
    few->weight = malloc((size_t)(count + 1) * sizeof(*few->weight));
    if (!few->start || !few->index || !few->weight) {
        ref_few_free(few); /* all weights then */
        return false;
    }
    count = 0;
    for (int64_t c = 0; c < out; c++) {
        few->start[c] = count;
        for (int64_t i = 0; i < in; i++) {
            few->index[count] = i;
            few->weight[count] = w[c * in + i];
            count += w[c * in + i] != 0.0; /* else the next weight takes its place */
        }
    }
    few->start[out] = count;
    return true;
}

void ref_few_free(struct ref_few *few)
{
    free(few->start);
    free(few->index);
    free(few->weight);
    *few = (struct ref_few){0};
}

bool ref_few_usable(const struct ref_few *few, const double *x, const double *x_error, int64_t in)
{
    double sum = 0.0; /* NaN as soon as a term is not finite */

    for (int64_t i = 0; few->start && i < in; i++)
        sum += 0.0 * x[i];
    for (int64_t i = 0; few->start && x_error && i < in; i++)
        sum += 0.0 * x_error[i];
    return few->start && sum == 0.0;
}

/* What the terms of one sum add up to. */
struct terms {
    double y;
    double size;   /* sum of |x| + its error, times |w|; and of |bias| */
    double passed; /* sum of the error of x times |w| */
    double flush;
    int lowest; /* the lowest bit of any term */
    int count;
    bool scaled;   /* every weight is a power of two */
    bool survives; /* no factor is changed as it is read */
};

static struct terms sum_terms(const struct ref_projection *p, const double *x, const double *xe,
                              int64_t c)
{
    const struct ref_few *few = &p->few;
    const double bias = p->bias[c];
    struct terms t = {.y = bias,
                      .size = fabs(bias),
                      .lowest = bias != 0.0 && isfinite(bias) ? lowest_bit(bias) : 1 << 16,
                      .scaled = true,
                      .survives = true};

    for (int64_t n = few->start[c]; n < few->start[c + 1]; n++) {
        const double v = x[few->index[n]], w = few->weight[n];
        const double e = xe ? xe[few->index[n]] : 0.0;
        t.y += v * w;
        t.size += (fabs(v) + e) * fabs(w);
        t.passed += e * fabs(w);
        t.flush += 2.0 + fabs(v) + e + fabs(w);
        t.count++;
        if (!isfinite(w)) {
            t.scaled = t.survives = false;
            continue;
        }
        const int on_w = lowest_bit(w), on_x = v != 0.0 ? lowest_bit(v) : 0;
        t.scaled = t.scaled && fabs(w) == ldexp(1.0, on_w);
        t.survives = t.survives && survives(w, on_w, p->exactness.u_in) &&
                     (v == 0.0 || survives(v, on_x, p->exactness.u_in));
        if (v != 0.0)
            t.lowest = on_w + on_x < t.lowest ? on_w + on_x : t.lowest;
    }
    return t;
}

/* The error of a sum of few terms, before it is stored; `exact`: its storage does not round it
 * either. */
static double error_of(const struct ref_projection *p, const struct terms *t, double bias,
                       bool *exact)
{
    const struct ref_arithmetic *a = p->a;
    const int additions = t->count - 1 + (bias != 0.0);
    /* Products with powers of two are not rounded, nor are sums of one term. */
    double chain = (t->scaled ? 0.0 : 1.0) + (additions > 0 ? (double)additions : 0.0), e;

    *exact = !p->x_error && !p->inexact && t->survives &&
             ref_exact_sum(&p->exactness, t->size, ldexp(1.0, t->lowest < 1000 ? t->lowest : 1000));
    if (*exact)
        return p->folded ? ref_mha_fold(p) * t->size + a->omega * t->flush : 0.0;
    chain = chain > 0.0 ? (double)t->count + 2.0 : 0.0; /* as if all weights were used */
    e = ref_growth_rounded(a, chain) * t->size + t->passed + a->omega * t->flush;
    return ref_mha_error_within(e, t->size * (1.0 + ref_growth(a, chain)), a->largest);
}

void ref_few_project(const struct ref_projection *p, int64_t r)
{
    const double *x = p->x + r * p->in, *xe = p->x_error ? p->x_error + r * p->in : NULL;

    for (int64_t c = 0; c < p->out; c++) {
        const struct terms t = sum_terms(p, x, xe, c);
        bool exact;
        p->y[r * p->out + c] = t.y;
        if (!p->y_error)
            continue;
        p->y_error[r * p->out + c] = error_of(p, &t, p->bias[c], &exact);
        if (p->stored && !exact)
            ref_mha_store(p, r * p->out + c);
    }
}
