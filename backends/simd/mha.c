/* SPDX-License-Identifier: Apache-2.0 */
/* mha.c - see mha.h */
#include "mha.h"

#include <stdio.h>
#include <string.h>

/* The next piece of a region that starts at `base`, aligned to 64 bytes. With base NULL it only
 * counts. *used becomes SIZE_MAX on overflow, or if `bytes` is negative. */
static void *cut(void *base, size_t *used, int64_t bytes)
{
    size_t at = *used;
    if (at == SIZE_MAX || bytes < 0 || bytes > INT64_MAX - 63 ||
        __builtin_add_overflow(at, (size_t)attn_round_up(bytes, 64), used)) {
        *used = SIZE_MAX;
        return NULL;
    }
    return base ? (char *)base + at : NULL;
}

/* Bytes of a buffer; -1 on overflow. */
static int64_t bytes_of(const struct attn_tensor *buffer)
{
    int64_t bytes;
    if (__builtin_mul_overflow(buffer->shape[0], buffer->stride[0], &bytes) ||
        __builtin_mul_overflow(bytes, attn_element_bytes(buffer->dtype), &bytes))
        return -1;
    return bytes;
}

/* Lays out all memory; called once to learn its size and once to set the pointers. */
static size_t lay_out(struct attn_mha *mha, int threads, void *base)
{
    size_t used = 0;
    mha->scratch = cut(base, &used, (int64_t)sizeof *mha->scratch * threads);
    for (int n = 0; n < mha->buffers; n++)
        mha->tensors[n].data = cut(base, &used, bytes_of(&mha->tensors[n]));
    return used;
}

int attn_mha_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                    const struct attn_services *services, struct attn_plan **plan, char *why,
                    size_t size)
{
    struct attn_plan *made = NULL;
    struct attn_mha *mha = services->alloc(services->context, sizeof *mha, 64);
    if (!mha) {
        snprintf(why, size, "no memory for the plan");
        return ATTN_OUT_OF_MEMORY;
    }
    *mha =
        (struct attn_mha){.services = services, .isa = isa->projections ? isa->projections : isa};
    attn_mha_heads(problem, isa->pairs ? isa->pairs : ATTN_F32, mha);
    int status = attn_plan_create(isa, &mha->heads, services, &made, why, size);
    if (status != ATTN_OK) {
        services->free(services->context, mha);
        return status;
    }
    made->mha = mha;
    size_t bytes = lay_out(mha, made->threads, NULL);
    if (bytes != SIZE_MAX)
        mha->memory = services->alloc(services->context, bytes, 64);
    if (!mha->memory) {
        snprintf(why, size, "no memory for %zu bytes of projected heads", bytes);
        attn_mha_destroy(made);
        return ATTN_OUT_OF_MEMORY;
    }
    lay_out(mha, made->threads, mha->memory);
    *plan = made;
    return ATTN_OK;
}

void attn_mha_destroy(struct attn_plan *plan)
{
    struct attn_mha *mha = plan->mha;
    const struct attn_services *services = mha->services;
    attn_plan_destroy(plan);
    if (mha->memory)
        services->free(services->context, mha->memory);
    services->free(services->context, mha);
}

/* Heads side by side again: [B,H,S,D] as [B,S,H*D]. */
static struct attn_tensor join(const struct attn_tensor *heads)
{
    return (struct attn_tensor){.data = heads->data,
                                .stride = {heads->stride[0], heads->stride[2], heads->stride[3]},
                                .dtype = heads->dtype};
}

/* A row of y for each row of `heads`: x w^T + bias, or x itself if w is not given. */
static struct attn_gemm projection(const struct attn_flash_isa *isa, struct attn_tensor x,
                                   const struct attn_tensor *heads, const struct attn_tensor *w,
                                   struct attn_tensor y)
{
    struct attn_gemm gemm = {.rows = heads->shape[0] * heads->shape[2],
                             .batch_rows = heads->shape[2],
                             .inner = w->dtype ? w->shape[1] : 0,
                             .columns = w->dtype ? w->shape[0] : heads->shape[1] * heads->shape[3],
                             .x = x,
                             .y = y};
    if (w->dtype)
        gemm.layout = attn_gemm_layout(isa, w->dtype);
    return gemm;
}

/* The operands of the heads: those that were given, and our buffers. */
static void attach_heads(const struct attn_plan *plan, const struct attn_operands *given,
                         struct attn_flash *job)
{
    struct attn_tensor tensors[ATTN_MHA_TENSORS];
    uint32_t n_tensors = plan->mha->heads.n_tensors;
    for (uint32_t t = 0; t < n_tensors; t++) {
        tensors[t] = plan->mha->tensors[t];
        if (!tensors[t].data)
            tensors[t].data = attn_operands_find(given, tensors[t].role)->data;
    }
    attn_operands_set(&job->operands, tensors, n_tensors);
}

/* From the heads to out: the output projection, or a residual without one. */
static struct attn_gemm last_step(const struct attn_plan *plan, const struct attn_operands *given)
{
    const struct attn_mha *mha = plan->mha;
    bool buffered = mha->buffers == 4;
    if (!buffered && !mha->residual)
        return (struct attn_gemm){.rows = 0};
    struct attn_gemm step = projection(mha->isa, buffered ? join(&mha->tensors[3]) : given->out,
                                       &mha->tensors[3], &given->w_o, given->out);
    if (mha->residual)
        step.add = given->x_q;
    return step;
}

