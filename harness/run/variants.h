/* SPDX-License-Identifier: Apache-2.0 */
/* variants.h - the inputs that the runs of a timing have, and a judge for each of them. */
#ifndef ATTN_VARIANTS_H
#define ATTN_VARIANTS_H

#include "host/worker.h"
#include "judge/judge.h"

/* States are those of enum attn_state: the case's inputs or those of a twin, with all spots at home
 * or away; and one of those between, chosen at random. */
struct attn_variants {
    struct attn_instance *base; /* not owned */
    struct attn_instance *twin;
    struct attn_judge
        *judges[ATTN_STATES]; /* made when first asked; that of state 0 is not owned */
    struct attn_spot spots[ATTN_SPOTS_MAX];
    uint32_t n_spots, mixed; /* as in struct attn_bench_params */
    bool scrambles;          /* as there */
    int threads;
};

/* `judge` is that of the instance as it is. Without memory for a twin all inputs stay as they are.
 */
void attn_variants_create(struct attn_instance *base, struct attn_judge *judge, int threads,
                          struct attn_variants *variants);
void attn_variants_free(struct attn_variants *variants);

/* Judges the outputs of the last run and of the one drawn at random, as attn_worker_bench has left
 * them in the instances and their states in `reply`. The verdict is that of the first that fails.
 */
void attn_variants_judge(struct attn_variants *variants, const struct attn_bench_reply *reply,
                         const struct attn_numerics *numerics, bool approximate,
                         struct attn_judgement *verdict);

#endif
