/* SPDX-License-Identifier: Apache-2.0 */
/* blas.h - what the files of the blas backend share: limits, layout, and the two instances. */
#ifndef ATTN_BLAS_H
#define ATTN_BLAS_H

#include "attnbench/problem.h"

/* A plan's choices that the kernels need. */
struct attn_blas_setup {
    const struct attn_problem *problem;
    int64_t rows;   /* largest number of rows in a block of scores */
    int by_head;    /* rows are the heads of a group, one query each; else queries of one head */
    int by_norms;   /* gaussian: |q-k|^2 from q.k and norms */
    int copies_out; /* the output projection goes through a buffer */
};

/* How a matrix of rows x columns lies in memory, in terms of BLAS. */
struct attn_blas_matrix {
    int transposed; /* columns are contiguous, not rows */
    int ld;         /* leading dimension */
};

/* 0, or -1 if BLAS cannot use a matrix of these strides or its sizes overflow an int. */
int attn_blas_matrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                     struct attn_blas_matrix *matrix);

/* Operands that are factors of a matrix product; the matrix begins at axis `row`. */
#define ATTN_BLAS_FACTORS 14
struct attn_blas_factor {
    uint32_t role, row;
    const char *name;
};
extern const struct attn_blas_factor attn_blas_factors[ATTN_BLAS_FACTORS];

/* Does a plan copy this operand in each run. It does if the operand is given and BLAS cannot use
 * its strides, or if it has another type than q. */
int attn_blas_copied(const struct attn_problem *problem, const struct attn_blas_factor *factor);

/* Does the output projection of a plan go through a buffer. */
int attn_blas_copies_out(const struct attn_problem *problem);

/* ", copies q, k" with the names of the copied operands, including out; empty if there are none. */
void attn_blas_describe_copies(const struct attn_problem *problem, char *text, size_t size);

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason. */
int attn_blas_supports(const struct attn_problem *problem, const struct attn_services *services,
                       char *why, size_t size);

/* OpenBLAS's own, in builds with kernels for many processors; NULL in others. */
char *openblas_get_corename(void) __attribute__((weak));
void gotoblas_dynamic_init(void) __attribute__((weak));
void gotoblas_dynamic_quit(void) __attribute__((weak));

/* Where OpenBLAS runs its oldest kernels on a processor with AVX2, because it does not know it,
 * makes it take those for AVX-512 or AVX2. OPENBLAS_CORETYPE, if set, stays in force. Done when the
 * plugin is loaded; exported for its test. */
void attn_blas_choose_core(void);

/* exp of x <= ATTN_BLAS_EXP_END (or NaN) as f32 kernels compute it: within ATTN_BLAS_E_EXP relative
 * if the result is a normal number, 0 below that. Exported for its test. */
#define ATTN_BLAS_E_EXP   0x1p-22
#define ATTN_BLAS_EXP_END 80
float attn_blas_exp(float x);

/* tanh as softcap and additive scores compute it in f32: within ATTN_BLAS_E_TANH relative, NaN for
 * NaN. Exported for its test. */
#define ATTN_BLAS_E_TANH 0x1p-22
float attn_blas_tanh(float x);

/* y [rows,width] dense = x w^T + bias for batch b of x [B,rows,inner] and w [width,inner]. A bias
 * of dtype 0 means none. Exported for the test of its speed. */
void attn_blas_project_f32(const struct attn_tensor *x, int64_t b, const struct attn_tensor *w,
                           const struct attn_tensor *bias, float *y);
void attn_blas_project_f64(const struct attn_tensor *x, int64_t b, const struct attn_tensor *w,
                           const struct attn_tensor *bias, double *y);

/* The operator over sgemm and dgemm. `bytes` is the workspace that `run` needs, aligned to 64, or
 * SIZE_MAX if that overflows. */
size_t attn_blas_bytes_f32(const struct attn_blas_setup *setup);
size_t attn_blas_bytes_f64(const struct attn_blas_setup *setup);
void attn_blas_run_f32(const struct attn_blas_setup *setup, const struct attn_operands *operands,
                       void *workspace);
void attn_blas_run_f64(const struct attn_blas_setup *setup, const struct attn_operands *operands,
                       void *workspace);

#endif
