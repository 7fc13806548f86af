/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h - the backward pass as backends compute it: tiles of keys and of queries, every
 * operation in f32, p and dS stored in the type of the problem if that is narrower. */
#ifndef ATTN_REFERENCE_BACKWARD_KERNEL_H
#define ATTN_REFERENCE_BACKWARD_KERNEL_H

#include "reference/tests/made.h"

enum { KERNEL_ELEMENTS = 1 << 16 };

enum kernel_mistake {
    KERNEL_RIGHT,
    KERNEL_PAIR_DKV, /* one pair is missing in dK and dV */
    KERNEL_PAIR_DQ,  /* in dQ */
    KERNEL_DIAGONAL, /* causal: the kernel of dK and dV is off by one */
    KERNEL_SCALE,    /* dK without the scale */
    KERNEL_NO_DELTA,
    KERNEL_LOW_DELTA, /* delta is rounded to bf16 */
    KERNEL_HEAD,      /* the last head of a group overwrites dK and dV */
    KERNEL_TWO,       /* dQ and dK are 2 % too large */
    KERNEL_NO_CAP,    /* the factor of a softcap is missing */
    KERNEL_DP,        /* dP is not divided by what is kept */
    KERNEL_MISTAKES
};

struct kernel_style {
    int64_t key_tile, query_tile;
    bool own_lse, own_delta, parts; /* parts: dK and dV of heads are stored in the problem's type */
    bool kept;                      /* so are all gradients, with each tile */
    bool scaled;                    /* dS is multiplied by the scale before it is stored */
    enum kernel_mistake mistake;
};

struct kernel_gradients {
    double dq[KERNEL_ELEMENTS], dk[KERNEL_ELEMENTS], dv[KERNEL_ELEMENTS];
    double dbias[KERNEL_ELEMENTS], dsink[64], dalibi[64];
};

/* The declaration of such a kernel. */
struct attn_numerics kernel_declares(const struct made *m, const struct kernel_style *style);

/* Computes the gradients of a problem with OUT, LSE and GRAD_OUT; a BIAS has no broadcast axes.
 * Results are rounded to the types of the outputs. */
void kernel_compute(struct made *m, const struct kernel_style *style, struct kernel_gradients *g);

#endif
