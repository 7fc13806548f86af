/* SPDX-License-Identifier: Apache-2.0 */
/* blas.h - what the files of the blas backend share: operands, masks, and the two instances. */
#ifndef ATTN_BLAS_H
#define ATTN_BLAS_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

#define ATTN_BLAS_RANK  4 /* largest rank of any role this backend knows */
#define ATTN_BLAS_ROLES (ATTN_B_O + 1)

/* One operand. dtype 0: the problem has no tensor of this role. */
struct attn_blas_view {
    char *data;
    uint32_t dtype;
    uint32_t rank;
    int64_t shape[ATTN_BLAS_RANK];
    int64_t stride[ATTN_BLAS_RANK]; /* in elements */
};

/* All operands, indexed by role. */
struct attn_blas_operands {
    struct attn_blas_view view[ATTN_BLAS_ROLES];
};

/* A plan's choices that the kernels need. */
struct attn_blas_setup {
    const struct attn_problem *problem;
    int64_t rows; /* rows of a block of scores, at most */
    int by_head;  /* the rows are the heads of a group, with one query each; else queries of a head
                   */
    int by_norms; /* gaussian: |q-k|^2 from q.k and norms */
    int copies_out; /* the output projection goes through a buffer */
};

/* How a matrix of rows x columns lies in memory, in BLAS's terms. */
struct attn_blas_matrix {
    int transposed; /* columns are contiguous, not rows */
    int ld;         /* leading dimension */
};

/* 0, or -1 where BLAS can not take a matrix of these strides, or its sizes overflow an int. */
int attn_blas_matrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                     struct attn_blas_matrix *matrix);

/* Operands that are factors of a matrix product, seen from axis `row` on. */
#define ATTN_BLAS_FACTORS 13
struct attn_blas_factor {
    uint32_t role, row;
    const char *name;
};
extern const struct attn_blas_factor attn_blas_factors[ATTN_BLAS_FACTORS];

/* Does a plan copy this operand in each run: it is there, and BLAS can not take its strides, or it
 * has another type than q. */
int attn_blas_copied(const struct attn_problem *problem, const struct attn_blas_factor *factor);

/* Does the output projection of a plan go through a buffer. */
int attn_blas_copies_out(const struct attn_problem *problem);

/* ", copies q, k" with the names of what is copied, out included; nothing where nothing is. */
void attn_blas_describe_copies(const struct attn_problem *problem, char *text, size_t size);

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason: the checklist of backends/README.md. */
int attn_blas_supports(const struct attn_problem *problem, const struct attn_services *services,
                       char *why, size_t size);

/* Keys that len, causal and window leave to a query: first <= j < last. */
struct attn_blas_range {
    int64_t first, last;
};

/* The offset that causal, window and alibi use in batch b. */
int64_t attn_blas_offset(const struct attn_problem *problem,
                         const struct attn_blas_operands *operands, int64_t b);

struct attn_blas_range attn_blas_keys(const struct attn_problem *problem,
                                      const struct attn_blas_operands *operands, int64_t b,
                                      int64_t i);

/* Does dropout keep the weight of cell [b,h,i,j]. Source of Philox4x32-10: Salmon, Moraes, Dror,
 * Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
int attn_blas_kept(const struct attn_problem *problem, const struct attn_blas_operands *operands,
                   int64_t b, int64_t h, int64_t i, int64_t j);

/* exp of x <= 0 (or NaN) as the f32 softmax computes it: within ATTN_BLAS_E_EXP relative where the
 * result is a normal number, 0 below that. Exported for its test. */
#define ATTN_BLAS_E_EXP 0x1p-22
float attn_blas_exp(float x);

/* tanh as softcap and additive scores compute it in f32: within ATTN_BLAS_E_TANH relative, NaN for
 * NaN. Exported for its test. */
#define ATTN_BLAS_E_TANH 0x1p-22
float attn_blas_tanh(float x);

/* y [rows,width] dense = x w^T + bias for batch b of x [B,rows,inner], w [width,inner]; dtype 0: no
 * bias. Exported for the test of its speed. */
void attn_blas_project_f32(const struct attn_blas_view *x, int64_t b,
                           const struct attn_blas_view *w, const struct attn_blas_view *bias,
                           float *y);
void attn_blas_project_f64(const struct attn_blas_view *x, int64_t b,
                           const struct attn_blas_view *w, const struct attn_blas_view *bias,
                           double *y);

/* The operator over sgemm and dgemm. `bytes` is the workspace that `run` needs, aligned to 64;
 * SIZE_MAX when that overflows. */
size_t attn_blas_bytes_f32(const struct attn_blas_setup *setup);
size_t attn_blas_bytes_f64(const struct attn_blas_setup *setup);
void attn_blas_run_f32(const struct attn_blas_setup *setup,
                       const struct attn_blas_operands *operands, void *workspace);
void attn_blas_run_f64(const struct attn_blas_setup *setup,
                       const struct attn_blas_operands *operands, void *workspace);

#endif
