/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - see attention.h. */
#include "attention.h"

#include "backward.h"
#include "flash.h"
#include "unfused.h"

int attn_cuda_attention_start(const struct attn_cuda_plan *plan, const struct attn_cuda_args *args,
                              char *why, size_t size)
{
    if (plan->backward)
        return attn_cuda_backward_start(plan, args, why, size);
    return plan->unfused ? attn_cuda_unfused_start(plan, args, why, size)
                         : attn_cuda_flash_start(plan, args, why, size);
}

void attn_cuda_attention_destroy(struct attn_cuda_plan *plan)
{
    if (plan->unfused)
        attn_cuda_unfused_destroy(plan);
    else if (plan->backward)
        attn_cuda_backward_destroy(plan);
    else
        attn_cuda_plan_free(plan);
}
