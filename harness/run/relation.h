/* SPDX-License-Identifier: Apache-2.0 */
/* relation.h - one relation: the problems it makes from a case, and what their results must be.
 * Private to this folder. */
#ifndef ATTN_RELATION_H
#define ATTN_RELATION_H

#include "judge/allowance.h"
#include "run/checks.h"

enum { ATTN_RELATION_PARTS = 2 };

/* Results of one run of one problem: every output but weights, of which out is made, as doubles in
 * dense logical order. */
struct attn_results {
    const struct attn_instance *instance;
    const struct attn_tensor *tensor[REF_OUTPUTS];
    double *value[REF_OUTPUTS]; /* NULL: there is no such output */
    struct attn_allowance allowance;
    bool bounded; /* allowance is there: attention, and a comparison that is not one of bits */
    /* the allowance of the row looked at last */
    int64_t row;
    double out_error, lse_error;
};

/* A relation at work: the case, the problems made from it, and one backend's results of all. */
struct attn_relation_work {
    const struct attn_instance *base, *part[ATTN_RELATION_PARTS];
    struct attn_results was, is[ATTN_RELATION_PARTS];
    struct attn_numerics numerics;
    int64_t pivot; /* causal_prefix: the first key changed; split: keys of the first part */
    int64_t counted_row;
    double counts[64]; /* keep: keys kept by binary digit, and in [63] keys seen, of that row */
};

/* One element of the results. */
struct attn_place {
    int output;
    int64_t at[ATTN_MAX_RANK]; /* its indices in the output's tensor */
    /* Operators with a softmax: batch, head (0 where out is of all heads), query, and column of
     * out, or -1 for lse. Others: the batch alone. */
    int64_t b, h, i, c;
};

/* What an element must be; `allowed` 0: the same number. */
struct attn_expectation {
    double want, got, allowed;
};

struct attn_relation {
    enum attn_check check;
    int parts;
    bool structured; /* the made problems have ties, constants: no probabilistic bound */
    bool constant_v;
    /* Does it fit the case; sets the pivot. */
    bool (*fits)(struct attn_relation_work *work);
    /* Changes the case of part `part`; NULL: its sizes are the same. */
    void (*recast)(const struct attn_relation_work *work, int part, struct attn_case *c);
    /* Element `at` of an input of that part. */
    double (*value)(const struct attn_relation_work *work, int part,
                    const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK]);
    /* What must hold at a place of the case's own results; false: nothing. */
    bool (*expect)(struct attn_relation_work *work, const struct attn_place *at,
                   struct attn_expectation *e);
    /* Are results compared bit for bit, whatever the place. */
    bool (*exact)(const struct attn_relation_work *work);
};

/* In the order of enum attn_check, up to ATTN_CHECK_THREADS. */
extern const struct attn_relation attn_relations[];

/* The same row and column of another batch; the lse of the same row. */
struct attn_place attn_place_in_batch(const struct attn_results *results,
                                      const struct attn_place *at, int64_t b);
struct attn_place attn_place_of_lse(const struct attn_results *results,
                                    const struct attn_place *at);

/* An element of the results. */
double attn_results_read(const struct attn_results *results, const struct attn_place *at);
/* How far it may be from the true value, the rounding of its type included. */
double attn_results_slack(struct attn_results *results, const struct attn_place *at);

#endif
