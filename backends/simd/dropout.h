/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.h - dropout of a row of weights. Plain C: vectors have no fast product of 64 bits. */
#ifndef ATTN_SIMD_DROPOUT_H
#define ATTN_SIMD_DROPOUT_H

#include "flash.h"

/* Of the weights p[key - keys.first] of row (b,h,i), those that are kept are multiplied by keep_by.
 * The others become -0.0, the mark of a cell that takes no part. */
void attn_dropout_row(const struct attn_flash *job, int64_t b, int64_t h, int64_t i,
                      struct attn_keys keys, float *p);

#endif
