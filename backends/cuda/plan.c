/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - see plan.h. */
#include "plan.h"

#include <stdio.h>

#include "cublas.h"
#include "host_args.h"

int attn_cuda_plan_new(const struct attn_problem *problem, const struct attn_services *services,
                       struct attn_cuda_plan **out, char *why, size_t size)
{
    int status = attn_gpu_open(services, why, size);
    if (status != ATTN_OK)
        return status;
    struct attn_cuda_plan *plan = services->alloc(services->context, sizeof *plan, 64);
    if (!plan) {
        snprintf(why, size, "no memory for a plan");
        return ATTN_OUT_OF_MEMORY;
    }
    *plan = (struct attn_cuda_plan){
        .services = services, .args = attn_cuda_args_of(problem), .dtype = problem->dtype};
    *out = plan;
    return ATTN_OK;
}

void attn_cuda_plan_free(struct attn_cuda_plan *plan)
{
    attn_cublas_destroy(plan->cublas);
    attn_gpu_release(plan->args.partial);
    attn_gpu_release(plan->args.projected_q);
    attn_gpu_release(plan->args.projected_k);
    attn_gpu_queue_destroy(plan->queue);
    plan->services->free(plan->services->context, plan);
}
