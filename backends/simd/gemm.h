/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h - y = x w^T + bias: the projections of multi-head attention. Weights are packed once. Rows
 * of x are read in place, or copied a few at a time. Sums are f32.
 *
 * Letters: r row of all batches together, e inner, o column of y. The inner extent is cut into
 * parts of about equal size. A thread sums a block of ATTN_GEMM_ROWS x ATTN_GEMM_COLUMNS of y over
 * all parts before it goes on. */
#ifndef ATTN_SIMD_GEMM_H
#define ATTN_SIMD_GEMM_H

#include "flash.h"

/* A block of weights, part x columns, takes 256 KiB, a quarter of the second-level cache of the
 * CPUs this is for (128 KiB with 16 bits and no pairs). It serves up to ATTN_GEMM_ROWS rows of x,
 * which take another 192 KiB. */
#define ATTN_GEMM_DEPTH   256
#define ATTN_GEMM_COLUMNS 256
#define ATTN_GEMM_ROWS    192

/* Most rows of a group: those of a block of AMX tiles. */
#define ATTN_GEMM_GROUP 32

/* Floats between two rows of sums: more than a power of two, as in ATTN_FLASH_SCORE_STRIDE. */
#define ATTN_GEMM_SUM_STRIDE (ATTN_GEMM_COLUMNS + 16)

/* Working memory of a thread, aligned to 64 bytes. */
struct attn_gemm_scratch {
    float x[ATTN_GEMM_GROUP * ATTN_GEMM_DEPTH];         /* rows of x that are not read in place */
    float s[ATTN_GEMM_GROUP * ATTN_FLASH_SCORE_STRIDE]; /* products of one row group */
    float add[ATTN_GEMM_COLUMNS];                       /* a row that joins y */
    float y[ATTN_GEMM_ROWS * ATTN_GEMM_SUM_STRIDE];     /* sums of a block if y has 16 bits */
};

/* The layout of packed weights for an instance: panels of nr columns, `pair` elements of the inner
 * extent side by side, which is rounded up to `step`. pair is 2 if the product takes pairs of bf16,
 * else 1. */
struct attn_gemm_layout {
    uint32_t dtype;
    int nr, pair, step;
};

static inline struct attn_gemm_layout attn_gemm_layout(const struct attn_flash_isa *isa,
                                                       uint32_t dtype)
{
    return (struct attn_gemm_layout){
        .dtype = dtype, .nr = isa->nr, .pair = isa->step > 1 ? 2 : 1, .step = isa->step};
}

struct attn_gemm {
    int64_t rows, batch_rows;     /* of all batches together, and of one */
    int64_t inner, columns;       /* inner at least 1 */
    struct attn_tensor x, y, add; /* [B,S,inner], [B,S,columns] twice; add, without data: none,
                                   joins y last */
    struct attn_gemm_layout layout;
    const void *packed; /* by attn_gemm_pack; NULL: y is x + add, with the columns of x */
    const float *bias;  /* columns rounded up to nr */
};

/* What one thread computes of y. */
struct attn_gemm_part {
    int64_t r0, r1, o0, o1; /* o0: a multiple of nr */
};

/* Size of the parts of the inner extent, a multiple of `step`: 1 for floats, else that of pairs.
 * The last part may be smaller. */
static inline int64_t attn_gemm_depth(int64_t inner, int step)
{
    /* an element of a pair takes half the room of a float */
    const int64_t most = ATTN_GEMM_DEPTH * (step > 1 ? 2 : 1), parts = (inner + most - 1) / most;
    return attn_round_up((inner + parts - 1) / parts, step);
}

/* Bytes of packed weights, and of their bias, rounded up to 64. -1 on overflow. */
int64_t attn_gemm_packed(const struct attn_gemm_layout *layout, int64_t columns, int64_t inner);
int64_t attn_gemm_biases(const struct attn_gemm_layout *layout, int64_t columns);

/* Packs w [columns,inner] of any strides, part after part of the inner extent, each as
 * [columns/nr][depth/pair][nr][pair]. Zeros round columns up to nr and the inner extent to `step`.
 * Elements keep their type. */
void attn_gemm_pack(const struct attn_gemm_layout *layout, const struct attn_tensor *w, void *to);

/* Bias [columns] as f32, with zeros up to a multiple of nr. dtype 0: all zeros. */
void attn_gemm_pack_bias(const struct attn_gemm_layout *layout, const struct attn_tensor *bias,
                         int64_t columns, float *to);

/* The share of one of `threads` threads: rows or columns, whichever are more, in units of the
 * micro-kernel. */
struct attn_gemm_part attn_gemm_share(const struct attn_gemm *job, const struct attn_flash_isa *isa,
                                      int thread, int threads);

#endif
