/* SPDX-License-Identifier: Apache-2.0 */
/* sums.h - weighted sums of the rows of a matrix, the main loop of the reference. */
#ifndef ATTN_REFERENCE_SUMS_H
#define ATTN_REFERENCE_SUMS_H

#include <stdint.h>

/* y_c += sum_i x_i a_ic for c in [0, width), i in [0, rows), in the order of i for every c. Row i
 * of a begins at a + i * stride, or at a + index[i] * stride if index is not NULL. Every sum equals
 * that of a plain loop over i, bit for bit, on every machine. y must not overlap the inputs. */
void ref_add_rows(const double *x, const double *a, int64_t stride, const int64_t *index,
                  int64_t rows, int64_t width, double *y);

/* The same with |x_i a_ic|. */
void ref_add_magnitudes(const double *x, const double *a, int64_t stride, const int64_t *index,
                        int64_t rows, int64_t width, double *y);

/* Copies rows [begin, end) of from [rows, columns] to columns of to [columns, rows], both dense. */
void ref_transpose(const double *from, int64_t rows, int64_t columns, int64_t begin, int64_t end,
                   double *to);

#endif
