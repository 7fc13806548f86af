/* SPDX-License-Identifier: Apache-2.0 */
/* decay.c - see decay.h */
#include "decay.h"

#include <stdio.h>

struct errand {
    const struct attn_plan *plan;
    const struct attn_operands *operands;
};

static int64_t blocks_of(int64_t dv)
{
    return (dv + ATTN_DECAY_COLUMNS - 1) / ATTN_DECAY_COLUMNS;
}

int attn_decay_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                      const struct attn_services *services, struct attn_plan **plan, char *why,
                      size_t size)
{
    struct attn_plan *made = services->alloc(services->context, sizeof *made, 64);
    if (!made) {
        snprintf(why, size, "no memory for the plan");
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_plan){.services = services, .isa = isa, .recurrent = problem};
    made->job.dtype = problem->dtype;
    made->items = problem->b * problem->hq * blocks_of(problem->dv);
    made->threads = (int)attn_clamp(services->threads, 1, made->items);
    const size_t bytes = (size_t)(attn_decay_scratch(problem->dk) * made->threads) * sizeof(float);
    int status = ATTN_OUT_OF_MEMORY;
    made->memory = services->alloc(services->context, bytes, 64);
    if (made->memory)
        status = attn_pool_create(services, made->threads, &made->pool, why, size);
    else
        snprintf(why, size, "no memory for %zu bytes of scratch", bytes);
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
    const struct attn_problem *p = plan->recurrent;
    const int64_t blocks = blocks_of(p->dv), end = plan->items * (thread + 1) / plan->threads;
    float *scratch = (float *)plan->memory + thread * attn_decay_scratch(p->dk);
    for (int64_t item = plan->items * thread / plan->threads; item < end; item++) {
        const int64_t head = item / blocks, first = item % blocks * ATTN_DECAY_COLUMNS;
        plan->isa->run_decay(
            &(struct attn_decay_part){.problem = p,
                                      .operands = errand->operands,
                                      .b = head / p->hq,
                                      .h = head % p->hq,
                                      .first = first,
                                      .count = attn_clamp(p->dv - first, 1, ATTN_DECAY_COLUMNS),
                                      .scratch = scratch});
    }
}

void attn_decay_run(struct attn_plan *plan, const struct attn_operands *operands)
{
    struct errand errand = {plan, operands};
    attn_pool_run(plan->pool, compute_share, &errand);
}
