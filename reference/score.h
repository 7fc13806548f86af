/* SPDX-License-Identifier: Apache-2.0 */
/* score.h - a score as data: what it is called, which parameters it has, and how it is computed.
 *
 * A score is one file of reference/scores and one line in the table of
 * known.c. Who asks for the
 * word of a score, its default scale or its parameters reads the row; nobody branches on the number
 * of a score. */
#ifndef ATTN_REFERENCE_SCORE_H
#define ATTN_REFERENCE_SCORE_H

#include <stdbool.h>
#include <stdint.h>

#include "attnbench/backend.h"

struct ref_arithmetic;
struct ref_block;
struct ref_job;
struct ref_keys;
struct ref_operands;
struct ref_score_span;
struct ref_scratch;

/* What a score is made of. Overflow, fills and explanations ask for these. */
enum {
    REF_SCORE_PRODUCT = 1, /* a sum of products of q and k: q may be scaled first */
    REF_SCORE_PARTIAL = 2, /* its sums may go through partial sums (attn_numerics.partial_type) */
    REF_SCORE_DISTANCE = 4 /* of q and k: where k is 0 it is not 0 */
};

/* Figures that a score may keep of its parameters for bounds from norms. */
#define REF_SCORE_PARTS 3

/* A score as norms bound it: |s|, ds, the sum of absolute terms, and underflows in units of omega.
 */
struct ref_score_norm {
    double most, ds, size, lost;
};

struct ref_score {
    uint32_t score;         /* enum attn_score */
    const char *name;       /* word of score= */
    const char *meaning;    /* the raw score in one line */
    uint32_t traits;        /* REF_SCORE_PRODUCT ... */
    bool by_width;          /* the default scale is 1/sqrt(dk); else it is 1 */
    bool free_widths;       /* dq may differ from dk */
    bool hidden;            /* has a hidden width, dh */
    const uint32_t *params; /* roles of its parameters, ended by 0; it needs all of them */
    const char *rule;       /* what a problem with the parameters of another score breaks */

    /* Multiply-adds of one query and head beyond those of a dot product. NULL: none. */
    double (*cost)(const struct attn_problem *problem);

    /* Arrays of a head that are this score's own, in keys->own, and keys->reach. `load` fills them
     * for query head h, after the keys. NULL: there are none. 0, or -1: no memory. */
    int (*create)(const struct ref_job *job, struct ref_keys *keys);
    void (*load)(const struct ref_job *job, struct ref_keys *keys, int64_t h);
    void (*destroy)(struct ref_keys *keys);

    /* Raw scores of keys [begin, end) into scratch->score[0]. `q_error`: NULL, or how far q may be
     * off. */
    void (*scores)(const struct ref_block *block, const double *q, const double *q_error,
                   int64_t begin, int64_t end, struct ref_scratch *scratch);

    /* With bounds, for the raw score, into scratch: ds without what underflows lose, magnitude,
     * which bounds every partial sum, flush, what underflows lose in units of omega, and inner,
     * where there is a reach. NULL: `scores` has left them there. */
    void (*errors)(const struct ref_score_span *span);

    /* The parameters of head h as norms, and the raw score of a query of length q and keys of
     * length k at most. measure NULL: there are no parameters. */
    void (*measure)(const struct ref_operands *operands, int64_t h, double part[REF_SCORE_PARTS]);
    void (*norm)(const struct attn_problem *problem, const struct ref_arithmetic *arithmetic,
                 const double *part, double q, double k, struct ref_score_norm *norm);
};

/* All scores, in the order of their numbers; ended by NULL. */
extern const struct ref_score *const ref_scores_known[];

/* By number or by word; NULL: there is none. */
const struct ref_score *ref_score_find(uint32_t score);
const struct ref_score *ref_score_named(const char *name);

/* The default scale for keys of this width, which must be known where the scale goes by it. */
double ref_score_scale(uint32_t score, int64_t dk);

/* Is a role a parameter of a score. */
bool ref_score_has(uint32_t score, uint32_t role);

#endif
