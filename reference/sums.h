/* SPDX-License-Identifier: Apache-2.0 */
/* sums.h - the loop that most of the reference is: rows of a matrix, weighed and added up. */
#ifndef ATTN_REFERENCE_SUMS_H
#define ATTN_REFERENCE_SUMS_H

#include <stdint.h>

/* y_c += sum_i x_i a_ic for c in [0, width), i in [0, rows), in the order of i for every c. Row i
 * of a begins at a + i * stride, or at a + index[i] * stride where index is not NULL. Every sum is
 * made as a plain loop over i makes it, bit for bit, on every machine. y overlaps nothing else. */
void ref_add_rows(const double *x, const double *a, int64_t stride, const int64_t *index,
                  int64_t rows, int64_t width, double *y);

/* The same with |x_i a_ic|. */
void ref_add_magnitudes(const double *x, const double *a, int64_t stride, const int64_t *index,
                        int64_t rows, int64_t width, double *y);

/* Rows [begin, end) of from [rows, columns] become columns of to [columns, rows], both dense. */
void ref_transpose(const double *from, int64_t rows, int64_t columns, int64_t begin, int64_t end,
                   double *to);

#endif
