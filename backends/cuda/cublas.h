/* SPDX-License-Identifier: Apache-2.0 */
/* cublas.h - products of matrices by cuBLAS, opened at run time. f16 and bf16 on tensor cores with
 * sums in f32, f32 in FMA: never TF32. The same bits on every run: one stream, a workspace of its
 * own, no reduction in 16 bits. */
#ifndef ATTN_CUDA_CUBLAS_H
#define ATTN_CUDA_CUBLAS_H

#include "gpu.h"

struct attn_cublas;

/* Opens the library, once a process. ATTN_NO_DEVICE with the reason where there is none. */
int attn_cublas_open(char *why, size_t size);
/* After attn_cublas_open. */
void attn_cublas_version(char *text, size_t size);

/* What multiplies on a queue of gpu.h, which must outlive it. */
int attn_cublas_create(void *queue, struct attn_cublas **cublas, char *why, size_t size);
void attn_cublas_destroy(struct attn_cublas *cublas);
/* The queue, and bytes of device memory. */
void *attn_cublas_queue(const struct attn_cublas *cublas);
uint64_t attn_cublas_bytes(void);

/* c[m,n] = a[m,k] b[k,n], or c += where `adds`, for each of a batch. Matrices lie by columns:
 * column j of c starts at c + j * ld; transposed ones lie by rows. Strides are those of the batch.
 * All in elements. */
struct attn_cublas_matrix {
    void *data;
    uint32_t dtype; /* a, b: f32, f16 or bf16, the same; c: that or f32 */
    int transposed; /* never c */
    int64_t ld, stride;
};
struct attn_cublas_product {
    int64_t m, n, k, batch;
    struct attn_cublas_matrix a, b, c;
    int adds;
};
int attn_cublas_multiply(struct attn_cublas *cublas, const struct attn_cublas_product *product,
                         char *why, size_t size);

#endif
