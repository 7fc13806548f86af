/* SPDX-License-Identifier: Apache-2.0 */
/* args.h - the arguments of a kernel: one structure, passed by value. C and CUDA C++ include it. */
#ifndef ATTN_CUDA_ARGS_H
#define ATTN_CUDA_ARGS_H

#include <stdint.h>

/* An operand on the device. Strides are in elements, in the axis order of its role in backend.h. */
struct attn_cuda_view {
    void *data; /* NULL: not given */
    int64_t stride[4];
};

enum {
    ATTN_CUDA_CAUSAL = 1 << 0,
    ATTN_CUDA_WINDOW = 1 << 1,
    ATTN_CUDA_OFF_BR = 1 << 2,
    ATTN_CUDA_LEN_2D = 1 << 3,
    ATTN_CUDA_BIAS_F32 = 1 << 4, /* bias is f32; otherwise it has the type of q */
    ATTN_CUDA_WIDE_Q = 1 << 5,   /* rows of q, k, v, dout can be copied 16 bytes at a time */
    ATTN_CUDA_WIDE_K = 1 << 6,
    ATTN_CUDA_WIDE_V = 1 << 7,
    ATTN_CUDA_WIDE_DOUT = 1 << 12,
    /* read by flash_row only */
    ATTN_CUDA_GAUSSIAN = 1 << 8,
    /* read by flash_row and flash_pairs */
    ATTN_CUDA_DROPOUT = 1 << 9,   /* by `keep` if given, else by Philox */
    ATTN_CUDA_ADDITIVE = 1 << 10, /* flash_pairs, project: additive; otherwise bilinear */
    ATTN_CUDA_ROUND_Q = 1 << 11   /* project: q^T M is stored in the type of q, not in f32 */
};

struct attn_cuda_args {
    struct attn_cuda_view q, k, v, out, lse, mask, bias, len, alibi, sink, keep, weights;
    struct attn_cuda_view score_q, score_k, score_v; /* M or W_q, W_k, w_v */
    /* Gradients. There out and lse are operands. */
    struct attn_cuda_view dout, dlse, grad_q, grad_k, grad_v, grad_bias, grad_sink, grad_alibi;
    void *projected_q, *projected_k; /* see flash_pairs.h */
    /* Unmerged results; NULL if the keys are not split. For each split and row (b, h, i): the
     * maximum in log2 units, the sum, and dv unnormalised columns. */
    float *partial;
    /* Gradients, for each row (b, h, i): dO . OUT less GRAD_LSE; what the row adds to that of its
     * slope, NULL if that is not asked for. */
    float *delta, *slopes;
    int32_t bias_extent[4]; /* of the gradient of the bias: 1 where the bias is broadcast */
    int32_t b, hq, hkv, sq, sk, dq, dk, dv, dh;
    int32_t off, window_left, window_right; /* windows: -1 means unbounded */
    int32_t splits, split_keys;             /* split z starts at key z*split_keys */
    int32_t flags;
    float scale, softcap; /* softcap 0: none */
    float keep_by;        /* factor of kept weights */
    uint32_t keep_from;   /* Philox keeps a cell if its 24 bits are at least this */
    uint64_t seed;
};

/* A tensor as the copies of Hopper address it, as the driver encodes it. */
struct attn_cuda_map {
    uint64_t words[16];
} __attribute__((aligned(64)));

/* The arguments of flash_TYPE_WIDTH_hopper. */
struct attn_cuda_hopper_args {
    struct attn_cuda_map q, k, v;
    struct attn_cuda_args a;
};

#endif
