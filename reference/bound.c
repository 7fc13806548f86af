/* SPDX-License-Identifier: Apache-2.0 */
/* bound.c - constants of the error bound, from what a backend declares. Derived in BOUND.md. */
#include "reference/bound.h"

#include <float.h>
#include <math.h>

#include "reference/dtype.h"

/* Most that a store flushes in any type but f16. */
#define FLUSHED 0x1p-125

/* Unit roundoff of double. */
#define U_F64 0x1p-53

/* Worst errors of the C library's double functions, which the reference itself calls: glibc states
 * 1 ulp for exp and log, 2 ulp for tanh; an ulp is at most 2u of the value. */
#define REFERENCE_E_EXP  (2.0 * U_F64)
#define REFERENCE_E_LOG  (2.0 * U_F64)
#define REFERENCE_E_TANH (4.0 * U_F64)
/* Of weight functions: erfc has 5 ulp, sigmoid an exp and two operations. */
#define REFERENCE_E_F (16.0 * U_F64)

/* Roundoff of what is kept in `type`, where that is coarser than the accumulation; else 0. */
static double storage_roundoff(uint32_t type, double u)
{
    double storage = type ? attn_dtype_roundoff(type) : 0.0;

    return storage > u ? storage : 0.0;
}

/* What a store to `type` may lose near zero. */
static double storage_underflow(uint32_t type, bool ftz)
{
    return ftz ? attn_dtype_min_normal(type) : 0.5 * attn_dtype_min_subnormal(type);
}

/* f32 and bf16 have the exponent range of f32: whether subnormals are flushed or kept, 2^-126 is
 * enough. In f16 the difference is large. */
static double accumulation_underflow(uint32_t type, bool ftz)
{
    return type == ATTN_F16 ? storage_underflow(type, ftz) : attn_dtype_min_normal(type);
}

static void init_storage(struct ref_arithmetic *a, const struct attn_problem *problem,
                         const struct attn_numerics *numerics)
{
    uint32_t proj = numerics->proj_type ? numerics->proj_type : problem->dtype;

    a->u_s = storage_roundoff(numerics->score_type, a->u);
    a->u_p = storage_roundoff(numerics->p_type, a->u);
    a->u_proj = storage_roundoff(proj, a->u);
    a->score_largest = numerics->score_type ? attn_dtype_max(numerics->score_type) : a->largest;
    a->p_largest = numerics->p_type ? attn_dtype_max(numerics->p_type) : a->largest;
    a->proj_largest = attn_dtype_max(proj);
    if (a->u_s > 0.0)
        a->eta_s = storage_underflow(numerics->score_type, numerics->ftz);
    if (a->u_p > 0.0)
        a->eta_p = storage_underflow(numerics->p_type, numerics->ftz);
    if (a->u_proj > 0.0)
        a->eta_proj = storage_underflow(proj, numerics->ftz);
    a->u_state = storage_roundoff(numerics->state_type, a->u);
    if (a->u_state > 0.0)
        a->eta_state = storage_underflow(numerics->state_type, numerics->ftz);
    /* Fewer bins than 2/u_P group more errors together, which only widens the bound. */
    if (a->generic && a->u_p > 0.0)
        a->bins = (int)fmin(2.0 / a->u_p, REF_BINS);
}

static double worst_growth(double u, double k)
{
    return fmin(expm1(-k * log1p(-u)), DBL_MAX);
}

static double likely_growth(const struct ref_arithmetic *a, double u, double k)
{
    return expm1((a->lambda * sqrt(k) * u + k * u * u) / (1.0 - u));
}

static double growth(const struct ref_arithmetic *a, double u, double k)
{
    double worst = worst_growth(u, k);

    return a->generic ? fmin(worst, likely_growth(a, u, k)) : worst;
}

static void init_partial(struct ref_arithmetic *a, const struct attn_numerics *numerics)
{
    const uint32_t type = numerics->partial_type;

    if (!type)
        return;
    a->partial_terms = (double)numerics->partial_terms;
    a->partial_largest = attn_dtype_max(type);
    a->partial =
        growth(a, attn_dtype_roundoff(type) * (a->truncates ? 2.0 : 1.0), a->partial_terms);
    a->partial_omega = storage_underflow(type, a->ftz);
    if (a->truncates && !a->ftz)
        a->partial_omega *= 2.0;
}

