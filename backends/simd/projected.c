/* SPDX-License-Identifier: Apache-2.0 */
/* projected.c - see projected.h */
#include "projected.h"

#include "buffers.h"

static bool is_buffer(const struct attn_projected *x, uint32_t t)
{
    return t == 1 || t == 2 || (t == 0 && x->problem->dtype != x->heads.dtype);
}

static void set_heads(struct attn_projected *x, int64_t unit)
{
    const struct attn_problem *p = x->problem;
    const struct attn_tensor *lse = attn_tensor_find(p, ATTN_LSE);
    x->heads = *p;
    x->heads.op = ATTN_OP_ATTENTION;
    x->heads.dtype = x->isa->pairs ? x->isa->pairs : ATTN_F32;
    x->heads.sk = p->landmarks;
    x->heads.landmarks = 0;
    x->tensors[0] = is_buffer(x, 0) ? attn_buffer(ATTN_Q, p->b, p->hq, p->sq, p->dq, unit)
                                    : *attn_tensor_find(p, ATTN_Q);
    x->tensors[1] = attn_buffer(ATTN_K, p->b, p->hkv, p->landmarks, p->dk, unit);
    x->tensors[2] = attn_buffer(ATTN_V, p->b, p->hkv, p->landmarks, p->dv, unit);
    x->tensors[3] = *attn_tensor_find(p, ATTN_OUT);
    if (lse)
        x->tensors[4] = *lse;
    x->tensors[1].dtype = x->tensors[2].dtype = x->heads.dtype;
    for (int t = 0; t < 5; t++)
        x->tensors[t].data = NULL;
    x->heads.tensors = x->tensors;
    x->heads.n_tensors = lse ? 5 : 4;
}

/* Rows of a part. With pairs as many as leave no thread without any: each part packs keys. */
static int64_t choose_rows(const struct attn_projected *x, int threads)
{
    const struct attn_problem *p = x->problem;
    const int64_t heads = p->b * p->hkv, parts = (threads + heads - 1) / heads;
    if (!x->isa->pairs)
        return ATTN_PROJECT_ROWS;
    return attn_clamp((p->landmarks + parts - 1) / parts, 1, ATTN_PROJECT_PAIR_ROWS);
}

/* Floats of scratch of a thread. */
static int64_t scratch_of(const struct attn_projected *x)
{
    const struct attn_problem *p = x->problem;
    const int64_t wide = attn_round_up(p->dk > p->dv ? p->dk : p->dv, x->isa->nr);
    if (!x->isa->pairs)
        return ATTN_PROJECT_KEYS * (wide + ATTN_PROJECT_ROWS);
    return (ATTN_PROJECT_PAIR_KEYS / 2 + ATTN_PROJECT_PAIR_ROWS) * wide +
           ATTN_PROJECT_PAIR_ROWS * ATTN_PROJECT_PAIR_ROW;
}

/* Places the buffers behind the scratch. Returns the floats of all, or -1 on overflow. */
static int64_t lay_out(struct attn_projected *x, const struct attn_plan *plan, float *base)
{
    const int first = is_buffer(x, 0) ? 0 : 1;
    int64_t used;
    x->rows = choose_rows(x, plan->threads);
    x->scratch = scratch_of(x);
    if (__builtin_mul_overflow(x->scratch, (int64_t)plan->threads, &used))
        return -1;
    return attn_buffers_place(x->tensors + first, 3 - first, used, base);
}

int attn_projected_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                          const struct attn_services *services, struct attn_plan **plan, char *why,
                          size_t size)
{
    struct attn_plan *made = NULL;
    struct attn_projected *x = attn_take_memory(services, sizeof *x, "the plan", why, size);
    if (!x)
        return ATTN_OUT_OF_MEMORY;
    *x = (struct attn_projected){.services = services, .isa = isa, .problem = problem};
    set_heads(x, isa->nr);
    const int status = attn_plan_create(isa, &x->heads, services, &made, why, size);
    if (status != ATTN_OK) {
        services->free(services->context, x);
        return status;
    }
    made->projected = x;
    x->memory =
        attn_take_floats(services, lay_out(x, made, NULL), "projected keys and values", why, size);
    if (!x->memory) {
        attn_projected_destroy(made);
        return ATTN_OUT_OF_MEMORY;
    }
    lay_out(x, made, x->memory);
    *plan = made;
    return ATTN_OK;
}

void attn_projected_destroy(struct attn_plan *plan)
{
    struct attn_projected *x = plan->projected;
    const struct attn_services *services = x->services;
    attn_plan_destroy(plan);
    if (x->memory)
        services->free(services->context, x->memory);
    services->free(services->context, x);
}

void attn_projected_bind(const struct attn_plan *plan, const struct attn_operands *given,
                         struct attn_flash *job)
{
    const struct attn_projected *x = plan->projected;
    struct attn_tensor tensors[5];
    for (uint32_t t = 0; t < x->heads.n_tensors; t++) {
        tensors[t] = x->tensors[t];
        if (!tensors[t].data)
            tensors[t].data = attn_operands_find(given, tensors[t].role)->data;
    }
    attn_operands_set(&job->operands, tensors, x->heads.n_tensors);
}

struct errand {
    const struct attn_plan *plan;
    const struct attn_operands *given;
};

/* Parts of a buffer: each of some rows of one head. */
static int64_t parts_of(const struct attn_projected *x, const struct attn_tensor *to)
{
    return to->shape[0] * to->shape[1] * ((to->shape[2] + x->rows - 1) / x->rows);
}

static void project_part(const struct errand *errand, uint32_t t, int64_t number, float *scratch)
{
    const struct attn_projected *x = errand->plan->projected;
    const struct attn_operands *o = errand->given;
    const struct attn_tensor *to = &x->tensors[t];
    const struct attn_tensor *const matrix[] = {NULL, &o->proj_e, &o->proj_f};
    const struct attn_tensor *const from[] = {&o->q, &o->k, &o->v};
    const int64_t chunks = parts_of(x, to) / (to->shape[0] * to->shape[1]);
    struct attn_project_part part = {
        .matrix = matrix[t], .from = from[t], .to = to, .scratch = scratch};
    part.b = number / chunks / to->shape[1];
    part.h = number / chunks % to->shape[1];
    part.first = number % chunks * x->rows;
    part.rows = attn_clamp(to->shape[2] - part.first, 1, x->rows);
    part.length = attn_keys_seen(x->problem, &o->len, part.b, 0).end;
    x->isa->run_project(&part);
}

static void project_share(void *context, int thread)
{
    const struct errand *errand = context;
    const struct attn_plan *plan = errand->plan;
    const struct attn_projected *x = plan->projected;
    for (uint32_t t = 0; t < 3; t++) {
        const int64_t parts = is_buffer(x, t) ? parts_of(x, &x->tensors[t]) : 0;
        for (int64_t n = parts * thread / plan->threads; n < parts * (thread + 1) / plan->threads;
             n++)
            project_part(errand, t, n, x->memory + thread * x->scratch);
    }
}

void attn_projected_run(struct attn_plan *plan, const struct attn_operands *given,
                        const struct attn_flash *job)
{
    struct errand errand = {plan, given};
    attn_pool_run(plan->pool, project_share, &errand);
    attn_plan_run(plan, job);
}
