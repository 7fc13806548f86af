/* SPDX-License-Identifier: Apache-2.0 */
/* product.h - products of stacks of strided matrices. cuBLAS reads and writes in place if rows or
 * columns have no gaps. Other matrices are copied densely in each run. */
#ifndef ATTN_CUDA_PRODUCT_H
#define ATTN_CUDA_PRODUCT_H

#include "cublas.h"
#include "steps.h"

/* A stack of matrices: strides of its three axes, of rows and of columns, in elements. */
struct attn_cuda_stack {
    uint32_t dtype;
    int64_t stride[ATTN_CUDA_AXES];
};

/* c = a b^T: a is [.., m, inner], b [.., n, inner], c [.., m, n]. */
struct attn_cuda_product {
    struct attn_cublas *cublas;
    int64_t extent[3], m, n, inner;
    struct attn_cuda_stack stack[3]; /* a, b, c; c has the type of a and b, or f32 */
    /* set by create */
    void *dense[3]; /* the dense copy of an operand; NULL: it is used in place */
    void *lay;
    uint64_t bytes; /* of `dense` */
};

/* The first fields of the product must be set. Frees everything on failure. */
int attn_cuda_product_create(struct attn_cuda_product *product, char *why, size_t size);
void attn_cuda_product_destroy(struct attn_cuda_product *product);

/* Starts c = a b^T, or c += a b^T with `adds`. Does nothing if an extent is 0. */
int attn_cuda_product_start(const struct attn_cuda_product *product, const void *a, const void *b,
                            void *c, int adds, char *why, size_t size);

/* Launches the kernel lay_TYPE once. Chooses the number of threads, so `lay->threads` need not be
 * set. Does nothing if an extent is 0. */
int attn_cuda_lay_start(void *queue, void *kernel, const struct attn_cuda_lay *lay, char *why,
                        size_t size);

#endif
