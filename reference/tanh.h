/* SPDX-License-Identifier: Apache-2.0 */
/* tanh.h - tanh of many doubles: additive scores take one a hidden unit and cell. */
#ifndef ATTN_REFERENCE_TANH_H
#define ATTN_REFERENCE_TANH_H

#include <stdint.h>

/* y_j = tanh(x_j), to within 2 ulp, as the C library's; NaN and infinities, signed zeros and
 * subnormals as there. The same bits on every machine. y may be x. */
void ref_tanh(const double *x, int64_t count, double *y);

#endif
