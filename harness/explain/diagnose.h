/* SPDX-License-Identifier: Apache-2.0 */
/* diagnose.h - says in words what an adversarial fill proves beyond the bound. */
#ifndef ATTN_DIAGNOSE_H
#define ATTN_DIAGNOSE_H

#include "judge/judge.h"
#include "reference/reference.h"

/* Checks the outputs in the instance's memory with what the fill of its case knows: census counts
 * keys, exact knows the bits, one_hot the row of v, rounding the mean error. `request` and `ref`
 * are those of the verdict. A pass becomes a failure if the fill finds a fault. A failure gets the
 * fill's sentence in front of its reason. Does nothing for other fills. */
void attn_diagnose(const struct attn_instance *instance, const struct ref_request *request,
                   const struct ref_result *ref, struct attn_judgement *verdict);

/* fill=exact: writes the mean of v in a row [b,h,i], exact to the bit, into mean [Dv]. False:
 * nothing is known about that row. */
bool attn_exact_row(const struct attn_instance *instance, int64_t row, double *mean);

/* fill=rounding: if all rounding is to nearest, the mean of (out - right) / (unit |right|) stays
 * within ATTN_ROUNDING_MOST. The mean is over all columns of the rows for which
 * attn_rounding_counts is true. Correct kernels stay within 0.03; truncation of p shows as -0.7, of
 * out as -0.5 to -1. A unit of 0: nothing is known. `keys` is the number of allowed keys of a row,
 * `first` the right answer in its first column. */
#define ATTN_ROUNDING_MOST 0.2
double attn_rounding_unit(const struct attn_instance *instance,
                          const struct attn_numerics *numerics);
bool attn_rounding_counts(int64_t keys, double first);

/* Do sums hold whole numbers with these numerics, so that census and exact may be counted? */
bool attn_diagnose_counts(const struct attn_problem *problem, const struct attn_numerics *numerics);

#endif
