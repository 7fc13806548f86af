/* SPDX-License-Identifier: Apache-2.0 */
/* cublas.h - products of matrices by cuBLAS, opened at run time. f16 and bf16 on tensor cores with
 * sums in f32. f32 uses FMA, never TF32. Every run gives the same bits: there is one stream, a
 * workspace of its own, and no reduction in 16 bits. */
#ifndef ATTN_CUDA_CUBLAS_H
#define ATTN_CUDA_CUBLAS_H

#include "gpu.h"

struct attn_cublas;

/* Opens the library, once per process. ATTN_NO_DEVICE with the reason if there is none. */
int attn_cublas_open(char *why, size_t size);
/* Call it after attn_cublas_open. */
void attn_cublas_version(char *text, size_t size);

/* Creates a handle that multiplies on a queue of gpu.h. The queue must outlive it. */
int attn_cublas_create(void *queue, struct attn_cublas **cublas, char *why, size_t size);
void attn_cublas_destroy(struct attn_cublas *cublas);
/* Its queue, and the bytes of device memory that it uses. */
void *attn_cublas_queue(const struct attn_cublas *cublas);
uint64_t attn_cublas_bytes(void);

/* c[m,n] = a[m,k] b[k,n] for each matrix of a batch, or c += a b with `adds`. Matrices are
 * column-major: column j of c starts at c + j * ld. Transposed ones are row-major. `stride` is from
 * one matrix of the batch to the next. ld and stride are in elements. */
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
