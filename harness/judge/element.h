/* SPDX-License-Identifier: Apache-2.0 */
/* element.h - error over bound of one element. Private to this folder. */
#ifndef ATTN_ELEMENT_H
#define ATTN_ELEMENT_H

#include <stdint.h>

/* The error of one element over its bound: > 1 or infinite fails. From `threshold` on the type
 * overflows. */
double attn_element_ratio(double got, double want, double bound, double threshold);

/* The threshold of a type. */
double attn_overflow_threshold(uint32_t dtype);

/* The element that sorting would put at count / 2; 0 if there is none. Reorders the values, none of
 * which is NaN, in linear time. */
double attn_median_of(double *values, int64_t count);

#endif
