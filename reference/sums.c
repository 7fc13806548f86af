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

/* y += x[0] a[0] + ... + x[3] a[3] */
static inline __attribute__((always_inline)) void
add_four(const double *x, const double *restrict a0, const double *restrict a1,
         const double *restrict a2, const double *restrict a3, int64_t width, double *restrict y,
         bool magnitude)
{
    const double x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];

    for (int64_t c = 0; c < width; c++) {
        double sum = y[c] + term(x0, a0[c], magnitude);
        sum += term(x1, a1[c], magnitude);
        sum += term(x2, a2[c], magnitude);
        y[c] = sum + term(x3, a3[c], magnitude);
    }
}

static inline __attribute__((always_inline)) void add_rows(const double *x, const double *a,
                                                           int64_t stride, const int64_t *index,
                                                           int64_t rows, int64_t width,
                                                           double *restrict y, bool magnitude)
{
    int64_t i = 0;

    for (; i + 4 <= rows; i += 4) {
        int64_t at[4] = {i, i + 1, i + 2, i + 3};
        for (int r = 0; index && r < 4; r++)
            at[r] = index[i + r];
        add_four(x + i, a + at[0] * stride, a + at[1] * stride, a + at[2] * stride,
                 a + at[3] * stride, width, y, magnitude);
    }
    for (; i < rows; i++) {
        const double *restrict row = a + (index ? index[i] : i) * stride;
        const double xi = x[i];
        for (int64_t c = 0; c < width; c++)
            y[c] += term(xi, row[c], magnitude);
    }
}

ATTN_CLONES("avx2", "avx512f")
void ref_add_rows(const double *x, const double *a, int64_t stride, const int64_t *index,
                  int64_t rows, int64_t width, double *y)
{
    for (int64_t c = 0; c < width; c += COLUMNS)
        add_rows(x, a + c, stride, index, rows, width - c < COLUMNS ? width - c : COLUMNS, y + c,
                 false);
}

ATTN_CLONES("avx2", "avx512f")
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
