/* SPDX-License-Identifier: Apache-2.0 */
/* element.c - class first, then error against bound. */
#include "judge/element.h"

#include <math.h>

#include "attnbench/backend.h"
#include "reference/dtype.h"

double attn_element_ratio(double got, double want, double bound, double threshold)
{
    if (isnan(want))
        return isnan(got) ? 0 : INFINITY;
    if (isinf(want)) /* an infinite bound: its key's weight may underflow, and 0 * Inf is NaN */
        return got == want || (isnan(got) && isinf(bound)) ? 0 : INFINITY;
    if (isnan(got))
        return INFINITY;
    if (isinf(got))
        return copysign(1, got) * want + bound >= threshold ? 0 : INFINITY;
    if (fabs(want) - bound >= threshold)
        return INFINITY;
    double error = fabs(got - want);
    if (error == 0)
        return 0;
    return bound > 0 ? error / bound : INFINITY;
}

double attn_overflow_threshold(uint32_t dtype)
{
    if (dtype != ATTN_F32 && dtype != ATTN_F16 && dtype != ATTN_BF16)
        return INFINITY; /* got and want are doubles, and integers have no Inf */
    double largest = attn_dtype_max(dtype);
    return largest + attn_dtype_ulp(dtype, largest) / 2;
}

double attn_median_of(double *values, int64_t count)
{
    const int64_t middle = count / 2;
    int64_t first = 0, last = count - 1;
    while (first < last) {
        /* Equal values go to either side, so that many of them cost no more than different ones. */
        const double pivot = values[first + (last - first) / 2];
        int64_t i = first, j = last;
        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i <= j) {
                const double value = values[i];
                values[i++] = values[j];
                values[j--] = value;
            }
        }
        if (middle <= j)
            last = j;
        else if (middle >= i)
            first = i;
        else
            break;
    }
    return count > 0 ? values[middle] : 0;
}
