/* SPDX-License-Identifier: Apache-2.0 */
/* bound_parts.h - what the files of the bound of one softmax row share; bound.h has what others
 * call.
 *
 * bound_row.c makes growth, upper and store of every key, with bound_roundings.c. For each column
 * of out bound_columns.c and bound_stored.c then add them up, and bound_out.c makes E of the sums.
 */
#ifndef ATTN_REFERENCE_BOUND_PARTS_H
#define ATTN_REFERENCE_BOUND_PARTS_H

#include <float.h>
#include <math.h>

#include "reference/job.h"

/* No addition of positive numbers gains more than its smaller operand: a sum of 1 may come to 2,
 * and a little more where sums of sums gain again. The log of that. */
#define REF_LOG_MOST_SUM 0.75

/* Columns whose sums over the keys are made at a time: a cache line. */
#define REF_BOUND_COLUMNS 8

/* R: a maximum that does not rise rescales nothing, if that is declared. */
static inline double ref_rescales(const struct ref_arithmetic *a, const struct ref_softmax *row)
{
    return row->rises > 0.0 ? fmin(row->rises, a->tiles) : a->tiles;
}

/* A quotient that overflows, or has nothing left below, stands for "no bound"; as a finite number
 * it still gives 0 where it multiplies an exact 0. */
static inline double ref_divide(double x, double by)
{
    double quotient = x / by;

    return quotient < DBL_MAX ? quotient : DBL_MAX;
}

/* bound_stored.c: orders the keys by bin of frac(log2 p): keys whose stored p round alike. A
 * counting sort. Without bins all are in one. Sets order and same of the scratch, and overwrites
 * magnitude. */
void ref_bound_order(const struct ref_arithmetic *a, const struct ref_softmax *row,
                     struct ref_scratch *scratch);

/* bound_stored.c: rho of every column, in column 3 of the scratch; 0 if p is not stored narrower.
 * Comes after ref_bound_order. */
void ref_bound_stored(const struct ref_arithmetic *a, const struct ref_softmax *row,
                      const struct ref_keys *keys, struct ref_scratch *scratch, const double *out);

/* bound_columns.c: E1, A and the sum of |v| of every column, in columns 0, 1 and 2 of the scratch;
 * the largest |v - ref| and |v|, in 4 and 5; the squares of errors of v that add in squares, in 6.
 * Sets rest and random of the scratch, if keys->v_spread. */
void ref_bound_columns(const struct ref_arithmetic *a, const struct ref_softmax *row,
                       const struct ref_row_bound *bound, const struct ref_keys *keys,
                       struct ref_scratch *scratch, const double *out);

#endif
