/* SPDX-License-Identifier: Apache-2.0 */
/* relation.h - one relation: the problems it makes from a case, and what their results must be.
 * Private to this folder. */
#ifndef ATTN_RELATION_H
#define ATTN_RELATION_H

#include "judge/allowance.h"
#include "run/checks.h"
#include "tensor/inner.h"

enum { ATTN_RELATION_PARTS = 2 };

/* Results of one run of one problem: every output except weights (out is made from them), as
 * doubles in dense logical order. */
struct attn_results {
    const struct attn_instance *instance;
    struct attn_numerics numerics; /* of the plan that computed them */
    const struct attn_tensor *tensor[REF_OUTPUTS];
    double *value[REF_OUTPUTS]; /* NULL: there is no such output */
    struct attn_allowance allowance;
    bool bounded; /* allowance is set, and the comparison is not one of bits */
    /* Operators that hand a state on: how far each element may be off, beside the rounding to its
     * type; of the allowance only the arithmetic is set. Else NULL. */
    double *allowed[REF_OUTPUTS];
    /* Gradients: `allowed` has what the reference says of the problem, with the rounding to its
     * type. `given`: LSE and OUT are taken as they are given. */
    bool final, given;
    int threads;                       /* that the reference may use */
    const struct attn_results *handed; /* whose state was the input; NULL: none's. Not owned */
    /* An attention whose allowance is that of these results; NULL: their own. Not owned. */
    const struct attn_instance *attention;
    const struct attn_inner *inner; /* of multi-head attention; else NULL. Not owned */
    /* [Hq] the allowance of the last row that was read of each head: a row of out of multi-head
     * attention has columns of all heads */
    struct attn_row_allowance {
        int64_t row; /* 1 + its number; 0: none was read */
        double out, lse;
    } * rows;
};

/* Check `functions`: a row as it must be: the weights of `first` and of all `other` keys, lse, and
 * what the functions may do to the quotient of the two weights. */
struct attn_function_truth {
    double x;                    /* distance, before a softcap */
    double first, other, others; /* weights, and how many keys `other` are */
    double lse, most, sum;
    double score;    /* error of the score that is not 0 */
    double wrong;    /* relative error of other / first */
    double common;   /* relative error of both, which lse has alone */
    double adding;   /* relative error of a sum of that many keys */
    double mistaken; /* the weight of `first` with a scale 2 % off */
};

/* A relation at work: the case, the problems made from it, and one backend's results of them all.
 */
struct attn_relation_work {
    const struct attn_instance *base, *part[ATTN_RELATION_PARTS];
    struct attn_results was, is[ATTN_RELATION_PARTS];
    /* Multi-head attention whose projections are exact: the attention inside it. Else NULL. */
    const struct attn_inner *inner, *part_inner[ATTN_RELATION_PARTS];
    struct attn_numerics numerics;
    int64_t pivot; /* causal_prefix: the first key changed; split: keys of the first part */
    int64_t counted_row;
    double counts[64]; /* keep: keys kept by binary digit, and in [63] keys seen, of that row */
    int64_t truth_row; /* functions: the row of `truth`, plus 1; 0: none yet */
    struct attn_function_truth truth;
    bool sees_scale; /* functions: an element would have been refused with a scale 2 % off */
};

/* One element of the results. */
struct attn_place {
    int output;
    int64_t at[ATTN_MAX_RANK]; /* its indices in the output's tensor */
    /* Operators with a softmax: batch, head (0 where out is of all heads), query, and column of
     * out, or -1 for lse. Others: batch and query alone. */
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
    /* The inputs that `value` changes, ended by 0; all others of the case's own sizes are copied.
     * NULL: any. */
    const uint32_t *changes;
    /* Does it fit the case? Sets the pivot. */
    bool (*fits)(struct attn_relation_work *work);
    /* Gradients: LSE and OUT of each part follow from its inputs, and the parts are compared with
     * each other alone. Else they are the case's own, and no rounding of theirs counts. */
    bool derived;
    /* The last part is an attention, and its allowance holds for all parts. */
    bool by_attention;
    /* Changes the case of part `part`; NULL: its sizes are the same. */
    void (*recast)(const struct attn_relation_work *work, int part, struct attn_case *c);
    /* Element `at` of an input of that part. */
    double (*value)(const struct attn_relation_work *work, int part,
                    const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK]);
    /* Writes inputs of a part that follow from the results of the part before it. NULL: none do. */
    void (*feed)(const struct attn_relation_work *work, int part, struct attn_instance *instance);
    /* What must hold at a place of the case's own results; false: nothing. */
    bool (*expect)(struct attn_relation_work *work, const struct attn_place *at,
                   struct attn_expectation *e);
    /* Are all results compared bit for bit? */
    bool (*exact)(const struct attn_relation_work *work);
};

/* relation_keys.c, relation_queries.c, relation_values.c, relation_any.c, relation_heads.c,
 * relation_functions.c, relation_operators.c */
