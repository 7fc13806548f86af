/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - what the host passes to the kernels between products of matrices. Seen by C and by CUDA
 * C++. They are named lay_TYPE, softmax_TYPE and repair_TYPE (which takes attn_cuda_args). */
#ifndef ATTN_CUDA_STEPS_H
#define ATTN_CUDA_STEPS_H

#include "args.h"

#define ATTN_CUDA_AXES 5

/* to = from + plus, element by element; strides in elements, 0 broadcasts. `to` may be `from` where
 * their strides are the same. A block a row, the last axis. */
struct attn_cuda_lay {
    void *to;
    const void *from, *plus; /* plus: NULL: nothing */
    const uint8_t *keep;     /* of axis 1: where 0, `from` counts as 0; NULL: all are kept */
    int64_t extent[ATTN_CUDA_AXES];
    int64_t to_stride[ATTN_CUDA_AXES], from_stride[ATTN_CUDA_AXES], plus_stride[ATTN_CUDA_AXES];
    int64_t keep_stride;
    int32_t threads;
};

/* A block a row, the same rows in scores and p, both dense [b,hq,sq,sk]. p has the type of q; it
 * may be `scores` where that is f32. */
struct attn_cuda_softmax {
    struct attn_cuda_args args; /* as for attention alone */
    float *scores;              /* raw; what becomes of them is stored here in log2 units */
    void *p;                    /* weights after dropout, 0 where not allowed */
    int32_t warps;
};

/* Bytes of shared memory of a softmax block: a maximum and a sum of each warp. */
#define ATTN_CUDA_SOFTMAX_SHARED(warps) (2 * (warps)*16)

#endif
