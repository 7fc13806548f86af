/* SPDX-License-Identifier: Apache-2.0 */
/* rows_template.h - rows of operands as arrays of REAL, whatever their type and stride.
 *
 * Template parameters, defined by the instance before it includes this file:
 *   REAL          float or double: the type of all sums
 *   REAL_DTYPE    ATTN_F32 or ATTN_F64
 *   NAME(stem)    stem with the instance's suffix
 *   EXP TANH LOG ERFC  libm's functions of that type */
#include <stdint.h>
#include <string.h>

#include "naive.h"

/* Converts n elements, beginning at element `at`. */
static void load(REAL *restrict to, const struct attn_tensor *view, int64_t at, int64_t stride,
                 int64_t n)
{
    switch (view->dtype) {
    case ATTN_F64: {
        const double *restrict from = (const double *)view->data + at;
        for (int64_t c = 0; c < n; c++)
            to[c] = (REAL)from[c * stride];
        break;
    }
    case ATTN_F32: {
        const float *restrict from = (const float *)view->data + at;
        for (int64_t c = 0; c < n; c++)
            to[c] = (REAL)from[c * stride];
        break;
    }
    case ATTN_F16: {
        const uint16_t *restrict from = (const uint16_t *)view->data + at;
        for (int64_t c = 0; c < n; c++)
            to[c] = (REAL)attn_f32_of_f16(from[c * stride]);
        break;
    }
    default: {
        const uint16_t *restrict from = (const uint16_t *)view->data + at;
        for (int64_t c = 0; c < n; c++)
            to[c] = (REAL)attn_f32_of_bf16(from[c * stride]);
        break;
    }
    }
}

/* The row itself if it is already an array of REAL, else its conversion in `buffer`. */
static const REAL *row(const struct attn_tensor *view, int64_t at, int64_t stride, int64_t n,
                       REAL *buffer)
{
    if (view->dtype == REAL_DTYPE && stride == 1)
        return (const REAL *)view->data + at;
    load(buffer, view, at, stride, n);
    return buffer;
}

/* Rounds n numbers once, to the operand's type. double is rounded only to f64 and f32; see
 * supports.
 */
static void store(const struct attn_tensor *view, int64_t at, int64_t stride, int64_t n,
                  const REAL *restrict from)
{
    switch (view->dtype) {
    case ATTN_F64: {
        double *to = (double *)view->data + at;
        for (int64_t c = 0; c < n; c++)
            to[c * stride] = (double)from[c];
        break;
    }
    case ATTN_F32: {
        float *to = (float *)view->data + at;
        for (int64_t c = 0; c < n; c++)
            to[c * stride] = (float)from[c];
        break;
    }
    case ATTN_F16: {
        uint16_t *to = (uint16_t *)view->data + at;
        for (int64_t c = 0; c < n; c++)
            to[c * stride] = attn_f16_of_f32((float)from[c]);
        break;
    }
    default: {
        uint16_t *to = (uint16_t *)view->data + at;
        for (int64_t c = 0; c < n; c++)
            to[c * stride] = attn_bf16_of_f32((float)from[c]);
        break;
    }
    }
}

/* Eight partial sums, an order of additions that the compiler may keep in vector registers. */
static REAL dot(const REAL *restrict x, const REAL *restrict y, int64_t n)
{
    REAL lane[8] = {0};
    int64_t c = 0;
    for (; c + 8 <= n; c += 8)
        for (int l = 0; l < 8; l++)
            lane[l] += x[c + l] * y[c + l];
    REAL sum =
        ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    for (; c < n; c++)
        sum += x[c] * y[c];
    return sum;
}

static REAL squared_distance(const REAL *restrict x, const REAL *restrict y, int64_t n)
{
    REAL lane[8] = {0};
    int64_t c = 0;
    for (; c + 8 <= n; c += 8)
        for (int l = 0; l < 8; l++) {
            REAL difference = x[c + l] - y[c + l];
            lane[l] += difference * difference;
        }
    REAL sum =
        ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    for (; c < n; c++)
        sum += (x[c] - y[c]) * (x[c] - y[c]);
    return sum;
}

/* to += factor * x */
static void add_scaled(REAL *restrict to, REAL factor, const REAL *restrict x, int64_t n)
{
    for (int64_t c = 0; c < n; c++)
        to[c] += factor * x[c];
}

/* The next piece of the workspace: rows * columns elements from *used on, on its own cache line.
 * With base NULL it only counts. *used becomes SIZE_MAX on overflow. */
static void *take(char *base, size_t *used, int64_t rows, int64_t columns, size_t element)
{
    size_t bytes, at = *used;
    if (at == SIZE_MAX || __builtin_mul_overflow((uint64_t)rows, (uint64_t)columns, &bytes) ||
        __builtin_mul_overflow(bytes, element, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)63, &bytes) ||
        __builtin_add_overflow(at, bytes & ~(size_t)63, used)) {
        *used = SIZE_MAX;
        return NULL;
    }
    return base ? base + at : NULL;
}
