/* SPDX-License-Identifier: Apache-2.0 */
/* bound.h - the arithmetic that a backend declares, as constants of the error bound. The letters
 * are those of BOUND.md. */
#ifndef ATTN_REFERENCE_BOUND_H
#define ATTN_REFERENCE_BOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "attnbench/backend.h"
#include "reference/reference.h"

/* delta: all probabilistic bounds of a verdict may fail together with this probability. A verdict
 * makes up to REF_COMPARISONS comparisons. Each has a fixed share of delta, so its bound does not
 * depend on which others are made. */
#define REF_DELTA       1e-6
#define REF_COMPARISONS 64
#define REF_DELTA_SHARE (REF_DELTA / REF_COMPARISONS)

/* Most bins of frac(log2 p) for grouping the rounding errors of p: 2/u_P of f16. */
#define REF_BINS 4096

struct ref_arithmetic {
    double u;      /* unit roundoff of the accumulation */
    double lambda; /* a chain of roundings stays within lambda standard deviations */
    double u_op;   /* largest relative error of one operation: u, or 2u if it truncates */
    double three;  /* G(3) */
    double omega;  /* what an underflow in the accumulation may lose */
    /* The largest number of the accumulation, stored scores, p and projections. */
    double largest, score_largest, p_largest, proj_largest;
    double u_in;   /* relative rounding of q or k before the product */
    double u_s;    /* relative rounding of stored scores; 0: kept in the accumulation type */
    double eta_s;  /* absolute rounding of stored scores near 0 */
    double u_p;    /* relative rounding of stored p; 0: kept in the accumulation type */
    double eta_p;  /* absolute rounding of stored p near 0 */
    double u_proj; /* mha: relative rounding of stored projections; 0: kept */
    double eta_proj;
    double e_exp, e_arg, e_tanh, e_log;
    double e_f, a_f; /* of a weight function: |computed f(s) - f(s)| <= e_f f(s) + a_f */
    double tau;      /* lag of a lazily rescaled maximum */
    double tiles;    /* T = R */
    double chain;    /* longest chain of additions, if declared; 0: n */
    double splits;   /* parts merged by lse; 0: none */
    int bins;        /* B of the grouped sum; 0: not a generic fill, plain sum */
    bool generic;    /* the probabilistic constants apply */
    bool squares;    /* errors of projections add in squares, too */
    bool truncates;  /* accumulation rounds toward zero */
    bool ftz;        /* a store flushes subnormals */
    bool normalised; /* p is stored divided by the row sum */
    int denominator; /* as in struct attn_numerics */
    bool by_norms;   /* gaussian as |q|^2 - 2 q.k + |k|^2 */
    bool out_toward_zero;
    double copies; /* how often E counts: 2 for f64, for the reference's own error; else 1 */
    /* Partial sums of q.k and p v. */
    double partial;         /* G of their longest chain, in their type; 0: there are none */
    double partial_terms;   /* length of that chain */
    double partial_omega;   /* what an underflow there may lose */
    double partial_largest; /* the largest number of their type */
    /* declared.c */
    double score_stores; /* roundings of a score to its stored type, 1 or more */
    double u_pv;         /* relative rounding of p and v before p v */
    bool alibi_by_key;   /* ALiBi is slope * j */
    bool on_rise;        /* only a maximum that rises rescales */
    double decay_chunk;  /* steps whose decays are added up before exp; 0: exp at each step */
    double u_state;      /* relative rounding of a stored state; 0: kept in the accumulation type */
    double eta_state;    /* absolute rounding of it near 0 */
};

/* declared.c: the constants of what is declared by the fields from score_stores on. Called last by
 * ref_arithmetic_init. */
void ref_arithmetic_further(struct ref_arithmetic *arithmetic,
                            const struct attn_numerics *numerics);

/* chains.c: an upper limit of the number of chains of roundings on which the bounds of a request
 * rest: one for each product that the reference adds up. */
double ref_chains(const struct attn_problem *problem, const struct ref_request *request);

/* The lambda with which `chains` chains fail together with probability REF_DELTA_SHARE at most. */
double ref_lambda(double chains);

/* The probability with which the bounds of such a request may fail: REF_DELTA_SHARE, or 0 if all of
 * them are deterministic. */
