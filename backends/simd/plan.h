/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - what the plugin can do, and how it goes about one problem: blocking, scratch memory,
 * threads and the share of each. */
#ifndef ATTN_SIMD_PLAN_H
#define ATTN_SIMD_PLAN_H

#include <stdatomic.h>
#include <stddef.h>

#include "blocking.h"
#include "flash.h"
#include "pool.h"
#include "share.h"

struct attn_mha;

struct attn_plan {
    const struct attn_services *services;
    const struct attn_flash_isa *isa;
    struct attn_caches caches; /* that the blocking is for */
    struct attn_flash job;     /* without data pointers */
    int64_t items;
    int threads;
    struct attn_pool *pool;
    struct attn_flash_scratch *scratch; /* [threads] */
    struct attn_share *share;           /* [threads + 1] */
    atomic_int *left;                   /* [b * groups] parts of the keys yet to be completed */
    void *memory;                       /* holds all of these, what they name, and job.parts */
    struct attn_mha *mha;               /* the projections around it (mha.h); NULL: none */
};

/* Of attention and of multi-head attention. ATTN_OK, or ATTN_UNSUPPORTED with the reason. */
int attn_plan_supports(const struct attn_problem *problem, char *why, size_t size);

/* Makes a plan for a problem that is supported; frees all on failure. */
int attn_plan_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                     const struct attn_services *services, struct attn_plan **plan, char *why,
                     size_t size);
void attn_plan_destroy(struct attn_plan *plan);

/* Computes a job of this plan with all its threads. */
void attn_plan_run(struct attn_plan *plan, const struct attn_flash *job);

#endif
