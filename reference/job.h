/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - what the parts of the reference share: one call of ref_compute, the keys of one head, a
 * block of query rows, and the scratch of one thread.
 *
 * Heads are computed in turn. Keys and values of a head are widened to double once (ref_keys). Then
 * its query rows (ref_block) run in parallel, and each thread has its own scratch. */
#ifndef ATTN_REFERENCE_JOB_H
#define ATTN_REFERENCE_JOB_H

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reference/bound.h"
#include "reference/operands.h"
#include "reference/reference.h"

/* Keys, values and the score's own arrays of one (batch, query head). The *_error arrays bound how
 * far a backend's own value may be from ours. They are NULL if values are exact or no bound is
 * wanted. */
struct ref_keys {
    const struct ref_score *score;
    uint32_t k_role, v_role; /* what ref_keys_load reads */
    int64_t sk, dq, dk, dv, dh;
    double *k;  /* [Sk, Dk] */
    double *kt; /* [Dk, Sk]: transposed, so that sums over columns run along keys */
    double *k_error, *kt_error;
    double *k_size; /* [Sk] with bounds: sum of |k| and k_error */
    double *v;      /* [Sk, Dv] */
    double *v_error;
    /* On generic fills, lambda times how far the errors of projections spread: squares of it for k.
     * NULL: errors are added up as they are. */
    double *k_spread_t; /* [Dk, Sk], for scores with REF_SCORE_COLUMNS */
    double *k_most_t;   /* [Dk, Sk] with k_spread_t: |k| + k_error, squared if q_squares */
    double *v_spread;   /* [Sk, Dv] */
    bool q_squares;     /* errors of q add in squares over the columns; else as they are */
    double *v_most;     /* [Dv] with bounds: the largest |v| of a column */
    void *own;          /* the score's own arrays (reference/score.h) */
    double *reach;      /* [Sk], with bounds, for scores that sum up in two steps: an upper limit of
                           the sums of k alone (a row of M k, a hidden unit). NULL: none */
    int64_t b, g, h;    /* what is loaded; -1: nothing */
};

/* Working memory of one thread. Arrays of keys have room for Sk + 1 entries: the sink is last.
 * "Per key" arrays have an entry for each key j of the row's range. "Per allowed key" arrays have
 * entries t for the allowed keys only, without gaps; the softmax and all later steps use these. */
struct ref_scratch {
    atomic_flag busy;
    void *memory;
    double *score[3]; /* per key: after scale, after softcap, after bias */
    double *bias;     /* per key, if there is a bias; or the log of how often it is seen */
    double *ds;       /* per key: bound on the error of the score */
    double *magnitude, *spread, *flush;
    double *noise; /* per key, with k_spread_t: what errors of k make of the score. spread is then
                      what those of q make of it */
    double inner;  /* as reach of struct ref_keys, but of the query */
    double offset; /* ALiBi by key: what the row's scores differ from ours by; else 0 */
    int64_t *key;  /* per allowed key: its index */
    double *logit; /* its score after bias */
    double *wrong; /* its ds */
    double *p, *keep;
    double *weight; /* of the kept keys, in order */
    double *growth, *upper, *store;
    double *rest, *random; /* with k_spread_t: growth without what adds in squares, and that */
    int64_t *order, *start;
    double *same;      /* 1: the key is in the bin of the one before it in `order`; else 0 */
    double *query[3];  /* [max(Dq, Dk)], for the score */
    double *hidden[3]; /* [Dh], for the score */
    double *out;       /* [Dv] */
    double *column[7]; /* [Dv] */
};

/* Arrays for the results of the rows of a softmax, one entry per row of one head. NULL: not
 * wanted. */
struct ref_row_results {
    double *lse, *lse_bound;
    double *weights, *weights_bound; /* [rows, Sk] */
    double *scores[3];               /* [rows, Sk] */
    int64_t *allowed;
    int64_t heads; /* entries per unit of output 0: 1, or Hq if a unit covers all heads */
};

struct ref_job {
    const struct ref_op *op;
    struct ref_operands operands;
    struct ref_shape shape;
    const struct ref_request *request;
    struct ref_result *result;
    struct ref_arithmetic arithmetic;
    bool bounds;
    uint32_t empty_row;
    const struct ref_weight *weight; /* NULL: softmax */
    int threads;
    /* Only for operators with a softmax: */
    struct ref_row_results rows;
    struct ref_scratch *scratch;
};

/* Errors of the weights of one head on their way through W_o, on generic fills: there the columns
 * of a head share them, so they are followed to each column of out. */
struct ref_joined {
    int64_t width;  /* Eo */
    float *value;   /* [Sk, Eo]: |W_o v| of the keys, W_o of this head; never less */
    float *weight;  /* [Dv, Eo]: W_o of this head, transposed */
    double longest; /* the longest row of that W_o (Euclidean) */
    float *most;    /* [count, Eo]: what errors of weights make of out, at most */
    double *stays;  /* [count]: the part of that which does not add in squares over the heads */
    double *rest;   /* as `error` of the block: all other errors of a column, without .. */
    double *own;    /* .. those of its v alone, which are no other column's. Squared */
};

