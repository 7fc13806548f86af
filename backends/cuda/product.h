/* SPDX-License-Identifier: Apache-2.0 */
/* product.h - products of stacks of strided matrices: cuBLAS reads and writes in place what has
 * rows or columns without gaps, the rest is laid out densely in each run. */
#ifndef ATTN_CUDA_PRODUCT_H
#define ATTN_CUDA_PRODUCT_H

#include "cublas.h"
#include "steps.h"

/* A stack of matrices: strides of its three axes, of a row, of a column; in elements. */
struct attn_cuda_stack {
    uint32_t dtype;
    int64_t stride[ATTN_CUDA_AXES];
};

/* c = a b^T: a is [.., m, inner], b [.., n, inner], c [.., m, n]. */
struct attn_cuda_product {
    struct attn_cublas *cublas;
    int64_t extent[3], m, n, inner;
    struct attn_cuda_stack stack[3]; /* a, b, c; c is f32 or as a and b */
    /* set by create */
    void *dense[3]; /* where an operand is laid out; NULL: it is used in place */
    void *lay;
    uint64_t bytes; /* of `dense` */
};

/* For a product whose first fields are set; frees all on failure. */
int attn_cuda_product_create(struct attn_cuda_product *product, char *why, size_t size);
void attn_cuda_product_destroy(struct attn_cuda_product *product);

/* Starts c = a b^T, or c += where `adds`. Nothing is done where an extent is 0. */
int attn_cuda_product_start(const struct attn_cuda_product *product, const void *a, const void *b,
                            void *c, int adds, char *why, size_t size);

/* One launch of the kernel lay_TYPE, with `lay->threads` still to be set; nothing where an extent
 * is 0. */
int attn_cuda_lay_start(void *queue, void *kernel, const struct attn_cuda_lay *lay, char *why,
                        size_t size);

#endif
