/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent.c - see recurrent.h */
#include "recurrent.h"

#include "buffers.h"
#include "chunked.h"
#include "lsh.h"
#include "performer.h"

#include <stdio.h>
#include <string.h>

struct errand {
    const struct attn_plan *plan;
    const struct attn_operands *operands;
};

static bool is_wkv(const struct attn_problem *p)
{
    return p->op == ATTN_OP_WKV;
}

static bool is_chunked(const struct attn_problem *p)
{
    return p->op == ATTN_OP_CHUNKED;
}

static bool is_performer(const struct attn_problem *p)
{
    return p->op == ATTN_OP_PERFORMER;
}

static bool is_lsh(const struct attn_problem *p)
{
    return p->op == ATTN_OP_LSH;
}

int attn_recurrent_columns(const struct attn_plan *plan)
{
    if (is_chunked(plan->recurrent))
        return (int)attn_columns_of(plan->recurrent, ATTN_CHUNKED_COLUMNS);
    if (is_performer(plan->recurrent) || is_lsh(plan->recurrent))
        return (int)plan->recurrent->dv;
    return is_wkv(plan->recurrent) ? plan->isa->nr
                                   : (int)attn_decay_sizes_of(plan->recurrent).columns;
}

static int64_t blocks_of(const struct attn_plan *plan)
{
    const int64_t columns = attn_recurrent_columns(plan);
    return (plan->recurrent->dv + columns - 1) / columns;
}

/* As decay_template.h lays them out. */
static int64_t scratch_of_decay(const struct attn_problem *problem)
{
    const struct attn_decay_sizes s = attn_decay_sizes_of(problem);
    return problem->dk * s.row + ATTN_DECAY_STEPS * (3 * s.rows + 2 * s.row + 16) + 2 * s.rows;
}

/* Floats of scratch of one thread. */
static int64_t scratch_of(const struct attn_flash_isa *isa, const struct attn_problem *problem)
{
    struct attn_performer_room room;
    struct attn_performer_pairs paired;
    struct attn_lsh_room lsh;
    struct attn_chunked_room chunked;
    if (is_performer(problem) && isa->pairs)
        return attn_performer_pairs_lay_out(problem, NULL, &paired);
    if (is_performer(problem))
        return attn_performer_lay_out(problem, isa->nr, NULL, &room);
    if (is_lsh(problem))
        return attn_lsh_lay_out(problem, isa->mr, isa->nr, NULL, &lsh);
    if (is_wkv(problem))
        return 0;
    if (is_chunked(problem))
        return attn_chunked_lay_out(problem, isa->step, NULL, &chunked);
    return scratch_of_decay(problem);
}

/* The instance that serves a problem: this one, or the one that serves the rest. */
static const struct attn_flash_isa *choose_isa(const struct attn_flash_isa *isa,
                                               const struct attn_problem *problem)
{
    const bool floats = is_performer(problem) && !attn_performer_has_pairs(problem, isa->pairs);
    return isa->other && floats ? isa->other : isa;
}

int attn_recurrent_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                          const struct attn_services *services, struct attn_plan **plan, char *why,
                          size_t size)
{
    struct attn_plan *made = attn_take_memory(services, sizeof *made, "the plan", why, size);
    if (!made)
        return ATTN_OUT_OF_MEMORY;
    *made = (struct attn_plan){
        .services = services, .isa = choose_isa(isa, problem), .recurrent = problem};
    made->job.dtype = problem->dtype;
    made->items = problem->b * problem->hq * blocks_of(made);
    made->threads = (int)attn_clamp(services->threads, 1, made->items);
    const size_t bytes = (size_t)(scratch_of(made->isa, problem) * made->threads) * sizeof(float);
    int status = ATTN_OUT_OF_MEMORY;
    if (bytes > 0 && !(made->memory = services->alloc(services->context, bytes, 64)))
        snprintf(why, size, "no memory for %zu bytes of scratch", bytes);
    else
        status = attn_pool_create(services, made->threads, &made->pool, why, size);
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
    const int64_t blocks = blocks_of(plan), columns = attn_recurrent_columns(plan);
    const int64_t end = plan->items * (thread + 1) / plan->threads;
    struct attn_recurrent_part part = {.problem = p, .operands = errand->operands};
    const int64_t scratch = scratch_of(plan->isa, p);
    if (scratch > 0)
        part.scratch = (float *)plan->memory + thread * scratch;
    for (int64_t item = plan->items * thread / plan->threads; item < end; item++) {
        const int64_t head = item / blocks;
        part.b = head / p->hq;
        part.h = head % p->hq;
        part.first = item % blocks * columns;
        part.count = attn_clamp(p->dv - part.first, 1, columns);
        if (scratch > 0 && !is_performer(p) && !is_lsh(p))
            memset(part.scratch, 0, (size_t)scratch * sizeof(float));
        if (is_chunked(p))
            plan->isa->run_chunked(&part);
        else if (is_wkv(p))
            plan->isa->run_wkv(&part);
        else if (is_performer(p))
            plan->isa->run_performer(&part);
        else if (is_lsh(p))
            plan->isa->run_lsh(&part);
        else
            plan->isa->run_decay(&part);
    }
}

void attn_recurrent_run(struct attn_plan *plan, const struct attn_operands *operands)
{
    struct errand errand = {plan, operands};
    attn_pool_run(plan->pool, compute_share, &errand);
}
