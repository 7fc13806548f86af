/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_block.h - part of gemm_template.h: a block of y, and rows of x, y and what is added. */
#include "gemm.h"

struct gemm_block {
    int64_t r0, r1, o0, columns; /* of y */
    int64_t e0, depth;           /* a part of the inner extent */
    bool last;                   /* of the parts */
};

/* Index of element [r][column] of x, y or add. */
static int64_t gemm_index(const struct attn_gemm *job, const struct attn_view *view, int64_t r,
                          int64_t column)
{
    return r / job->batch_rows * view->stride[0] + r % job->batch_rows * view->stride[1] +
           column * view->stride[2];
}

/* `count` elements of a row from `column` on as floats, and zeros up to a whole vector. */
static void gemm_read(const struct attn_gemm *job, const struct attn_view *view, int64_t r,
                      int64_t column, int64_t count, float *to)
{
    widen(view, gemm_index(job, view, r, column), view->stride[2], count, to);
}
