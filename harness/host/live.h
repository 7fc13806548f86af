/* SPDX-License-Identifier: Apache-2.0 */
/* live.h - a plan that stays bound in its worker and is timed batch by batch, so that two workers
 * can take turns every fraction of a millisecond.
 *
 * Inputs vary as in a bench request: an element changes before each run, and the inputs of `twin`
 * take their place when a batch asks for it. A batch is a fixed number of runs. An untimed run goes
 * before it, because the other worker has had the caches, unless a run takes over 10 ms. */
#ifndef ATTN_HOST_LIVE_H
#define ATTN_HOST_LIVE_H

#include "host/types.h"
#include "host/worker.h"

struct attn_live_params {
    int64_t iterations;         /* runs of a batch; 0: as many as take 0.2 ms at most, at least 1 */
    struct attn_instance *twin; /* as in struct attn_bench_params */
    const struct attn_spot *spots; /* [n_spots] */
    uint32_t n_spots, mixed;
    bool scrambles;
};

struct attn_live;

/* Makes and binds a plan, runs it a few times and leaves it ready. On PASS *live is set and *first
 * says how it is going to be timed. The worker serves nothing else until attn_live_end. `instance`
 * and the twin must live until then. */
struct attn_outcome attn_live_begin(struct attn_worker *worker, struct attn_instance *instance,
                                    const struct attn_live_params *params, struct attn_live **live,
                                    struct attn_live_sample *first);

/* One batch. exchange: the inputs of the other set take their place first. After anything but PASS
 * only attn_live_end may follow. */
struct attn_outcome attn_live_batch(struct attn_live *live, bool exchange,
                                    struct attn_live_sample *sample);

/* The checks that end a bench request, too; frees `live`. On PASS the outputs of the last run are
 * in the instance, those of the run drawn at random in the twin, and `reply` has their states.
 * Returns the outcome of a batch that failed. */
struct attn_outcome attn_live_end(struct attn_live *live, struct attn_bench_reply *reply,
                                  struct attn_plan_info *info);

#endif
