/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h - the whole operator in double precision, and the error bound of a backend next to
 * it. Depends on nothing but the ABI header. The derivation of the bound is in BOUND.md. */
#ifndef ATTN_REFERENCE_H
#define ATTN_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* Which rows to compute. For attention a row is [b,h,i], index (b*Hq + h)*Sq + i; for mha it is
 * [b,i], index b*Sq + i. */
struct ref_rows {
    int64_t count;
    const int64_t *index; /* ascending; NULL: all rows, count must then be ref_row_count() */
};

/* How the inputs were made, where the bound may use it. */
enum ref_fill_kind {
    REF_FILL_GENERIC = 0,   /* continuous random values: the probabilistic constants apply */
    REF_FILL_STRUCTURED = 1 /* ties, constants, real data: the deterministic ones */
};

/* Results, one entry a requested row, in the order of the request. A bound of +inf where its result
 * is finite says that nothing is known there: something on the way to it may leave the range of a
 * type that is declared. Each pointer may be NULL: not wanted. The caller owns all. W is the width
 * of out (Dv, or Eo for mha); H is 1 for attention (a row is one head) and Hq for mha. */
struct ref_result {
    double *out;           /* [rows, W] unrounded */
    double *out_bound;     /* [rows, W] E plus the rounding of the output type */
    double *lse;           /* [rows, H] */
    double *lse_bound;     /* [rows, H] */
    double *weights;       /* [rows, H, Sk] */
    double *weights_bound; /* [rows, H, Sk] */
    double *scores[3];     /* [rows, H, Sk] after: 0 raw * scale, 1 softcap, 2 bias. Computed for
                              every cell, allowed or not */
    int64_t *allowed;      /* [rows, H] keys that take part, after len, masks and -inf */
};

/* Rows of a problem, and width W of one row of out. */
int64_t ref_row_count(const struct attn_problem *problem);
int64_t ref_row_width(const struct attn_problem *problem);

/* Is cell (b, h, i, j) allowed by len, causal, window and boolean mask. Scores are not looked at.
 */
int ref_allowed(const struct attn_problem *problem, int64_t b, int64_t h, int64_t i, int64_t j);

/* Allowed (i, j) cells of all batches and query heads, by len, causal, window and boolean mask:
 * the nnz that FLOPs are counted from. Needs the data of LEN and MASK only. */
int64_t ref_count_allowed(const struct attn_problem *problem);

/* Approximate multiply-adds that one row costs with bounds, to choose how many rows to take. */
double ref_row_cost(const struct attn_problem *problem);

/* Computes the rows. `numerics` NULL: no bounds are computed, and an empty row follows the suite's
 * rule; otherwise the bound pointers are filled from what it declares, and an empty row follows the
 * rule it declares. Returns ATTN_OK, ATTN_UNSUPPORTED (a problem outside the operator) or
 * ATTN_OUT_OF_MEMORY, with a sentence in (why, size). Thread-safe; results do not depend on
 * `threads`. */
int ref_compute(const struct attn_problem *problem, const struct ref_rows *rows,
                const struct attn_numerics *numerics, enum ref_fill_kind fill, int threads,
                struct ref_result *result, char *why, size_t size);

/* Checks that a problem is one of this operator: known enumerations, shapes that agree, sizes whose
 * products fit, len in range. ATTN_OK, or ATTN_INVALID with the reason. Data is looked at only for
 * LEN. */
int ref_check_problem(const struct attn_problem *problem, char *why, size_t size);

#endif
