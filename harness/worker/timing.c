/* SPDX-License-Identifier: Apache-2.0 */
/* timing.c - one plan timed on operands of the worker's own. */
#include <stdio.h>
#include <time.h>

#include "worker/caches.h"
#include "worker/fresh.h"
#include "worker/gbench_shim.h"
#include "worker/memory.h"
#include "worker/serve.h"
#include "worker/slots.h"
#include "worker/team.h"

/* A run that takes longer is its own sample, and the only one of its round. */
#define LONG_RUN_S 0.1

/* Runs of a cold sample: evicting costs milliseconds each time. */
#define COLD_RUNS 2

/* A device is given so many runs at once that they last so long: all launches but the first then
 * hide behind the run before. */
#define BATCH_S    1e-3
#define BATCH_MOST 64

/* Sets of operands that a cold device goes through in turn; so many of the smallest ones. */
#define ROTATED_MOST 1024

struct timing {
    const struct attn_backend *backend;
    void *binding;
    void *const *rotated; /* [n_rotated] bindings that runs of a device are given in turn */
    uint32_t n_rotated, turn, batch;
    int result; /* of the slot that ended the measurement */
    char why[256];
    const struct attn_setup *setup;
    const unsigned char *evict; /* 2 x the last-level cache; NULL when hot */
    size_t evict_bytes;
};

