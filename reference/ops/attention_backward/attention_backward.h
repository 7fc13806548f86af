/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward.h - what the files of the operator share. Letters are those of OP.md. */
#ifndef ATTN_REFERENCE_ATTENTION_BACKWARD_H
#define ATTN_REFERENCE_ATTENTION_BACKWARD_H

#include <float.h>

#include "reference/job.h"

/* An error of which nothing is known: a step may leave the range of its type. What is made of it is
 * not known either, even where it is multiplied by 0. */
#define REF_UNKNOWN DBL_MAX

/* Numbers of the outputs. */
enum { REF_GRAD_Q, REF_GRAD_K, REF_GRAD_V, REF_GRAD_BIAS, REF_GRAD_SINK, REF_GRAD_ALIBI };

/* A gradient that is stored while it is added up over tiles; u 0: it is not. */
struct ref_backward_kept {
    double u, eta, largest;
};

/* What a declaration says of the backward pass alone. */
struct ref_backward_declared {
    bool own_lse, own_delta;
    double u_ds, eta_ds, ds_largest; /* of dS as it is stored; u_ds 0: it is kept */
    double eta_dz, dz_largest;       /* of dZ, which may be multiplied by the scale before */
    double u_delta;                  /* of delta as it is stored; 0: kept */
    double u_partial, eta_partial;   /* of dK and dV of single heads, as they are stored */
    double eta_partial_k;            /* of dK, which may be multiplied by the scale before */
    struct ref_backward_kept dq;     /* over tiles of keys */
    struct ref_backward_kept dkv;    /* over tiles of queries, head after head */
    double u_factor;                 /* of both factors of a product, before it */
    double dropout;                  /* relative error of a kept weight's factor */
    double chain, query_tiles;       /* longest chain over queries, if declared; tiles of queries */
    int ds_bins;                     /* as ref_arithmetic.bins, of stored dS */
};

/* One (b, g) at work: its keys, and the queries and gradients of all of its rows. */
struct ref_backward_group {
    const struct ref_job *job;
    struct ref_arithmetic arithmetic;
    struct ref_backward_declared declared;
    struct ref_keys keys;
    int64_t b, g, heads, rows; /* heads to one of keys; heads * Sq */
    double *q, *dout;          /* [rows, Dq], [rows, Dv] */
    double *vt;                /* [Dv, Sk] */
    double *v_size;            /* [Sk] sum of |v| */
    /* Keys whose k and v are all 0 have the same score: where there are many, and nothing asks for
     * what each of them adds up, a row has one of them for all. */
    bool few;
    int64_t *others, n_others; /* the keys that are not 0, in order */
};

/* A run of keys. */
struct ref_backward_span {
    int64_t begin, end;
};

/* A row of one head and the arrays of one thread. Arrays have an entry for each of the n allowed
 * keys, whose numbers are scratch->key[t]; e_* say how far a backend may be off, t_* what the store
 * in a narrower type adds. */
struct ref_backward_row {
    struct ref_scratch *scratch;
    int64_t h, i, n;
    int64_t zero, more; /* the allowed key that stands for `more` others; -1: none does */
    struct ref_backward_span *spans; /* [Sk + 1] what is looked at */
    int64_t n_spans;
    bool sink;
    double lse, delta, e_delta;
    double d_lambda;              /* how far the lse of a backend may be off */
    double sink_logit, sink_p;    /* its weight */
    double *dp, *ds, *dz, *kept;  /* gradient of the dropped weight, of s, of z; p keep/(1-pdrop) */
    double *e_ds, *e_dz, *e_kept; /* errors */
    double *t_ds, *t_dz, *t_kept;
    double *along, *sizes; /* [Sk] by key: dO.v, and the sum of its absolute terms */
};

/* row.c: p, dP, delta, dS and dZ of query i of head h, and their errors with bounds. */
void ref_backward_row(const struct ref_backward_group *group, int64_t h, int64_t i,
                      struct ref_backward_row *row);

/* W: a weight of a score s that is off by ds is itself off by the factor 1 + W at most. */
double ref_backward_weight_error(const struct ref_backward_group *group,
                                 const struct ref_backward_row *row, double s, double ds);

/* Weighed rows that are added up: y_c = factor * sum_t weight_t rows[index_t, c]. */
struct ref_backward_sum {
    int64_t n, width;
    const double *weight, *error, *stored; /* [n] */
    const double *rows;
    const int64_t *index;
    int64_t part;    /* index / part: the head whose sum is stored by itself; 0: none is */
    double factor;   /* the scale, or 1 */
    double growth;   /* of the chain of additions, factors that are rounded included */
    double u_part;   /* relative rounding of the sum of a head */
    double eta_part; /* the same near 0 */
    double eta_kept; /* what is lost near 0 by all stores of a sum that is added up in tiles */
    double largest;  /* of what such a sum is stored in; else of the accumulation */
    int bins;        /* of stored weights; 0: they add up as they are */
    uint32_t dtype;  /* of the result */
    double *room;    /* [5, width] */
    int64_t *order;  /* [n] */
    int64_t *start;  /* [REF_BINS + 1] */
};

/* sum.c: adds up, and writes the bounds of the stored results; bound NULL: none is wanted. */
void ref_backward_add(const struct ref_arithmetic *a, const struct ref_backward_sum *sum,
                      double *value, double *bound);

/* The bound of one column from its sums: `off` of errors and stores, `size` of all magnitudes,
 * `rows` of the magnitudes of rows alone. */
double ref_backward_bound(const struct ref_arithmetic *a, const struct ref_backward_sum *sum,
                          double value, double off, double size, double rows);

/* What rounds a sum over keys; over `n` queries, with `more` operations besides. */
void ref_backward_over_keys(const struct ref_backward_group *group, int64_t keys,
                            struct ref_backward_sum *sum);
void ref_backward_over_queries(const struct ref_backward_group *group, double more,
                               struct ref_backward_sum *sum);

/* declared.c. ref_backward_declare: constants of a declaration. ref_backward_likely: those of
 * random signs, whose products are exact. ref_backward_growth: G(k) of a sum of products. */
void ref_backward_declare(const struct ref_job *job, struct ref_backward_group *group);
void ref_backward_likely(const struct ref_job *job, struct ref_backward_group *group);
double ref_backward_growth(const struct ref_backward_group *group, double k);

/* The longest chain of additions over n keys. */
double ref_backward_chain(const struct ref_backward_group *group, int64_t n);

int ref_attention_backward_compute(const struct ref_job *job);

/* count.c. ref_backward_sign: 1 or -1 that looks random, alike on every machine.
 * ref_backward_code: 1 or -1 for each element of q, k and dO of census; `head` counts those
 * of all batches. Its sums over rows i of a head stay small whichever they begin and end with: of
 * 2, 4 or 32 rows, by column, the second half cancels the first; every fourth column is random.
 * ref_backward_may_count: can the problem be one whose census is counted, with these numerics
 * (NULL: with any)? */
double ref_backward_sign(uint64_t n);
double ref_backward_code(uint32_t role, int64_t head, int64_t i, int64_t c);
bool ref_backward_may_count(const struct attn_problem *p, const struct attn_numerics *numerics);

/* derive.c: writes OUT and LSE, as the forward pass has them, and what depends on the mask: the
 * rows that see no key under poison. Census has its own: of n keys each has the weight of a power
 * of two that is 1 / n or below, OUT is 0, and GRAD_OUT the inverse of the weight, with signs. */
int ref_attention_backward_derive(const struct attn_problem *problem, const char *fill,
                                  int threads);

#endif