double ref_delta(const struct attn_numerics *numerics, enum ref_fill_kind fill);

/* The constants of a declaration, for results that rest on `chains` chains of roundings. */
void ref_arithmetic_init(struct ref_arithmetic *arithmetic, const struct attn_problem *problem,
                         const struct attn_numerics *numerics, enum ref_fill_kind fill,
                         double chains);

/* G(k): relative error bound of a sum or product of k operations. */
double ref_growth(const struct ref_arithmetic *arithmetic, double k);

/* Do `terms` errors of about the same size add up to less in squares, lambda times, than as they
 * are? ref_squares_stored: errors of projections, which are sums of many roundings where
 * projections are not stored narrower. */
bool ref_squares(const struct ref_arithmetic *arithmetic, int64_t terms);
bool ref_squares_stored(const struct ref_arithmetic *arithmetic, int64_t terms);

/* The two of which G(k) is the smaller on generic fills: the worst case, and g(k). */
double ref_growth_worst(const struct ref_arithmetic *arithmetic, double k);
double ref_growth_likely(const struct ref_arithmetic *arithmetic, double k);

/* What so many stores of a state to a narrower type make of a term; 0: there is none. */
double ref_growth_state(const struct ref_arithmetic *arithmetic, double stores);

/* G(k) with inputs that are rounded to u_in: (1 + G(k)) (1 + 2 u_in) - 1. */
double ref_growth_rounded(const struct ref_arithmetic *arithmetic, double k);

/* Adds the chain of a partial sum to g: (1 + g) (1 + G) - 1. Without partial sums returns g. */
double ref_growth_partial(const struct ref_arithmetic *arithmetic, double g);

/* Adds to g what p v goes through besides: the chain of a partial sum, and the rounding of p and v
 * before the product. */
double ref_growth_values(const struct ref_arithmetic *arithmetic, double g);

/* Bound on |tanh(x + e) - tanh(x)| for |e| <= dx, where t = tanh(x). The derivative 1 - tanh^2
 * changes by at most a factor exp(2 dx) within dx. For dx < 1/2 that is below 1 + 4 dx. The last
 * term is what 1 - t^2 loses when t rounds to 1. */
static inline double ref_tanh_spread(double t, double dx)
{
    double slope = (1.0 - t * t) * (1.0 + 4.0 * dx) + 0x1p-51;
    double near = dx * (slope < 1.0 ? slope : 1.0), far = dx < 2.0 ? dx : 2.0;

    return dx < 0.5 ? near : far;
}

/* Rounding error of the output type for a number whose magnitude is between `least` and `most`. */
double ref_store_error(const struct ref_arithmetic *arithmetic, uint32_t dtype, double least,
                       double most);

/* The bound on a stored result: copies * E plus the rounding of the output type. It is 0 if the
 * reference is not finite, because the class decides there. +inf at an infinite reference means
 * that NaN is accepted, too. +inf at a finite reference means that nothing is known. */
double ref_bound_final(const struct ref_arithmetic *arithmetic, uint32_t dtype, double reference,
                       double e);

/* One softmax row as the bound sees it: n allowed keys, and the sink, if any, as entry n. */
struct ref_softmax {
    int64_t n;
    bool sink;
    double sink_logit;
    double max; /* over allowed keys and sink */
    double sum; /* sum exp(s - max) */
    double log_sum;
    double lse;   /* max + log_sum */
    bool dropout; /* the problem has dropout */
    double dropout_p;
    double offset; /* ALiBi by key: how far scores are from ours, the same for all keys; else 0 */
    double rises;  /* how often the maximum may rise, if only that rescales; else 0 */
    double copies; /* a key may be added in so many parts; 0: in one */
};

struct ref_scratch;
struct ref_keys;

/* What the three outputs of a row share, in addition to growth, upper and store in scratch. */
struct ref_row_bound {
    double rise;      /* how far a computed maximum may be above the true one */
    double chain;     /* N */
    double product;   /* relative error of a term of the sum over keys: see BOUND.md 4 */
    double lost;      /* what keys too small for the sum may lose on top, for v = 1 */
    double least;     /* D: a lower limit of the sum of p over the exact one */
    double summing;   /* error of the log of the sum of p */
    double quotient;  /* relative error of the division by the sum; see BOUND.md 4 */
    double dropout;   /* relative error of the factor of a kept key */
    double underflow; /* what one underflow may lose of out, for v = 1 */
    double partial;   /* the same in a partial sum */
    double shared;    /* sum of growth over keys and sink */
    double stored;    /* sum of store */
    double lse_error; /* E of lse */
    double peak;      /* the largest p before it is divided by the sum */
    bool overflows;   /* p or its sum may leave the range of their types */
};

