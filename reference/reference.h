/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h - every operator in double precision, and the error bound of a backend. It depends
 * only on the ABI header. The derivation of the bound is in BOUND.md. */
#ifndef ATTN_REFERENCE_H
#define ATTN_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"
#include "reference/op.h"

/* Some units of an output (reference/op.h). `index` lists them in ascending order; NULL means all,
 * and count says how many that is. A count of 0 asks for none. */
struct ref_units {
    int64_t count;
    const int64_t *index;
};

/* How the inputs were made. The bound depends on it. */
enum ref_fill_kind {
    REF_FILL_GENERIC = 0,   /* continuous random values: the probabilistic constants apply */
    REF_FILL_STRUCTURED = 1 /* ties, constants, real data: deterministic constants */
};

/* What is asked of the reference. */
struct ref_request {
    struct ref_units units[REF_OUTPUTS];  /* of leading outputs; others follow their leader */
    const struct attn_numerics *numerics; /* what bounds and empty rows follow. NULL: no bounds,
                                             and the suite's rule for empty rows */
    enum ref_fill_kind fill;
    int threads; /* results do not depend on it */
    bool stored; /* the problem's outputs hold what a backend computed. With numerics, outputs with
                    several right values (ref_op.chosen) take those of them that are right */
    bool given;  /* inputs that follow from others (ref_op.derive) need not do so: gradients are of
                    the LSE and OUT that are given, unless numerics say that a backend has its own */
};

/* The values of one output, [units, width]. Units are in the order of the request; units of an
 * output that follows another are in the order of their leaders. `value` is unrounded. `bound` is E
 * plus the rounding of the output type. If the value is finite, a bound of +inf means that nothing
 * is known: a step on the way to it may leave the range of a declared type. */
struct ref_values {
    double *value, *bound;
};

/* Each pointer may be NULL: not wanted. The caller owns all. Only operators with a softmax fill
 * `scores` and `allowed`, with one entry for each requested row of one head, in the order of lse.
 */
struct ref_result {
    struct ref_values output[REF_OUTPUTS];
    double *scores[3]; /* [rows, Sk] after: 0 raw * scale, 1 softcap, 2 bias. Computed for every
                          cell, allowed or not */
    int64_t *allowed;  /* [rows] keys that take part, after len, masks and -inf */
    double *implied;   /* [units of OUT, Sk], filled by approximations of softmax attention: what
                          their formula multiplies each row of v by. May be negative */
};

/* Asks for all units of all outputs, and leaves the rest of the request unchanged. */
void ref_request_all(const struct attn_problem *problem, struct ref_request *request);

/* Number of units, width of a unit, and cost of a unit (ref_op.unit_cost) of output number
 * `output`.
 */
int64_t ref_output_units(const struct attn_problem *problem, int output);
int64_t ref_output_width(const struct attn_problem *problem, int output);
double ref_output_cost(const struct attn_problem *problem, int output);

/* ref_requested_units: units of an output that a request gives. ref_requested_rows: rows of one
 * head in `scores` and `allowed`; 0 without a softmax. */
int64_t ref_requested_units(const struct attn_problem *problem, const struct ref_request *request,
                            int output);
int64_t ref_requested_rows(const struct attn_problem *problem, const struct ref_request *request);

/* How many entries from *next on name units of this group, each group having `of_group` units in a
 * row. Moves *next past them. */
int64_t ref_units_take(const struct ref_units *units, int64_t of_group, int64_t group,
                       int64_t *next);

/* The unit that entry r of a request names. */
static inline int64_t ref_unit_number(const struct ref_units *units, int64_t r)
{
    return units->index ? units->index[r] : r;
}

/* The values of the output of a role. Both pointers are NULL if the operator has no such output. */
struct ref_values ref_values_of(const struct attn_problem *problem, const struct ref_result *result,
                                uint32_t role);

/* True if len, causal, window, dilation, global tokens and boolean mask allow cell (b, h, i, j).
 * Does not read scores. */
int ref_allowed(const struct attn_problem *problem, int64_t b, int64_t h, int64_t i, int64_t j);

/* Counts the (i, j) cells of all batches and query heads that ref_allowed allows: the nnz for
 * counting FLOPs. Row by row, not cell by cell. Reads only the data of LEN, GLOBAL, DILATION and
 * MASK. */
int64_t ref_count_allowed(const struct attn_problem *problem);

/* Is out the mean of v with the weights of a softmax? Not with another weight function, or a gate.
 */
bool ref_is_softmax(const struct attn_problem *problem);

/* Computes the request. Returns ATTN_OK, ATTN_UNSUPPORTED (a problem outside the operators, or a
 * request outside the problem) or ATTN_OUT_OF_MEMORY, with the reason in (why, size). Thread-safe.
 */
int ref_compute(const struct attn_problem *problem, const struct ref_request *request,
                struct ref_result *result, char *why, size_t size);

/* Checks a problem: a known operator, known enumerations, shapes that agree, sizes whose products
 * fit, lengths and dilations in range. Returns ATTN_OK, or ATTN_INVALID with the reason in (why,
 * size). Reads no data except that of LEN and DILATION. */
int ref_check_problem(const struct attn_problem *problem, char *why, size_t size);

#endif
