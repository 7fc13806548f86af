/* SPDX-License-Identifier: Apache-2.0 */
/* wkv.c - see wkv.h */
#include "wkv.h"

#include <stdio.h>

struct errand {
    const struct attn_plan *plan;
    const struct attn_operands *operands;
};

static int64_t groups_of(const struct attn_plan *plan)
{
    return (plan->job.dv + plan->isa->nr - 1) / plan->isa->nr;
}

int attn_wkv_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                    const struct attn_services *services, struct attn_plan **plan, char *why,
                    size_t size)
{
    struct attn_plan *made = services->alloc(services->context, sizeof *made, 64);
    if (!made) {
        snprintf(why, size, "no memory for the plan");
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_plan){.services = services, .isa = isa, .recurrent = problem};
    made->job.b = problem->b;
    made->job.sq = problem->sq;
    made->job.dv = problem->dv;
    made->job.dtype = problem->dtype;
    made->items = made->job.b * groups_of(made);
    made->threads = (int)attn_clamp(services->threads, 1, made->items);
    int status = attn_pool_create(services, made->threads, &made->pool, why, size);
    if (status == ATTN_OK)
        *plan = made;
    else
        attn_plan_destroy(made);
    return status;
}

static void compute_share(void *context, int thread)
{
    const struct errand *errand = context;
    const struct attn_plan *plan = errand->plan;
    const int64_t groups = groups_of(plan), nr = plan->isa->nr, dv = plan->job.dv;
    const int64_t begin = plan->items * thread / plan->threads;
    const int64_t end = plan->items * (thread + 1) / plan->threads;
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item % groups * nr;
        plan->isa->run_wkv(&(struct attn_wkv_part){.operands = errand->operands,
                                                   .b = item / groups,
                                                   .steps = plan->job.sq,
                                                   .first = first,
                                                   .count = attn_clamp(dv - first, 1, nr)});
    }
}

void attn_wkv_run(struct attn_plan *plan, const struct attn_operands *operands)
{
    struct errand errand = {plan, operands};
    attn_pool_run(plan->pool, compute_share, &errand);
}