/* Everything except the packed weights. */
static void attach_projections(const struct attn_plan *plan, const struct attn_operands *given,
                               struct attn_mha_binding *binding)
{
    const struct attn_mha *mha = plan->mha;
    for (uint32_t n = 0; n < 3; n++)
        binding->inputs[n] =
            projection(mha->isa, *attn_operands_find(given, ATTN_X_Q + n), &mha->tensors[n],
                       attn_operands_find(given, ATTN_W_Q + n), join(&mha->tensors[n]));
    binding->head_mask = given->head_mask;
    binding->output = last_step(plan, given);
}

/* Weights and bias of a projection in the memory of a binding. */
struct packed {
    void *weights;
    float *bias;
};

/* Lays out a binding and its packed weights; called once to learn its size and once to set the
 * pointers. */
static size_t lay_out_binding(const struct attn_operands *given, const struct attn_flash_isa *isa,
                              void *base, struct packed packed[4])
{
    size_t used = (sizeof(struct attn_mha_binding) + 63) / 64 * 64;
    for (uint32_t n = 0; n < 4; n++) {
        const struct attn_tensor *w = attn_operands_find(given, ATTN_W_Q + n);
        packed[n] = (struct packed){NULL, NULL};
        if (!w->dtype)
            continue;
        struct attn_gemm_layout layout = attn_gemm_layout(isa, w->dtype);
        packed[n].weights = cut(base, &used, attn_gemm_packed(&layout, w->shape[0], w->shape[1]));
        packed[n].bias = cut(base, &used, attn_gemm_biases(&layout, w->shape[0]));
    }
    return used;
}

int attn_mha_bind(const struct attn_plan *plan, const struct attn_tensor *tensors,
                  uint32_t n_tensors, struct attn_flash *job, struct attn_mha_binding **binding,
                  char *why, size_t size)
{
    const struct attn_services *services = plan->services;
    struct attn_operands given;
    struct packed packed[4];
    struct attn_mha_binding *made = NULL;
    attn_operands_set(&given, tensors, n_tensors);
    size_t bytes = lay_out_binding(&given, plan->mha->isa, NULL, packed);
    if (bytes != SIZE_MAX)
        made = services->alloc(services->context, bytes, 64);
    if (!made) {
        snprintf(why, size, "no memory for %zu bytes of packed weights", bytes);
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_mha_binding){.output = {0}};
    lay_out_binding(&given, plan->mha->isa, made, packed);
    attach_heads(plan, &given, job);
    attach_projections(plan, &given, made);
    for (uint32_t n = 0; n < 4; n++) {
        struct attn_gemm *gemm = n < 3 ? &made->inputs[n] : &made->output;
        if (!packed[n].weights)
            continue;
        attn_gemm_pack(&gemm->layout, attn_operands_find(&given, ATTN_W_Q + n), packed[n].weights);
        attn_gemm_pack_bias(&gemm->layout, attn_operands_find(&given, ATTN_B_Q + n), gemm->columns,
                            packed[n].bias);
        gemm->packed = packed[n].weights;
        gemm->bias = packed[n].bias;
    }
    *binding = made;
    return ATTN_OK;
}

struct errand {
    const struct attn_plan *plan;
    const struct attn_mha_binding *binding;
    const struct attn_flash *job;
};

static void project(const struct attn_plan *plan, const struct attn_gemm *gemm, int thread)
{
    struct attn_gemm_part part = attn_gemm_share(gemm, plan->mha->isa, thread, plan->threads);
    plan->mha->isa->run_gemm(gemm, &part, &plan->mha->scratch[thread]);
}

static void project_inputs(void *context, int thread)
{
    const struct errand *errand = context;
    for (int n = 0; n < 3; n++)
        project(errand->plan, &errand->binding->inputs[n], thread);
}

static void project_output(void *context, int thread)
{
    const struct errand *errand = context;
    project(errand->plan, &errand->binding->output, thread);
}

/* Sets the pruned heads of one row to zero, whatever they hold. */
static void prune_row(const struct attn_problem *heads, const struct attn_tensor *mask,
                      const struct attn_tensor *out, int64_t at)
{
    for (int64_t h = 0; h < heads->hq; h++)
        for (int64_t c = 0; c < heads->dv; c++)
            if (!((const uint8_t *)mask->data)[h * mask->stride[0]])
                attn_element_write(out->dtype, out->data,
                                   at + h * out->stride[1] + c * out->stride[3], 0.0f);
}

static void prune_heads(void *context, int thread)
{
    const struct errand *errand = context;
    const struct attn_problem *heads = &errand->plan->mha->heads;
    const struct attn_tensor *out = &errand->job->operands.out;
    int64_t rows = heads->b * heads->sq, threads = errand->plan->threads;
    for (int64_t r = rows * thread / threads; r < rows * (thread + 1) / threads; r++)
        prune_row(heads, &errand->binding->head_mask, out,
                  r / heads->sq * out->stride[0] + r % heads->sq * out->stride[2]);
}

void attn_mha_run(struct attn_plan *plan, const struct attn_mha_binding *binding,
                  const struct attn_flash *job)
{
    struct errand errand = {plan, binding, job};
    attn_pool_run(plan->pool, project_inputs, &errand);
    attn_plan_run(plan, job);
    if (binding->head_mask.data)
        attn_pool_run(plan->pool, prune_heads, &errand);
    if (binding->output.rows)
        attn_pool_run(plan->pool, project_output, &errand);
}
