/* SPDX-License-Identifier: Apache-2.0 */
/* wkv.h - the recurrence of RWKV-4 over vectors of channels. Threads share out groups of channels:
 * each goes through all steps with its states in registers. */
#ifndef ATTN_SIMD_WKV_H
#define ATTN_SIMD_WKV_H

#include "plan.h"

/* Channels [first, first + count) of batch entry b; count is at most nr of the instruction set. */
struct attn_wkv_part {
    const struct attn_operands *operands;
    int64_t b, steps, first, count;
};

/* As attn_plan_create, for wkv. */
int attn_wkv_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                    const struct attn_services *services, struct attn_plan **plan, char *why,
                    size_t size);

/* Computes a problem with all threads of its plan. */
void attn_wkv_run(struct attn_plan *plan, const struct attn_operands *operands);

#endif
