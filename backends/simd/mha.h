/* SPDX-License-Identifier: Apache-2.0 */
/* mha.h - multi-head attention: projections around a plan for attention.
 *
 * Projected q, k, v lie in dense buffers [B,S,H*D] whose heads the plan reads in place, as strided
 * operands; the heads' outputs go to such a buffer, or straight to out where nothing follows that
 * wants more than out holds. Buffers are of the type whose pairs the instance multiplies, else f32,
 * whatever the problem's type. All that is not a projection (masks, scores and their parameters,
 * lse, weights) is passed on to the plan for attention: what it supports works in the heads. */
#ifndef ATTN_SIMD_MHA_H
#define ATTN_SIMD_MHA_H

#include "gemm.h"
#include "plan.h"

/* q, k, v, out, and one of each other role that attention may have, with room to spare. */
#define ATTN_MHA_TENSORS 24

struct attn_mha {
    const struct attn_services *services;
    const struct attn_flash_isa *isa; /* of the projections; the heads may have another */
    struct attn_problem heads;        /* attention alone; q, k, v, out come first */
    struct attn_tensor tensors[ATTN_MHA_TENSORS]; /* of `heads`; data of the buffers alone */
    bool residual;
    int buffers;                       /* q, k, v and, unless out takes them, the heads' outputs */
    struct attn_gemm_scratch *scratch; /* [threads] */
    void *memory;                      /* holds scratch and the buffers */
};

/* Weights packed, operands attached. */
struct attn_mha_binding {
    struct attn_gemm inputs[3];
    struct attn_gemm output; /* or what else comes between the heads and out; no rows: nothing */
    struct attn_tensor head_mask; /* dtype 0: none */
};

/* Whether the sizes of the buffers can be counted. */
bool attn_mha_fits(const struct attn_problem *problem);

/* The attention inside a problem of multi-head attention that is supported, on buffers of `dtype`:
 * sets heads, tensors (without data), residual and buffers. */
void attn_mha_heads(const struct attn_problem *problem, uint32_t dtype, struct attn_mha *mha);

/* Makes a plan for a problem that is supported: that of the heads, with its `mha` set; frees all on
 * failure. To be freed by attn_mha_destroy. */
int attn_mha_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                    const struct attn_services *services, struct attn_plan **plan, char *why,
                    size_t size);
void attn_mha_destroy(struct attn_plan *plan);

/* Packs weights; attaches the operands of the heads to `job`, all others to the binding, which is
 * freed through services->free. */
int attn_mha_bind(const struct attn_plan *plan, const struct attn_tensor *tensors,
                  uint32_t n_tensors, struct attn_flash *job, struct attn_mha_binding **binding,
                  char *why, size_t size);

/* Computes a binding and its job with all threads of the plan. */
void attn_mha_run(struct attn_plan *plan, const struct attn_mha_binding *binding,
                  const struct attn_flash *job);

#endif