static int hot_run(void *context)
{
    struct timing *timing = context;
    return timing->result = timing->backend->run(timing->binding, timing->why, sizeof(timing->why));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads one word of every line, so that nothing else stays in the caches of this processor. */
static void evict_one(void *context, uint32_t i)
{
    const struct timing *timing = context;
    unsigned sum = 0;
    (void)i;
    for (size_t at = 0; at < timing->evict_bytes; at += 64)
        sum += timing->evict[at];
    __asm__ volatile("" : : "r"(sum));
}

/* A batch of runs by the device's own clock; *seconds of one of them. */
static int timed_batch(struct timing *timing, double *seconds)
{
    const struct attn_backend *backend = timing->backend;
    char *why = timing->why;
    const size_t size = sizeof(timing->why);
    double ns = 0;
    timing->result = ATTN_OK;
    for (uint32_t r = 0; r < timing->batch && timing->result == ATTN_OK; r++) {
        timing->result = backend->enqueue(timing->rotated[timing->turn], why, size);
        timing->turn = (timing->turn + 1) % timing->n_rotated;
    }
    if (timing->result == ATTN_OK)
        timing->result = backend->wait(timing->binding, why, size);
    if (timing->result == ATTN_OK)
        timing->result = backend->time_device(timing->binding, &ns, why, size);
    *seconds = 1e-9 * ns;
    const double fit = *seconds > 0 ? BATCH_S / *seconds : 1;
    timing->batch = !(fit > 1) ? 1 : fit < BATCH_MOST ? (uint32_t)fit : BATCH_MOST;
    if (timing->evict) /* for each run */
        timing->batch = 1;
    return timing->result;
}

/* One run by the device's own clock where it has one, else by ours. */
static int timed_run(void *context, double *seconds)
{
    struct timing *timing = context;
    const struct attn_backend *backend = timing->backend;

    if (timing->evict && attn_team_run(timing->setup->n_processors, timing->setup->processors,
                                       evict_one, timing) != 0)
        evict_one(timing, 0);
    if (backend->enqueue)
        return timed_batch(timing, seconds);
    const double start = now();
    timing->result = backend->run(timing->binding, timing->why, sizeof(timing->why));
    *seconds = now() - start;
    return timing->result;
}

/* Samples of what `timing` says how to run. */
static void measure(struct timing *timing, const struct attn_message_request *request,
                    double warm_up, struct attn_message_reply *reply)
{
    const bool is_long = warm_up > LONG_RUN_S;
    const bool self_timed = timing->evict || timing->backend->enqueue;
    const struct attn_gbench_job job = {
        .run = self_timed ? NULL : hot_run,
        .timed_run = self_timed ? timed_run : NULL,
        .context = timing,
        .min_time = request->min_time > 0 ? request->min_time : 1e-3,
        .iterations = is_long         ? 1
                      : timing->evict ? COLD_RUNS
                                      : 0,
        .samples = is_long || request->samples < 1 ? 1 : request->samples,
    };
    char broken[128];
    attn_slot_enter(ATTN_SLOT_RUN);
    const int n = attn_gbench_run(&job, ATTN_SAMPLES_MAX, reply->samples_ns, reply->iterations);
    const int state = attn_slot_leave(broken, sizeof(broken));
    timing->why[sizeof(timing->why) - 1] = 0;
    if (timing->result != ATTN_OK)
        attn_reply_result(reply, ATTN_SLOT_RUN, timing->result, timing->why);
    else if (state != 0)
        attn_reply_set(reply, ATTN_FAIL, "%s, in %s", broken, attn_slot_name(ATTN_SLOT_RUN));
    else if (n < 1)
        attn_reply_set(reply, ATTN_ERROR, "no sample was taken");
    else
        reply->n_samples = (uint32_t)n;
}

/* What was timed must have been computed in that time. */
static void run_fresh(struct attn_plan *plan, const struct attn_message_request *request,
                      const struct attn_owned *owned, struct attn_message_reply *reply)
{
    const uint32_t t = attn_fresh_input(request);
    if (t == UINT32_MAX)
        return;
    attn_fresh_turn(&owned->tensors[t], request->operands[t].element);
    attn_fresh_run(plan, request, owned->tensors, reply);
    attn_fresh_turn(&owned->tensors[t], request->operands[t].element);
}

/* Evicts the caches of the processors before each run. What is read for it is mapped once: its
 * pages take longer to come than a case to be timed. */
static void measure_evicted(struct timing *timing, const struct attn_message_request *request,
                            double warm_up, struct attn_message_reply *reply)
{
    static unsigned char *evict;
    timing->evict_bytes = 2 * attn_last_cache_bytes();
    if (!evict) {
        void *mapped = NULL;
        size_t mapped_bytes = 0;
        evict = attn_memory_map(timing->evict_bytes, &mapped, &mapped_bytes);
        /* Untouched pages would all be the one zero page. */
        for (size_t at = 0; evict && at < timing->evict_bytes; at += 64)
            evict[at] = 1;
    }
    timing->evict = evict;
    if (evict)
        measure(timing, request, warm_up, reply);
    else
        attn_reply_set(reply, ATTN_OOM, "no memory to evict the caches with");
}

/* Goes through as many bindings as take twice the device's cache, so that a run finds none of its
 * operands there. */
static void measure_rotated(struct timing *timing, struct attn_plan *plan,
                            const struct attn_message_request *request,
                            const struct attn_owned *owned, uint64_t cache_bytes, double warm_up,
                            struct attn_message_reply *reply)
{
    void *bindings[ROTATED_MOST] = {plan->binding};
    uint64_t bytes = 1, n = 1;
    for (uint32_t t = 0; t < request->n_tensors; t++)
        bytes += request->operands[t].span;
    const uint64_t wanted = 1 + 2 * cache_bytes / bytes;
    while (n < wanted && n < ROTATED_MOST &&
           attn_plan_bind_another(plan, owned->tensors, &bindings[n], reply) == 0)
        n++;
    timing->rotated = bindings;
    timing->n_rotated = (uint32_t)n;
    timing->turn = n > 1; /* the first has run before */
    if (reply->status == ATTN_PASS)
        measure(timing, request, warm_up, reply);
    while (n > 1)
        attn_plan_release(plan, bindings[--n], reply);
}

static void run_all(struct attn_plan *plan, const struct attn_message_request *request,
                    const struct attn_owned *owned, struct attn_message_reply *reply)
{
    double warm_up;
    if (attn_plan_bind(plan, owned->tensors, reply) != 0 ||
        attn_plan_run(plan, &warm_up, reply) != 0 ||
        attn_device_ask(plan->backend, &reply->before, reply) != 0)
        return;
    struct timing timing = {.backend = plan->backend,
                            .binding = plan->binding,
                            .rotated = &plan->binding,
                            .n_rotated = 1,
                            .batch = 1,
                            .setup = plan->setup};
    const uint64_t cache_bytes = plan->backend->enqueue ? reply->before.cache_bytes : 0;
    if (request->cold && cache_bytes > 0)
        measure_rotated(&timing, plan, request, owned, cache_bytes, warm_up, reply);
    else if (request->cold)
        measure_evicted(&timing, request, warm_up, reply);
    else
        measure(&timing, request, warm_up, reply);
    reply->threads_seen = attn_threads_now();
    if (reply->status == ATTN_PASS && attn_device_ask(plan->backend, &reply->after, reply) == 0 &&
        attn_plan_fetch(plan, reply) == 0 && warm_up <= LONG_RUN_S &&
        plan->backend->exactness != ATTN_NONE)
        run_fresh(plan, request, owned, reply);
}

void attn_serve_bench(struct attn_setup *setup, const struct attn_message_request *request,
                      const int fds[2], struct attn_message_reply *reply)
{
    struct attn_owned owned;
    struct attn_plan plan;
    uint32_t changed;
    char why[256];

    if (attn_owned_create(request, fds, &owned, why, sizeof(why)) != 0) {
        attn_reply_set(reply, ATTN_OOM, "%s", why);
        return;
    }
    if (attn_plan_open(setup, request, &plan, reply) == 0)
        run_all(&plan, request, &owned, reply);
    attn_plan_close(&plan, reply);
    if (reply->status == ATTN_PASS) {
        attn_owned_return(request, &owned);
        /* The host words it: it knows the operand by name. */
        reply->modified = attn_owned_check(request, &owned, &changed) != 0 ? changed + 1 : 0;
    }
    attn_owned_free(&owned);
}
