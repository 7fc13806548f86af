/* SPDX-License-Identifier: Apache-2.0 */
/* mha.h - multi-head attention: projections in f32 around a plan for attention.
 *
 * Projected q, k, v lie in dense buffers [B,S,H*D] whose heads the plan reads in place, as strided
 * operands; the heads' outputs go to such a buffer, or straight to out where there is no output
 * projection. All that is not a projection (masks, scores and their parameters, lse, weights) is
 * passed on to the plan for attention: what it supports works in the heads. */
#ifndef ATTN_SIMD_MHA_H
#define ATTN_SIMD_MHA_H

#include "gemm.h"
#include "plan.h"

/* q, k, v, out, and one of each other role that attention may have, with room to spare. */
#define ATTN_MHA_TENSORS 24

struct attn_mha {
    const struct attn_services *services;
    struct attn_problem heads;                    /* attention alone; q, k, v, out come first */
    struct attn_tensor tensors[ATTN_MHA_TENSORS]; /* of `heads`; data of the buffers alone */
    bool residual;
    float *scratch; /* [threads][ATTN_GEMM_SCRATCH] */
    void *memory;   /* holds scratch and the buffers */
};

/* Weights packed, operands attached. */
struct attn_mha_binding {
    struct attn_gemm inputs[3], output;   /* output.packed NULL: no output projection */
    struct attn_view head_mask, residual; /* residual: where the output projection adds none */
};

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason. */
int attn_mha_supports(const struct attn_problem *problem, char *why, size_t size);

/* The attention inside a problem of multi-head attention, in mha->heads and ->tensors, without
 * data. ATTN_UNSUPPORTED, with the reason, where there is none. */
int attn_mha_heads(const struct attn_problem *problem, struct attn_mha *mha, char *why,
                   size_t size);

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
