/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - one problem: what is supported, and how it is computed. Blocking, scratch memory,
 * threads and their shares. */
#ifndef ATTN_SIMD_PLAN_H
#define ATTN_SIMD_PLAN_H

#include <stdatomic.h>
#include <stddef.h>

#include "blocking.h"
#include "flash.h"
#include "pool.h"
#include "share.h"

struct attn_mha;
struct attn_projected;
struct attn_landmarks;
struct attn_backward;

struct attn_plan {
    const struct attn_services *services;
    const struct attn_flash_isa *isa;
    struct attn_caches caches; /* the blocking is for these */
    struct attn_flash job;     /* without data pointers */
    int64_t items;
    int threads;
    struct attn_pool *pool;
    struct attn_flash_scratch *scratch; /* [threads] */
    struct attn_share *share;           /* [threads + 1] */
    atomic_int *left;                 /* [b * groups] parts of the keys that are not complete yet */
    void *memory;                     /* holds these arrays, what they point to, and job.parts */
    struct attn_mha *mha;             /* the projections around it (mha.h); NULL: none */
    struct attn_landmarks *landmarks; /* what comes before the rows of out (landmarks.h), or NULL */
    struct attn_projected *projected; /* keys that are projected first (projected.h), or NULL */
    struct attn_backward *backward;   /* gradients (backward.h), or NULL */
    const struct attn_problem *recurrent; /* items are those of recurrent.h; NULL: attention */
};

/* For attention and multi-head attention: ATTN_OK, or ATTN_UNSUPPORTED with the reason. */
int attn_plan_supports(const struct attn_problem *problem, char *why, size_t size);

/* Makes a plan for attention that is supported. The problem must outlive it. Frees all on failure.
 */
int attn_plan_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                     const struct attn_services *services, struct attn_plan **plan, char *why,
                     size_t size);
void attn_plan_destroy(struct attn_plan *plan);

/* Computes a job of this plan with all its threads. */
void attn_plan_run(struct attn_plan *plan, const struct attn_flash *job);

#endif
