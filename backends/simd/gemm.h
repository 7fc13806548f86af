/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h - y = x w^T + bias in f32, what the projections of multi-head attention are: weights
 * packed once, rows of x packed as they are met.
 *
 * Letters: r row of all batches together, e inner, o column of y. The inner extent is cut into
 * about equal parts of at most ATTN_GEMM_DEPTH. */
#ifndef ATTN_SIMD_GEMM_H
#define ATTN_SIMD_GEMM_H

#include "flash_f32.h"

/* A block of packed weights, depth x columns, takes 256 KiB: a quarter of the second-level cache of
 * the CPUs this is for. It serves up to ATTN_GEMM_ROWS packed rows of x (192 KiB) beside it. */
#define ATTN_GEMM_DEPTH   256
#define ATTN_GEMM_COLUMNS 256
#define ATTN_GEMM_ROWS    192

/* Floats of working memory of a thread: rows of x whose columns are not next to each other, and the
 * products of one row group. */
#define ATTN_GEMM_X       (8 * ATTN_GEMM_DEPTH)
#define ATTN_GEMM_SCRATCH (ATTN_GEMM_X + 8 * ATTN_FLASH_SCORE_STRIDE)

struct attn_gemm {
    int64_t rows, batch_rows;   /* of all batches together, and of one */
    int64_t inner, columns;     /* inner at least 1 */
    struct attn_view x, y, add; /* [B,S,inner], [B,S,columns] twice; add, without data: none, joins
                                   y last */
    const float *packed;        /* see attn_gemm_pack */
};

/* What one thread computes of y. */
struct attn_gemm_part {
    int64_t r0, r1, o0, o1; /* o0: a multiple of nr */
};

/* Depth of the parts of the inner extent; the last one may have less. */
static inline int64_t attn_gemm_depth(int64_t inner)
{
    int64_t parts = (inner + ATTN_GEMM_DEPTH - 1) / ATTN_GEMM_DEPTH;
    return (inner + parts - 1) / parts;
}

/* Floats of packed weights with their bias; -1 on overflow. */
int64_t attn_gemm_packed(int64_t columns, int64_t inner, int nr);

/* Packs w [columns,inner] of any strides and bias [columns] (NULL: zeros), columns rounded up to nr
 * with zeros: part after part of the inner extent as [columns/nr][depth][nr], then the bias.
 * `to` is aligned to 64 bytes. */
void attn_gemm_pack(const struct attn_tensor *w, const struct attn_tensor *bias, int nr, float *to);

/* The share of one of `threads` threads: of the rows or of the columns, whichever are more, in
 * units of the micro-kernel. */
struct attn_gemm_part attn_gemm_share(const struct attn_gemm *job, const struct attn_flash_isa *isa,
                                      int thread, int threads);

#endif
