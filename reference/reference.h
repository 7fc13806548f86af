/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h - every operator in double precision, and the error bound of a backend next to it.
 * Depends on nothing but the ABI header. The derivation of the bound is in BOUND.md. */
#ifndef ATTN_REFERENCE_H
#define ATTN_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"
#include "reference/op.h"

/* Some units of an output (reference/op.h): those of these indices, ascending; NULL: all of them,
 * and count says how many that is. A count of 0 asks for none. */
struct ref_units {
    int64_t count;
    const int64_t *index;
};

/* How the inputs were made, where the bound may use it. */
enum ref_fill_kind {
    REF_FILL_GENERIC = 0,   /* continuous random values: the probabilistic constants apply */
    REF_FILL_STRUCTURED = 1 /* ties, constants, real data: the deterministic ones */
};

/* What is asked of the reference. */
struct ref_request {
    struct ref_units units[REF_OUTPUTS];  /* of outputs that lead; the others follow theirs */
    const struct attn_numerics *numerics; /* NULL: no bounds, and an empty row by the suite's rule;
                                             else bounds from what it declares, and its rule */
    enum ref_fill_kind fill;
    int threads; /* results do not depend on it */
};

/* Of one output, [units, width], the units in the order of the request, those that follow a unit
 * where it stands. `value` is unrounded, `bound` is E plus the rounding of the output type. A bound
 * of +inf where its value is finite says that nothing is known there: something on the way to it
 * may leave the range of a type that is declared. */
struct ref_values {
    double *value, *bound;
};

/* Each pointer may be NULL: not wanted. The caller owns all. The last two are given by operators
 * with a softmax, one entry for each requested row of one head, as lse has them. */
struct ref_result {
    struct ref_values output[REF_OUTPUTS];
    double *scores[3]; /* [rows, Sk] after: 0 raw * scale, 1 softcap, 2 bias. Computed for every
                          cell, allowed or not */
    int64_t *allowed;  /* [rows] keys that take part, after len, masks and -inf */
};

/* Asks for all units of all outputs; the rest of the request is left as it is. */
void ref_request_all(const struct attn_problem *problem, struct ref_request *request);

/* Units and width of one output of a problem, by its number; what a unit costs (ref_op.unit_cost).
 */
int64_t ref_output_units(const struct attn_problem *problem, int output);
int64_t ref_output_width(const struct attn_problem *problem, int output);
double ref_output_cost(const struct attn_problem *problem, int output);

/* Units of an output that a request gives; rows of one head that `scores` and `allowed` have, 0
 * without a softmax. */
int64_t ref_requested_units(const struct attn_problem *problem, const struct ref_request *request,
                            int output);
int64_t ref_requested_rows(const struct attn_problem *problem, const struct ref_request *request);

/* The unit that entry r of a request names. */
static inline int64_t ref_unit_number(const struct ref_units *units, int64_t r)
{
    return units->index ? units->index[r] : r;
}

/* The values of the output of a role; both NULL: the operator has none. */
struct ref_values ref_values_of(const struct attn_problem *problem, const struct ref_result *result,
                                uint32_t role);

/* Is cell (b, h, i, j) allowed by len, causal, window and boolean mask. Scores are not looked at.
 */
int ref_allowed(const struct attn_problem *problem, int64_t b, int64_t h, int64_t i, int64_t j);

/* Allowed (i, j) cells of all batches and query heads, by len, causal, window and boolean mask:
 * the nnz that FLOPs are counted from. Needs the data of LEN and MASK only. */
int64_t ref_count_allowed(const struct attn_problem *problem);

/* Computes what is asked. Returns ATTN_OK, ATTN_UNSUPPORTED (a problem outside the operators, or a
 * request outside the problem) or ATTN_OUT_OF_MEMORY, with a sentence in (why, size). Thread-safe.
 */
int ref_compute(const struct attn_problem *problem, const struct ref_request *request,
                struct ref_result *result, char *why, size_t size);

/* Checks that a problem is one of a known operator: known enumerations, shapes that agree, sizes
 * whose products fit, len in range. ATTN_OK, or ATTN_INVALID with the reason. Data is looked at
 * only for LEN. */
int ref_check_problem(const struct attn_problem *problem, char *why, size_t size);

#endif
