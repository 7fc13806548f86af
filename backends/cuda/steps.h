/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - the arguments of the kernels between matrix products. C and CUDA C++ include it. The
 * kernels are lay_TYPE, softmax_TYPE and repair_TYPE. repair_TYPE has attn_cuda_args. */
#ifndef ATTN_CUDA_STEPS_H
#define ATTN_CUDA_STEPS_H

#include "args.h"

#define ATTN_CUDA_AXES 5

/* to = from + plus, element by element. Strides are in elements; 0 broadcasts. `to` may be `from`
 * if their strides are the same. One block per row; a row is the last axis. */
struct attn_cuda_lay {
    void *to;
    const void *from, *plus; /* plus NULL: nothing is added */
    const uint8_t *keep; /* per index of axis 1: 0 makes `from` count as 0; NULL: all are kept */
    int64_t extent[ATTN_CUDA_AXES];
    int64_t to_stride[ATTN_CUDA_AXES], from_stride[ATTN_CUDA_AXES], plus_stride[ATTN_CUDA_AXES];
    int64_t keep_stride;
    int32_t threads;
};

/* One block per row. scores and p have the same rows, both dense [b,hq,sq,sk]. p has the type of q.
 * It may be the memory of `scores` if that type is f32. */
struct attn_cuda_softmax {
    struct attn_cuda_args args; /* as for attention alone */
    float *scores;              /* raw; finished scores are stored here in log2 units */
    void *p;                    /* weights after dropout; 0 if not allowed */
    int32_t warps;
};

/* Bytes of shared memory of a softmax block: a maximum and a sum for each warp. */
#define ATTN_CUDA_SOFTMAX_SHARED(warps) (2 * (warps)*16)

#endif
