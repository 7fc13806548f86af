/* SPDX-License-Identifier: Apache-2.0 */
/* mha.c - see mha.h */
#include "mha.h"

#include <stdio.h>
#include <string.h>

/* Buffers are those of q, k, v and, where w_o follows, of the heads' outputs. */
static int buffers(const struct attn_problem *problem)
{
    return attn_tensor_find(problem, ATTN_W_O) ? 4 : 3;
}

/* The next piece of a region that starts at `base`: rows * columns floats, aligned to 64 bytes.
 * With base NULL it only counts; *used becomes SIZE_MAX on overflow, and where columns are
 * negative. */
static void *cut(void *base, size_t *used, int64_t rows, int64_t columns)
{
    size_t at = *used, bytes;
    if (at == SIZE_MAX || __builtin_mul_overflow((size_t)rows, (size_t)columns, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof(float), &bytes) ||
        __builtin_add_overflow(bytes, (size_t)63, &bytes) ||
        __builtin_add_overflow(at, bytes / 64 * 64, used)) {
        *used = SIZE_MAX;
        return NULL;
    }
    return base ? (char *)base + at : NULL;
}

/* Lays out all memory; called once to learn its size and once to set the pointers. */
static size_t lay_out(struct attn_mha *mha, const struct attn_problem *problem, int threads,
                      void *base)
{
    size_t used = 0;
    mha->scratch = cut(base, &used, threads, ATTN_GEMM_SCRATCH);
    for (int n = 0; n < buffers(problem); n++) {
        struct attn_tensor *x = &mha->tensors[n];
        x->data = cut(base, &used, x->shape[0] * x->shape[2], x->stride[2]);
    }
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
    *mha = (struct attn_mha){.services = services};
    int status = attn_mha_heads(problem, mha, why, size);
    if (status == ATTN_OK)
        status = attn_plan_create(isa, &mha->heads, services, &made, why, size);
    if (status != ATTN_OK) {
        services->free(services->context, mha);
        return status;
    }
    made->mha = mha;
    size_t bytes = lay_out(mha, problem, made->threads, NULL);
    if (bytes != SIZE_MAX)
        mha->memory = services->alloc(services->context, bytes, 64);
    if (!mha->memory) {
        snprintf(why, size, "no memory for %zu bytes of projected heads", bytes);
        attn_mha_destroy(made);
        return ATTN_OUT_OF_MEMORY;
    }
    lay_out(mha, problem, made->threads, mha->memory);
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

static struct attn_view view_of(const struct attn_tensor *tensor)
{
    struct attn_view view = {0};
    if (!tensor)
        return view;
    view.data = tensor->data;
    view.dtype = tensor->dtype;
    memcpy(view.stride, tensor->stride, sizeof view.stride);
    return view;
}

/* Heads side by side again: [B,H,S,D] as [B,S,H*D]. */
static struct attn_view join(const struct attn_tensor *heads)
{
    return (struct attn_view){.data = heads->data,
                              .stride = {heads->stride[0], heads->stride[2], heads->stride[3]},
                              .dtype = heads->dtype};
}

/* y = x w^T + bias with a row for each of `heads`. */
static struct attn_gemm projection(struct attn_view x, const struct attn_tensor *heads,
                                   const struct attn_tensor *w, struct attn_view y)
{
    return (struct attn_gemm){.rows = heads->shape[0] * heads->shape[2],
                              .batch_rows = heads->shape[2],
                              .inner = w->shape[1],
                              .columns = w->shape[0],
                              .x = x,
                              .y = y};
}

/* The tensors of the heads: those that were given, and our buffers. */
static void attach_heads(const struct attn_plan *plan, const struct attn_problem *given,
                         struct attn_flash *job)
{
    struct attn_tensor tensors[ATTN_MHA_TENSORS];
    uint32_t n_tensors = plan->mha->heads.n_tensors;
    for (uint32_t t = 0; t < n_tensors; t++) {
        tensors[t] = plan->mha->tensors[t];
        if (!tensors[t].data)
            tensors[t].data = attn_tensor_find(given, tensors[t].role)->data;
    }
    attn_plan_attach(job, tensors, n_tensors);
}

/* All but the packed weights. */
static void attach_projections(const struct attn_mha *mha, const struct attn_problem *given,
                               struct attn_mha_binding *binding)
{
    const struct attn_tensor *x = NULL, *w_o = attn_tensor_find(given, ATTN_W_O);
    for (uint32_t n = 0; n < 3; n++) {
        const struct attn_tensor *own = attn_tensor_find(given, ATTN_X_Q + n);
        x = own ? own : x; /* x_k absent: x_q; x_v absent: x_k */
        binding->inputs[n] =
            projection(view_of(x), &mha->tensors[n], attn_tensor_find(given, ATTN_W_Q + n),
                       join(&mha->tensors[n]));
    }
    binding->head_mask = view_of(attn_tensor_find(given, ATTN_HEAD_MASK));
    if (mha->residual)
        binding->residual = view_of(attn_tensor_find(given, ATTN_X_Q));
    if (!w_o)
        return;
    binding->output = projection(join(&mha->tensors[3]), &mha->tensors[3], w_o,
                                 view_of(attn_tensor_find(given, ATTN_OUT)));
    binding->output.add = binding->residual;
    binding->residual.data = NULL;
}

/* Lays out a binding and its packed weights; called once to learn its size and once to set the
 * pointers. */
static size_t lay_out_binding(const struct attn_problem *given, int nr, void *base,
                              float *packed[4])
{
    size_t used = (sizeof(struct attn_mha_binding) + 63) / 64 * 64;
    for (uint32_t n = 0; n < 4; n++) {
        const struct attn_tensor *w = attn_tensor_find(given, ATTN_W_Q + n);
        packed[n] = w ? cut(base, &used, 1, attn_gemm_packed(w->shape[0], w->shape[1], nr)) : NULL;
    }
    return used;
}

int attn_mha_bind(const struct attn_plan *plan, const struct attn_tensor *tensors,
                  uint32_t n_tensors, struct attn_flash *job, struct attn_mha_binding **binding,
                  char *why, size_t size)
{
    const struct attn_services *services = plan->services;
    const struct attn_problem given = {.n_tensors = n_tensors, .tensors = tensors};
    float *packed[4];
    struct attn_mha_binding *made = NULL;
    size_t bytes = lay_out_binding(&given, plan->isa->nr, NULL, packed);
    if (bytes != SIZE_MAX)
        made = services->alloc(services->context, bytes, 64);
    if (!made) {
        snprintf(why, size, "no memory for %zu bytes of packed weights", bytes);
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_mha_binding){.output = {0}};
    lay_out_binding(&given, plan->isa->nr, made, packed);
    attach_heads(plan, &given, job);
    attach_projections(plan->mha, &given, made);
    for (uint32_t n = 0; n < 4; n++) {
        struct attn_gemm *gemm = n < 3 ? &made->inputs[n] : &made->output;
        gemm->packed = packed[n];
        if (packed[n])
            attn_gemm_pack(attn_tensor_find(&given, ATTN_W_Q + n),
                           attn_tensor_find(&given, ATTN_B_Q + n), plan->isa->nr, packed[n]);
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
    struct attn_gemm_part part = attn_gemm_share(gemm, plan->isa, thread, plan->threads);
    plan->isa->run_gemm(gemm, &part, plan->mha->scratch + (int64_t)thread * ATTN_GEMM_SCRATCH);
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

/* Zeroes the pruned heads of one row of heads, whatever they hold. */
static void prune_row(const struct attn_problem *heads, const struct attn_view *mask, float *row,
                      const int64_t *stride)
{
    for (int64_t h = 0; h < heads->hq; h++)
        for (int64_t c = 0; c < heads->dv; c++)
            if (!((const uint8_t *)mask->data)[h * mask->stride[0]])
                row[h * stride[1] + c * stride[3]] = 0.0f;
}

/* Pruned heads, then the residual where no output projection adds it. */
static void finish_heads(void *context, int thread)
{
    const struct errand *errand = context;
    const struct attn_problem *heads = &errand->plan->mha->heads;
    const struct attn_view *mask = &errand->binding->head_mask, *x = &errand->binding->residual;
    const int64_t *stride = errand->job->out.stride;
    int64_t rows = heads->b * heads->sq, threads = errand->plan->threads;
    for (int64_t r = rows * thread / threads; r < rows * (thread + 1) / threads; r++) {
        int64_t b = r / heads->sq, i = r % heads->sq;
        float *y = (float *)errand->job->out.data + b * stride[0] + i * stride[2];
        if (mask->data)
            prune_row(heads, mask, y, stride);
        if (!x->data)
            continue;
        const float *add = (const float *)x->data + b * x->stride[0] + i * x->stride[1];
        for (int64_t o = 0; o < heads->hq * heads->dv; o++)
            y[o * stride[3]] += add[o * x->stride[2]];
    }
}

void attn_mha_run(struct attn_plan *plan, const struct attn_mha_binding *binding,
                  const struct attn_flash *job)
{
    struct errand errand = {plan, binding, job};
    attn_pool_run(plan->pool, project_inputs, &errand);
    attn_plan_run(plan, job);
    if (binding->head_mask.data || binding->residual.data)
        attn_pool_run(plan->pool, finish_heads, &errand);
    if (binding->output.packed)
        attn_pool_run(plan->pool, project_output, &errand);
}
