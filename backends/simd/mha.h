/* SPDX-License-Identifier: Apache-2.0 */
/* mha.h - multi-head attention: projections around a plan for attention.
 *
 * Projected q, k and v lie in dense buffers [B,S,H*D]. The plan reads their heads in place, as
 * strided operands. The outputs of the heads go to such a buffer, or straight to out if nothing
 * follows that needs more precision than out has. Buffers have the type whose pairs the instance
 * multiplies, else f32, whatever the type of the problem. Masks, scores and their parameters, lse
 * and weights are passed on to the plan. */
#ifndef ATTN_SIMD_MHA_H
#define ATTN_SIMD_MHA_H

#include "gemm.h"
#include "plan.h"

/* More than q, k, v, out and one operand of each other role of attention. */
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

/* Packed weights and attached operands. */
struct attn_mha_binding {
    struct attn_gemm inputs[3];
    struct attn_gemm output;      /* or a residual without one; rows 0: nothing follows the heads */
    struct attn_tensor head_mask; /* dtype 0: none */
};

/* Whether the sizes of the buffers fit in int64_t. */
bool attn_mha_fits(const struct attn_problem *problem);

/* The attention inside a problem of multi-head attention that is supported, on buffers of `dtype`:
 * sets heads, tensors (without data), residual and buffers. */
void attn_mha_heads(const struct attn_problem *problem, uint32_t dtype, struct attn_mha *mha);

/* Makes a plan for multi-head attention that is supported: the plan of the heads, with its `mha`
 * set. Frees all on failure. attn_mha_destroy frees it. */
int attn_mha_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                    const struct attn_services *services, struct attn_plan **plan, char *why,
                    size_t size);
void attn_mha_destroy(struct attn_plan *plan);

/* Packs weights. Attaches the operands of the heads to `job`, and all others to the binding. The
 * caller frees the binding through services->free. */
int attn_mha_bind(const struct attn_plan *plan, const struct attn_tensor *tensors,
                  uint32_t n_tensors, struct attn_flash *job, struct attn_mha_binding **binding,
                  char *why, size_t size);

/* Computes a binding and its job with all threads of the plan. */
void attn_mha_run(struct attn_plan *plan, const struct attn_mha_binding *binding,
                  const struct attn_flash *job);

#endif
