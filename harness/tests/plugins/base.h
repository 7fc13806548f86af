/* SPDX-License-Identifier: Apache-2.0 */
/* base.h - a correct tiny attention (dense f32, no features), from which each test plugin differs
 * in one way. */
#ifndef ATTN_TEST_PLUGIN_BASE_H
#define ATTN_TEST_PLUGIN_BASE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "attnbench/backend.h"

struct base_binding {
    struct attn_problem problem;
    const float *q, *k, *v;
    float *out;
    int64_t out_row; /* stride of a row of out, in elements */
    int64_t out_elements;
};

static inline int base_score_known(uint32_t score)
{
    return score == ATTN_SCORE_SCALED_DOT || score == ATTN_SCORE_DOT;
}

/* q, k, v and out, in f32 and in the host's memory. */
static inline int base_operands_known(const struct attn_problem *problem)
{
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        const struct attn_tensor *x = &problem->tensors[t];
        if ((x->role != ATTN_Q && x->role != ATTN_K && x->role != ATTN_V && x->role != ATTN_OUT) ||
            x->dtype != ATTN_F32 || x->space != ATTN_HOST || x->device != 0)
            return 0;
    }
    return 1;
}

static inline int base_supports(const struct attn_problem *problem,
                                const struct attn_services *services, char *why, size_t size)
{
    (void)services;
    if (problem->op == ATTN_OP_ATTENTION && base_score_known(problem->score) &&
        problem->dtype == ATTN_F32 && problem->flags == 0 &&
        problem->struct_size >= sizeof(*problem) && base_operands_known(problem))
        return ATTN_OK;
    snprintf(why, size, "only plain f32 attention");
    return ATTN_UNSUPPORTED;
}

/* Of the last plan; all are the same. */
static const struct attn_services *base_services;

static inline int base_create(const struct attn_problem *problem,
                              const struct attn_services *services, void **plan, char *why,
                              size_t size)
{
    struct attn_problem *copy = services->alloc(services->context, sizeof(*copy), 64);
    if (!copy) {
        snprintf(why, size, "no memory for a plan");
        return ATTN_OUT_OF_MEMORY;
    }
    *copy = *problem;
    *plan = copy;
    base_services = services;
    return ATTN_OK;
}

static inline void base_numerics(const void *plan, struct attn_numerics *numerics)
{
    (void)plan;
    numerics->acc_type = ATTN_F32;
    numerics->e_exp = 0x1p-23;
    numerics->source = "a test";
}

static inline int base_bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors,
                            void **binding, char *why, size_t size)
{
    struct base_binding *b = malloc(sizeof(*b));
    if (!b) {
        snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    b->problem = *(const struct attn_problem *)plan;
    b->problem.tensors = tensors;
    b->problem.n_tensors = n_tensors;
    const struct attn_tensor *out = attn_tensor_find(&b->problem, ATTN_OUT);
    b->q = attn_tensor_find(&b->problem, ATTN_Q)->data;
    b->k = attn_tensor_find(&b->problem, ATTN_K)->data;
    b->v = attn_tensor_find(&b->problem, ATTN_V)->data;
    b->out = out->data;
    b->out_row = out->stride[2];
    b->out_elements = b->problem.sq * b->problem.dv;
    *binding = b;
    return ATTN_OK;
}

static inline float base_score(const struct base_binding *b, int64_t i, int64_t j)
{
    const int64_t width = b->problem.dk;
    float s = 0;
    for (int64_t c = 0; c < width; c++)
        s += b->q[i * width + c] * b->k[j * width + c];
    return s * (float)b->problem.scale;
}

/* One batch, one head. Without `stable` no maximum is taken off the scores. */
static inline void base_attend(const struct base_binding *b, int stable)
{
    const struct attn_problem *p = &b->problem;
    for (int64_t i = 0; i < p->sq; i++) {
        float sum = 0, max = -INFINITY;
        for (int64_t c = 0; c < p->dv; c++)
            b->out[i * b->out_row + c] = 0;
        for (int64_t j = 0; j < p->sk; j++)
            max = fmaxf(max, base_score(b, i, j));
        for (int64_t j = 0; j < p->sk; j++) {
            const float e = expf(base_score(b, i, j) - (stable ? max : 0));
            sum += e;
            for (int64_t c = 0; c < p->dv; c++)
                b->out[i * b->out_row + c] += e * b->v[j * p->dv + c];
        }
        for (int64_t c = 0; c < p->dv; c++)
            b->out[i * b->out_row + c] /= sum;
    }
}

static inline int base_run(void *binding, char *why, size_t size)
{
    (void)why;
    (void)size;
    base_attend(binding, 1);
    return ATTN_OK;
}

/* An access that faults. Not quite NULL, and out of the compiler's sight: it would warn. */
static inline void base_fault(void)
{
    volatile uintptr_t address = 64;
    *(volatile int *)address = 1;
}

/* Gives the calling process a name that no other has, and prints it: its number is one of its own
 * namespace. */
static inline void base_tell_name(void)
{
    struct timespec now;
    char name[16];
    timespec_get(&now, TIME_UTC);
    snprintf(name, sizeof(name), "t%07lx%07lx", (unsigned long)now.tv_nsec & 0xfffffff,
             (unsigned long)now.tv_sec & 0xfffffff);
    prctl(PR_SET_NAME, name);
    printf("name %s\n", name);
    fflush(stdout);
}

static inline void base_release(void *binding)
{
    free(binding);
}

static inline void base_destroy(void *plan)
{
    if (base_services)
        base_services->free(base_services->context, plan);
}

/* The slots that are alike in most backends here. */
#define BASE_SLOTS                                                                                 \
    .supports = base_supports, .bind = base_bind, .release = base_release, .destroy = base_destroy

/* Everything of a backend but create and run, as compiled with the first header of this version. */
#define BASE_BACKEND                                                                               \
    .struct_size = offsetof(struct attn_backend, device), .name = "test",                          \
    .description = "a test backend", BASE_SLOTS, .numerics = base_numerics

#define BASE_PLUGIN(table)                                                                         \
    .abi_version = ATTN_ABI_VERSION, .struct_size = sizeof(struct attn_plugin),                    \
    .n_backends = sizeof(table) / sizeof((table)[0]), .backends = (table)

#endif
