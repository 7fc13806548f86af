/* SPDX-License-Identifier: Apache-2.0 */
/* diagnose.h - what a fill made on purpose proves beyond the bound, said in words. */
#ifndef ATTN_DIAGNOSE_H
#define ATTN_DIAGNOSE_H

#include "judge/judge.h"
#include "reference/reference.h"

/* Looks at the outputs in the instance's memory with what the fill of its case knows: census counts
 * keys, exact knows the bits, one_hot the row of v, rounding the mean error. `rows` and `ref` are
 * those of the verdict. A verdict that held fails where the fill says so; one that failed gets the
 * fill's sentence in front of its reason. Other fills: nothing. */
void attn_diagnose(const struct attn_instance *instance, const struct attn_numerics *numerics,
                   const struct ref_rows *rows, const struct ref_result *ref,
                   struct attn_judgement *verdict);

/* What fill=exact knows: the mean of v in a row [b,h,i], to the bit, into mean [Dv]. False: nothing
 * is known of that row. */
bool attn_exact_row(const struct attn_instance *instance, int64_t row, double *mean);

/* What fill=rounding knows: the mean of (out - right) / (unit |right|), over all columns of the
 * rows of which attn_rounding_counts, stays within ATTN_ROUNDING_MOST where roundings are to
 * nearest. Correct kernels stay within 0.03; truncation of p shows as -0.7, of out as -0.5 to -1.
 * Unit 0: nothing is known. `keys` of a row are allowed, `first` is the right answer in its first
 * column. */
#define ATTN_ROUNDING_MOST 0.2
double attn_rounding_unit(const struct attn_instance *instance,
                          const struct attn_numerics *numerics);
bool attn_rounding_counts(int64_t keys, double first);

#endif
