/* SPDX-License-Identifier: Apache-2.0 */
/* score.h - a score as data: what it is called, which parameters it has, and how it is computed.
 *
 * A score is one file of reference/scores and one line in the table of known.c. Its row has the
 * word, the default scale and the parameters. No code branches on the number of a score. */
#ifndef ATTN_REFERENCE_SCORE_H
#define ATTN_REFERENCE_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

struct ref_arithmetic;
struct ref_block;
struct ref_job;
struct ref_keys;
struct ref_operands;
struct ref_score_span;
struct ref_scratch;

/* Traits of a score. Overflow checks, fills and explanations read them. */
enum {
    REF_SCORE_PRODUCT = 1,  /* a sum of products of q and k; q may be scaled first */
    REF_SCORE_PARTIAL = 2,  /* may use partial sums (attn_numerics.partial_type) */
    REF_SCORE_DISTANCE = 4, /* a distance of q and k: not 0 for k = 0 */
    REF_SCORE_COLUMNS = 8,  /* each column of k meets one of q alone: errors add in squares */
    REF_SCORE_PLACES = 16   /* depends on the distance of query and key, too */
};

/* Numbers that a score may keep about its parameters, for bounds from norms. */
#define REF_SCORE_PARTS 3

/* Bounds of a score from norms: |s|, ds, the sum of absolute terms, and what underflows lose in
 * units of omega. */
struct ref_score_norm {
    double most, ds, size, lost;
};

struct ref_score {
    uint32_t score;          /* enum attn_score */
    const char *name;        /* word of score= */
    const char *meaning;     /* the raw score in one line */
    uint32_t traits;         /* REF_SCORE_PRODUCT ... */
    bool by_width;           /* the default scale is 1/sqrt(dk); else it is 1 */
    bool by_parts;           /* with by_width: 1/sqrt(dk times its sums), see attn_problem.parts */
    bool free_widths;        /* dq may differ from dk */
    bool hidden;             /* has a hidden width, dh */
    const uint32_t *params;  /* roles of its parameters, all required; ended by 0 */
    const uint32_t *options; /* roles that only this score may have; ended by 0. NULL: none */
    const char *rule;        /* the rule broken by a problem with another score's parameters */

    /* Parameters of an operator (ref_op.params) that only this score has: their keys, ended by
     * NULL. NULL: there are none. With other scores they have their fallback. */
    const char *const *keys;

    /* Checks what shapes do not say, of tensors whose shapes are right. data may be NULL. ATTN_OK
     * or ATTN_INVALID with the reason. NULL: nothing. */
    int (*check)(const struct ref_operands *operands, char *why, size_t size);

    /* Multiply-adds of one query and head beyond those of a dot product. NULL: none. */
    double (*cost)(const struct attn_problem *problem);

    /* The score's own arrays of a head, in keys->own, and keys->reach. NULL: there are none.
     * `create` returns 0, or -1 if there is no memory. `load` fills the arrays for query head h,
     * after the keys. */
    int (*create)(const struct ref_job *job, struct ref_keys *keys);
    void (*load)(const struct ref_job *job, struct ref_keys *keys, int64_t h);
    void (*destroy)(struct ref_keys *keys);

    /* Computes raw scores of query i and keys [begin, end) into scratch->score[0]. `q_error` is how
     * far q may be off; NULL: q is exact. */
    void (*scores)(const struct ref_block *block, int64_t i, const double *q, const double *q_error,
                   int64_t begin, int64_t end, struct ref_scratch *scratch);

    /* With bounds: computes the errors of the raw score into scratch. ds: without what underflows
     * lose. magnitude: bounds every partial sum. flush: what underflows lose, in units of omega.
     * inner: only if there is a reach. NULL: `scores` has computed them already. */
    void (*errors)(const struct ref_score_span *span);

    /* `measure` computes norms of the parameters of head h; NULL: there are no parameters. `norm`
     * bounds the raw score of a query of length at most q and keys of length at most k. */
    void (*measure)(const struct ref_operands *operands, int64_t h, double part[REF_SCORE_PARTS]);
    void (*norm)(const struct attn_problem *problem, const struct ref_arithmetic *arithmetic,
                 const double *part, double q, double k, struct ref_score_norm *norm);
};

/* All scores, in the order of their numbers; ended by NULL. */
extern const struct ref_score *const ref_scores_known[];

/* A score by number or by word. NULL: there is none. */
const struct ref_score *ref_score_find(uint32_t score);
const struct ref_score *ref_score_named(const char *name);

/* The default scale for keys of width dk and these parts (attn_problem.parts). dk must be known if
 * the scale depends on it. */
double ref_score_scale(uint32_t score, int64_t dk, int64_t parts);

/* True if the score has a parameter with this role. */
bool ref_score_has(uint32_t score, uint32_t role);

/* True if a parameter of an operator has a meaning with this score: it belongs to this one, or to
 * none. NULL: the operator has no scores. */
bool ref_score_reads(const struct ref_score *score, const char *key);

#endif