extern const struct attn_relation attn_relation_permute_keys, attn_relation_shift,
    attn_relation_scale_v, attn_relation_linear_v, attn_relation_ones, attn_relation_causal_prefix,
    attn_relation_gqa, attn_relation_batch, attn_relation_split, attn_relation_duplicate_key,
    attn_relation_keep, attn_relation_functions, attn_relation_permute_queries,
    attn_relation_permute_heads, attn_relation_shift_k, attn_relation_threads, attn_relation_chunks,
    attn_relation_identity_projection, attn_relation_no_denominator;
/* relation_gradients.c */
extern const struct attn_relation attn_relation_causal_gradients, attn_relation_gqa_gradients,
    attn_relation_split_gradients, attn_relation_keep_gradients, attn_relation_shift_k_gradients,
    attn_relation_linear_dout;

/* What a check compares with a problem. NULL: the check is no relation, or has none for such
 * problems. */
const struct attn_relation *attn_relation_of(const struct attn_problem *problem,
                                             enum attn_check check);

/* The case's problem; has it a tensor, a flag; is it one of q, k and v with a softmax. */
const struct attn_problem *attn_relation_problem(const struct attn_relation_work *work);
bool attn_relation_has(const struct attn_relation_work *work, uint32_t role);
bool attn_relation_flagged(const struct attn_relation_work *work, uint64_t flags);
/* Does anything go by the number of a query or a key: causal, window, ALiBi, global tokens, scores
 * that depend on distances. */
bool attn_relation_by_position(const struct attn_relation_work *work);
bool attn_relation_attends(const struct attn_relation_work *work);

/* Is it one of q, k and v with other weights than a softmax's, or with a gate? attn_relation_sums:
 * with other weights, which nothing divides. */
bool attn_relation_weighs(const struct attn_relation_work *work);
bool attn_relation_sums(const struct attn_relation_work *work);
/* Is it multi-head attention of which the allowance knows how far out may be off: exact
 * projections, a plain product as score, one column of the heads in each element of out. */
bool attn_relation_projects(const struct attn_relation_work *work);
/* Are its results gradients? */
bool attn_relation_differentiates(const struct attn_relation_work *work);
/* Is it known how far results may be off: one of those above. */
bool attn_relation_bounded(const struct attn_relation_work *work);
/* The offset of masks in batch b; the least of all batches; the axis of keys in a tensor, -1: it
 * has none. */
int64_t attn_relation_offset(const struct attn_relation_work *work, int64_t b);
int64_t attn_relation_least_offset(const struct attn_relation_work *work);
int attn_relation_key_axis(uint32_t role);
/* The axis of an output with one of these letters; -1: it has none, or one entry for all. */
int attn_relation_output_axis(const struct attn_results *results, int output, const char *letters);
/* Number j of 0 .. n-1 in another order, in which neighbours are far apart. */
int64_t attn_relation_permuted(int64_t j, int64_t n);

/* Ready-made fields of a relation: value (the case's own operand), expect (the same result within
 * both slacks), exact (always, never). */
double attn_relation_value_same(const struct attn_relation_work *work, int part,
                                const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK]);
bool attn_relation_expect_same(struct attn_relation_work *work, const struct attn_place *at,
                               struct attn_expectation *e);
bool attn_relation_always(const struct attn_relation_work *work);
bool attn_relation_never(const struct attn_relation_work *work);

/* relation_problems.c: makes the problem of part `part`; free it with attn_instance_free. NULL: no
 * time or no memory; then the check is missing in the record. */
struct attn_session;
struct attn_instance *attn_relation_make(const struct attn_session *session,
                                         const struct attn_relation *relation,
                                         const struct attn_relation_work *work, int part);

/* relation_compare.c: goes through the case's results. False, with a sentence, at the first that
 * does not agree. */
bool attn_relation_holds(const struct attn_relation *relation, struct attn_relation_work *work,
                         char *text, size_t size);

/* relation_results.c: copies the instance's outputs. Returns 0, or -1: no memory. Free the results
 * in either case. */
int attn_results_take(const struct attn_instance *instance, struct attn_results *results);
void attn_results_free(struct attn_results *results);

/* Makes the allowance of results, if they have one. Those of multi-head attention need `inner`.
 * Returns 0, or -1: no memory, or projections that are not exact. */
int attn_results_bound(struct attn_results *results, const struct attn_numerics *numerics,
                       enum ref_fill_kind kind, bool constant_v);

/* The place of a batch, head, query and column in an output of an operator with a softmax. */
struct attn_place attn_place_of(const struct ref_op *op, int output, const struct attn_place *at);

/* The same row and column of batch b; the lse of the same row. */
struct attn_place attn_place_in_batch(const struct attn_results *results,
                                      const struct attn_place *at, int64_t b);
struct attn_place attn_place_of_lse(const struct attn_results *results,
                                    const struct attn_place *at);

/* An element of the results; and as it is compared, where numbers are not unique. */
double attn_results_read(const struct attn_results *results, const struct attn_place *at);
double attn_results_compared(const struct attn_results *results, const struct attn_place *at);
/* How far it may be from the true value, the rounding of its type included. */
double attn_results_slack(struct attn_results *results, const struct attn_place *at);

#endif
