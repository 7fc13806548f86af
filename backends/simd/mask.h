/* SPDX-License-Identifier: Apache-2.0 */
/* mask.h - which keys a row may see: intervals from lengths, causal and window, boolean rows, and
 * the dropout decision. Plain C: these run once a row or a tile, never once a product. */
#ifndef ATTN_SIMD_MASK_H
#define ATTN_SIMD_MASK_H

#include "flash.h"

/* i + off of causal, window and ALiBi is i + attn_mask_offset(job, b). */
int64_t attn_mask_offset(const struct attn_flash *job, int64_t b);

/* Keys [*lo, *hi) that lengths, causal and window leave for query i; *lo == *hi == 0 for none. */
void attn_mask_interval(const struct attn_flash *job, int64_t b, int64_t i, int64_t *lo,
                        int64_t *hi);

/* First element of the row (b, h, i, 0) of a [B,Hq,Sq,Sk] operand, as an index. */
static inline int64_t attn_row_index(const struct attn_view *view, int64_t b, int64_t h, int64_t i)
{
    return b * view->stride[0] + h * view->stride[1] + i * view->stride[2];
}

/* Shrinks [*lo, *hi) at both ends to the outermost true cells of the boolean mask's row, so that
 * forbidden stretches are never computed; *lo == *hi where there is none. */
void attn_mask_tighten(const struct attn_flash *job, int64_t b, int64_t h, int64_t i, int64_t *lo,
                       int64_t *hi);

/* Dropout over keys [j0, j1) of a row whose weight of key j is p[j - j0]: kept weights are
 * multiplied by keep_by, dropped ones become -0.0, the mark of a cell that takes no part. */
void attn_dropout_row(const struct attn_flash *job, int64_t b, int64_t h, int64_t i, int64_t j0,
                      int64_t j1, float *p);

#endif
