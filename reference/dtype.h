/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h - element types of the ABI: sizes, names, exact widening to double, rounding from it. */
#ifndef ATTN_REFERENCE_DTYPE_H
#define ATTN_REFERENCE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

static inline bool attn_dtype_is_float(uint32_t dtype)
{
    return dtype >= ATTN_F64 && dtype <= ATTN_BF16;
}

/* Bytes of one element; 0 for an unknown or reserved type. */
size_t attn_dtype_size(uint32_t dtype);

/* "f64" "f32" "f16" "bf16" "bool" "i32" "i64"; "?" for any other. */
const char *attn_dtype_name(uint32_t dtype);

/* Unit roundoff u of a floating type: half the distance from 1 to the next number above it. */
double attn_dtype_roundoff(uint32_t dtype);

/* Element `index` of `base` as a double, exactly (i64 beyond 2^53: nearest). bool gives 0 or 1. */
double attn_dtype_load(uint32_t dtype, const void *base, int64_t index);

/* Reads `count` elements, the first at `index`, the others `step` elements apart. */
void attn_dtype_load_many(uint32_t dtype, const void *base, int64_t index, int64_t step,
                          int64_t count, double *out);

/* Rounds to the nearest number of the type, ties to even. Overflow gives infinity; NaN stays a
 * quiet NaN. Rounds directly from double, never through f32. Integers truncate and saturate, and
 * store NaN as 0. bool stores value != 0. */
void attn_dtype_store(uint32_t dtype, void *base, int64_t index, double value);

/* Distance between the two numbers of a floating type that enclose |value|. Near 0 it is the least
 * subnormal; at and beyond overflow it is the spacing of the last finite binade. */
double attn_dtype_ulp(uint32_t dtype, double value);

/* Largest finite number, least normal number, least subnormal number of a floating type. */
double attn_dtype_max(uint32_t dtype);
double attn_dtype_min_normal(uint32_t dtype);
double attn_dtype_min_subnormal(uint32_t dtype);

#endif