/* Requested rows [first, first + count) of one (b, h), with their queries in double. */
struct ref_block {
    const struct ref_job *job;
    const struct ref_keys *keys;
    const struct ref_keys *global; /* keys and values of global rows; NULL: `keys`, too */
    int64_t b, h, first, count;
    const double *q;        /* [count, Dq] */
    const double *q_error;  /* [count, Dq], or NULL: exact */
    const double *q_spread; /* [count, Dq]: as the spreads of keys. NULL: none */
    double *out;            /* [count] rows of Dv; out_stride elements from row to row */
    double *error;          /* the same shape: E before the final rounding. NULL: no bound */
    int64_t out_stride;
    const struct ref_joined *joined; /* NULL: not wanted */
    int64_t result_head; /* index of this head in the entries of struct ref_row_results */
    /* Writes the log of how often query i sees each key, [Sk]; -inf: not at all. A key counts in
     * the softmax as often as it is seen. NULL: once. */
    void (*times)(const void *context, int64_t i, double *log_times);
    const void *context; /* of `times` */
    double copies;       /* with `times`: the most that it is the log of */
};

/* The type in which an output of REF_TYPE_WIDE is stored; if the problem does not ask for it, the
 * widest that it may have. */
static inline uint32_t ref_wide_type(const struct ref_job *job, uint32_t role)
{
    const struct attn_tensor *tensor = job->operands.by_role[role];
    return tensor ? tensor->dtype : job->operands.problem->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
}

/* Rows are units of output 0. Returns the number of the unit that entry `r` of the request names.
 */
static inline int64_t ref_row_index(const struct ref_job *job, int64_t r)
{
    return ref_unit_number(&job->request->units[0], r);
}

/* Allocates rows * width doubles, all 0; the caller frees them. NULL if there is no memory, or if
 * the product does not fit. */
double *ref_alloc_doubles(int64_t rows, int64_t width);

/* The range of keys, the query and the arithmetic of one row. */
struct ref_score_span {
    const struct ref_keys *keys;
    const struct ref_arithmetic *a;
    struct ref_scratch *scratch;
    const double *q, *q_error; /* q_error NULL: exact */
    const double *q_spread;    /* NULL unless keys->k_spread_t */
    int64_t begin, end;
};

/* The larger of x and y. NaN if x is NaN, since it is not known to be small. */
static inline double ref_larger(double x, double y)
{
    return x > y || isnan(x) ? x : y;
}

/* What errors of k and q make of the score of key j together (noise and spread of the scratch). */
static inline double ref_spread_of(const struct ref_keys *keys, const struct ref_scratch *x,
                                   int64_t j)
{
    return keys->q_squares ? sqrt(x->noise[j] * x->noise[j] + x->spread[j] * x->spread[j])
                           : x->noise[j] + x->spread[j];
}

/* keys.c. ref_keys_create returns ATTN_OK or ATTN_OUT_OF_MEMORY. */
int ref_keys_create(const struct ref_job *job, struct ref_keys *keys);
void ref_keys_free(struct ref_keys *keys);
/* Widens the keys and values of query head h, if they are not loaded yet. Only for attention. */
void ref_keys_load(const struct ref_job *job, struct ref_keys *keys, int64_t b, int64_t h);
/* Computes kt and k_size from k. */
void ref_keys_turn(const struct ref_job *job, struct ref_keys *keys);
/* Loads the score's own arrays of query head h. */
void ref_keys_load_score(const struct ref_job *job, struct ref_keys *keys, int64_t h);

/* scratch.c */
struct ref_scratch *ref_scratch_create(const struct attn_problem *problem, int count);
void ref_scratch_free(struct ref_scratch *scratch, int count);

/* scores.c: the three stages of the score for keys [begin, end) of one row. `q_error` is how
 * far q may be off, for scores that compute their errors in the same pass. NULL: q is exact. */
void ref_scores(const struct ref_block *block, int64_t i, const double *q, const double *q_error,
                int64_t begin, int64_t end, struct ref_scratch *scratch);

/* score_error.c: computes scratch->ds for keys [begin, end). Call it after ref_scores. */
void ref_score_errors(const struct ref_block *block, int64_t i, const double *q,
                      const double *q_error, const double *q_spread, int64_t begin, int64_t end,
                      struct ref_scratch *scratch);

/* declared.c: adds the rounding of stored scores to scratch->ds. `diagonal` is the key at which
 * ALiBi is 0. */
void ref_score_stored(const struct ref_block *block, const struct ref_score_span *x, double slope,
                      int64_t diagonal);

/* Is ALiBi computed as slope * j? That needs keys up to the diagonal only. */
static inline bool ref_alibi_by_key(const struct ref_arithmetic *a,
                                    const struct attn_problem *problem)
{
    return a->alibi_by_key && (problem->flags & ATTN_FLAG_CAUSAL);
}

/* What a backend multiplies the slope of ALiBi by, for key j: the key, or its distance. */
static inline double ref_alibi_distance(const struct ref_arithmetic *a,
                                        const struct attn_problem *problem, int64_t diagonal,
                                        int64_t j)
{
    return ref_alibi_by_key(a, problem) ? (double)j : fabs((double)(diagonal - j));
}

/* score_error.c: true if a step towards the score of one of the first n allowed keys may overflow.
 * Call it after ref_score_errors. */
bool ref_scores_overflow(const struct ref_block *block, const double *q,
                         const struct ref_scratch *scratch, int64_t n);

/* row.c: computes all rows of a block, in parallel. */
void ref_block_compute(const struct ref_block *block);

#endif