void ref_arithmetic_init(struct ref_arithmetic *arithmetic, const struct attn_problem *problem,
                         const struct attn_numerics *numerics, enum ref_fill_kind fill,
                         double chains)
{
    uint32_t acc = numerics->acc_type ? numerics->acc_type : problem->dtype;
    struct ref_arithmetic a = {.u = attn_dtype_roundoff(acc), .copies = 1.0};

    a.omega = accumulation_underflow(acc, numerics->ftz);
    a.largest = attn_dtype_max(acc);
    a.u_in = numerics->u_in;
    a.e_exp = numerics->e_exp;
    a.e_arg = numerics->e_arg;
    a.e_tanh = numerics->e_tanh;
    a.e_log = numerics->e_log;
    a.e_f = numerics->e_f;
    a.a_f = numerics->a_f;
    a.tau = numerics->tau;
    a.tiles = numerics->key_tile > 0
                  ? fmax(1.0, ceil((double)problem->sk / (double)numerics->key_tile))
                  : 1.0;
    a.chain = (double)numerics->chain;
    a.splits = numerics->splits > 1 ? (double)numerics->splits : 0.0;
    a.generic = ref_delta(numerics, fill) > 0.0;
    a.lambda = a.generic ? ref_lambda(chains) : 0.0;
    a.truncates = numerics->acc_toward_zero;
    a.ftz = numerics->ftz;
    a.u_op = a.truncates ? 2.0 * a.u : a.u;
    a.three = ref_growth(&a, 3.0);
    a.normalised = numerics->p_normalised;
    a.denominator = (int)numerics->denominator;
    a.by_norms = numerics->gaussian_by_norms;
    a.out_toward_zero = numerics->out_toward_zero;
    init_storage(&a, problem, numerics);
    /* Rounded inputs are shared by all columns. What is flushed has no mean of zero, but beside the
     * roundings of drawn values it is nothing except in f16. */
    a.squares = a.generic && a.u_in == 0.0 && (!a.ftz || fmax(a.omega, a.eta_proj) < FLUSHED);
    init_partial(&a, numerics);
    /* The reference works in f64 too: both stay within E of the truth, when E is made from the
     * worse constants of the two. */
    if (a.u <= U_F64) {
        a.copies = 2.0;
        a.e_exp = fmax(a.e_exp, REFERENCE_E_EXP);
        a.e_log = fmax(a.e_log, REFERENCE_E_LOG);
        a.e_tanh = fmax(a.e_tanh, REFERENCE_E_TANH);
        a.e_f = fmax(a.e_f, REFERENCE_E_F);
    }
    ref_arithmetic_further(&a, numerics);
    *arithmetic = a;
}

double ref_growth(const struct ref_arithmetic *a, double k)
{
    return growth(a, a->u_op, k);
}

double ref_growth_state(const struct ref_arithmetic *a, double stores)
{
    return a->u_state > 0.0 ? growth(a, a->u_state, stores) : 0.0;
}

bool ref_squares(const struct ref_arithmetic *a, int64_t terms)
{
    /* The mean of |x| of normal numbers is sqrt(2 / pi) of its root mean square. */
    return a->squares && 2.0 / M_PI * (double)terms > a->lambda * a->lambda;
}

bool ref_squares_stored(const struct ref_arithmetic *a, int64_t terms)
{
    return a->u_proj > 0.0 ? ref_squares(a, terms) : a->squares;
}

double ref_growth_worst(const struct ref_arithmetic *a, double k)
{
    return worst_growth(a->u_op, k);
}

double ref_growth_likely(const struct ref_arithmetic *a, double k)
{
    return likely_growth(a, a->u_op, k);
}

double ref_growth_partial(const struct ref_arithmetic *a, double g)
{
    /* The largest double still gives 0 times an exact 0. */
    return a->partial > 0.0 ? fmin(g + a->partial * (1.0 + g), DBL_MAX) : g;
}

double ref_growth_rounded(const struct ref_arithmetic *a, double k)
{
    double g = ref_growth(a, k);

    return g + 2.0 * a->u_in * (1.0 + g);
}

double ref_store_error(const struct ref_arithmetic *a, uint32_t dtype, double least, double most)
{
    double flushed = a->ftz ? attn_dtype_min_normal(dtype) : 0.0;

    return attn_dtype_ulp(dtype, most) * (a->out_toward_zero ? 1.0 : 0.5) +
           (least < flushed ? flushed : 0.0);
}

double ref_bound_final(const struct ref_arithmetic *a, uint32_t dtype, double reference, double e)
{
    double total = e * a->copies, size = fabs(reference);

    if (isnan(reference) || (isinf(reference) && total != INFINITY))
        return 0.0;
    if (!isfinite(total))
        return INFINITY;
    return total + ref_store_error(a, dtype, size - total, size + total);
}
