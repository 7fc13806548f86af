/* SPDX-License-Identifier: Apache-2.0 */
/* sums.c - weighed sums of rows. The compiler vectorises along the columns, so that no sum is ever
 * reordered; rows go four at a time, so that y is read and written once for four of them. */
#include "reference/sums.h"

#include <math.h>
#include <stdbool.h>

#include "reference/clones.h"

/* Columns whose y stays in the first-level cache while all rows pass. */
#define COLUMNS 512
/* Doubles of a cache line: what is transposed at a time, so that whole lines are written. */
#define LINE 8

static inline __attribute__((always_inline)) double term(double x, double a, bool magnitude)
{
    return magnitude ? fabs(x * a) : x * a;
}

static inline __attribute__((always_inline)) void add_rows(const double *x, const double *a,
                                                           int64_t stride, const int64_t *index,
                                                           int64_t rows, int64_t width,
                                                           double *restrict y, bool magnitude)
{
    int64_t i = 0;

    for (; i + 4 <= rows; i += 4) {
        const double *a0 = a + (index ? index[i] : i) * stride;
        const double *a1 = a + (index ? index[i + 1] : i + 1) * stride;
        const double *a2 = a + (index ? index[i + 2] : i + 2) * stride;
        const double *a3 = a + (index ? index[i + 3] : i + 3) * stride;
        for (int64_t c = 0; c < width; c++) {
            double sum = y[c] + term(x[i], a0[c], magnitude);
            sum += term(x[i + 1], a1[c], magnitude);
            sum += term(x[i + 2], a2[c], magnitude);
            y[c] = sum + term(x[i + 3], a3[c], magnitude);
        }
    }
    for (; i < rows; i++) {
        const double *row = a + (index ? index[i] : i) * stride;
        for (int64_t c = 0; c < width; c++)
            y[c] += term(x[i], row[c], magnitude);
    }
}

ATTN_CLONES("avx2")
void ref_add_rows(const double *x, const double *a, int64_t stride, const int64_t *index,
                  int64_t rows, int64_t width, double *y)
{
    for (int64_t c = 0; c < width; c += COLUMNS)
        add_rows(x, a + c, stride, index, rows, width - c < COLUMNS ? width - c : COLUMNS, y + c,
                 false);
}

ATTN_CLONES("avx2")
void ref_add_magnitudes(const double *x, const double *a, int64_t stride, const int64_t *index,
                        int64_t rows, int64_t width, double *y)
{
    for (int64_t c = 0; c < width; c += COLUMNS)
        add_rows(x, a + c, stride, index, rows, width - c < COLUMNS ? width - c : COLUMNS, y + c,
                 true);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void ref_transpose(const double *from, int64_t rows, int64_t columns, int64_t begin, int64_t end,
                   double *to)
{
    for (int64_t r = begin; r < end; r += LINE)
        for (int64_t c = 0; c < columns; c += LINE)
            for (int64_t x = c; x < smaller(c + LINE, columns); x++)
                for (int64_t y = r; y < smaller(r + LINE, end); y++)
                    to[x * rows + y] = from[y * columns + x];
}