/* bound_roundings.c: sets chain, product, lost, summing, quotient and dropout. Reads only the
 * length, lse and dropout of the row, and its weights p; p NULL: they are not known. */
void ref_bound_roundings(const struct ref_arithmetic *a, const struct ref_softmax *row,
                         const double *p, struct ref_row_bound *bound);

/* declared.c: the most maxima that the row's scores, in their order or the reverse, may have one
 * after the other. Reads logit and wrong of the scratch. */
double ref_bound_rises(const struct ref_scratch *scratch, int64_t n);

/* bound_row.c: sets all of *bound, and the arrays growth, upper and store of the scratch. */
void ref_bound_row(const struct ref_arithmetic *a, const struct ref_softmax *row,
                   struct ref_scratch *scratch, struct ref_row_bound *bound);

/* How wrong p of one term may be: by exp(d) (1 + r), |d| <= shift and |r| <= relative. Neither
 * falls if `max`, the length or `lse` of the row, or `rise`, is made larger. */
void ref_bound_term(const struct ref_arithmetic *a, const struct ref_softmax *row, double rise,
                    double s, double ds, double *shift, double *relative);

/* Sets all of *bound as ref_bound_row does, from sums over the terms: `lower` of p exp(-shift)
 * (1 - relative), `growth` of p (exp(w) - 1), w = shift + relative, and over the keys alone `upper`
 * of p exp(w). The sum of p is 1. Returns what the store of one p may lose near 0, over the sum. */
double ref_bound_sums(const struct ref_arithmetic *a, const struct ref_softmax *row, double rise,
                      double lower, double growth, double upper, struct ref_row_bound *bound);

/* Sums over the keys of one column, and their largest terms; the letters of BOUND.md 3 and 4. */
struct ref_column {
    double e1;   /* E1 */
    double size; /* A */
    double sum;  /* of |v| */
    double rho;
    double far, high; /* largest |v - ref|, largest |v| */
};

/* bound_out.c: E of an element of out that is not infinite; *rest, if not NULL: without errors of
 * weights. */
double ref_bound_column(const struct ref_arithmetic *a, const struct ref_softmax *row,
                        const struct ref_row_bound *bound, const struct ref_column *column,
                        double out, double *rest);

/* Writes E of each column of out to `error`. With keys->v_spread, columns 5 and 6 of the scratch
 * are then E without errors of weights, and the square of what errors of v are in the rest of E. */
void ref_bound_out(const struct ref_arithmetic *a, const struct ref_softmax *row,
                   const struct ref_row_bound *bound, const struct ref_keys *keys,
                   struct ref_scratch *scratch, const double *out, double *error);

/* bound_join.c. ref_bound_join, after ref_bound_out: computes entry r of most and stays of
 * `joined`. ref_bound_joins: may it be called for this row? */
struct ref_joined;
bool ref_bound_joins(const struct ref_arithmetic *a, const struct ref_softmax *row,
                     const struct ref_row_bound *bound);
void ref_bound_join(const struct ref_softmax *row, const struct ref_row_bound *bound,
                    const struct ref_keys *keys, struct ref_scratch *scratch, const double *out,
                    const struct ref_joined *joined, int64_t r);

/* y_c += x_0 a_0c + x_1 a_1c + ... as ref_add_rows, but in float: off by ref_float_error of the sum
 * of the absolute values. ref_length: the Euclidean norm. */
void ref_add_floats(const double *x, const float *a, int64_t stride, const int64_t *index,
                    int64_t rows, int64_t width, float *y);
double ref_float_error(int64_t terms);
double ref_length(const double *x, int64_t n);

/* E of the weight of allowed key t. */
double ref_bound_weight(const struct ref_arithmetic *a, const struct ref_row_bound *bound,
                        const struct ref_scratch *scratch, int64_t t);

#endif
