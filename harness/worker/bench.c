/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - one plan timed by Google Benchmark, on operands of the worker's own. */
#include <math.h>
#include <stdio.h>

#include "host/walk.h"
#include "worker/caches.h"
#include "worker/clocks.h"
#include "worker/fault.h"
#include "worker/gbench_shim.h"
#include "worker/load.h"
#include "worker/serve.h"
#include "worker/slots.h"
#include "worker/team.h"
#include "worker/timing.h"

/* Runs of a cold sample: evicting costs milliseconds each time. */
#define COLD_RUNS 2

/* Read before each cold run: twice the last-level cache, but no more than this, which takes
 * milliseconds and is beyond twice the caches of one processor. A larger last level (480 MiB were
 * seen, shared with other machines) keeps what the backend has beside its operands; these are
 * flushed. */
#define EVICT_MOST ((size_t)64 << 20)

/* A device is given so many runs at once that they last so long: all launches but the first then
 * hide behind the run before. */
#define BATCH_S    1e-3
#define BATCH_MOST 64

/* Sets of operands that a cold device goes through in turn; so many of the smallest ones. */
#define ROTATED_MOST 1024

struct bench {
    struct attn_timing timing;
    void *const *rotated; /* [n_rotated] bindings that runs of a device are given in turn */
    uint32_t n_rotated, turn, batch;
    /* Processor time of a timed run of each set, the least of the samples of most runs, and what is
     * needed to tell it. */
    double usual[2], start;
    int64_t usual_runs[2], runs;
    struct attn_load load;      /* when the first sample began */
    const unsigned char *evict; /* what is read in place of all else; NULL when hot */
    size_t evict_bytes;
};

/* As attn_gbench_job wants it: are the outputs of the run that has just ended to be kept. */
static inline int answer(struct attn_timing *timing)
{
    if (timing->result != ATTN_OK)
        return -1;
    return timing->vary.countdown >= 0 && --timing->vary.countdown == 0;
}

static int hot_run(void *context)
{
    struct attn_timing *timing = &((struct bench *)context)->timing;
    attn_vary_step(&timing->vary);
    attn_timing_run(timing);
    return answer(timing);
}

static void keep(void *context)
{
    struct bench *bench = context;
    const double began = attn_clock_process();
    attn_vary_keep(&bench->timing.vary);
    bench->start += attn_clock_process() - began;
}

/* A sample has ended: what did a run of it take? */
static void note_usual(struct bench *bench)
{
    const uint32_t set = bench->timing.vary.set;
    int64_t *most = &bench->usual_runs[set];
    const double each =
        bench->runs > 0 ? (attn_clock_process() - bench->start) / (double)bench->runs : 0;
    bench->usual[set] = bench->runs < *most    ? bench->usual[set]
                        : bench->runs == *most ? fmin(bench->usual[set], each)
                                               : each;
    *most = bench->runs > *most ? bench->runs : *most;
    bench->runs = 0;
}

/* Before a sample: other inputs, and a run that finds them and may not write to them. */
static int before(void *context, int64_t n)
{
    struct bench *bench = context;
    struct attn_timing *timing = &bench->timing;
    struct attn_vary *vary = &timing->vary;
    note_usual(bench);
    if (attn_timing_find(timing, timing->is_long) != ATTN_OK)
        return -1;
    /* Back where they were, with their pages writable again. */
    for (uint32_t s = 0; s < 2 * vary->n_spots; s++)
        attn_vary_step(vary);
    attn_vary_draw(vary, n);
    bench->runs = n;
    bench->start = attn_clock_process();
    return timing->result == ATTN_OK ? 0 : -1;
}

/* Reads one word of every line, so that nothing else stays in the caches of this processor. */
static void evict_one(void *context, uint32_t i)
{
    const struct bench *bench = context;
    unsigned sum = 0;
    (void)i;
    for (size_t at = 0; at < bench->evict_bytes; at += 64)
        sum += bench->evict[at];
    __asm__ volatile("" : : "r"(sum));
}

/* Takes the operands out of all caches, those of other processors included. Elements only: what
 * lies between them may be a huge hole, which this would fill with pages. */
static void flush_operands(const struct attn_timing *timing)
{
#if defined(__x86_64__)
    for (uint32_t t = 0; t < timing->owned.n; t++) {
        const struct attn_tensor *tensor = &timing->owned.tensors[t];
        struct attn_walk walk;
        size_t offset;
        attn_walk_begin(&walk, tensor, timing->request->operands[t].element);
        while (attn_walk_next(&walk, &offset)) {
            const unsigned char *run = (const unsigned char *)tensor->data + offset;
            for (size_t at = 0; at < walk.run; at += 64)
                __builtin_ia32_clflush(run + at);
            __builtin_ia32_clflush(run + walk.run - 1);
        }
    }
    __builtin_ia32_mfence();
#else
    (void)timing;
#endif
}

/* The threads that do it are ours: what they take is not the backend's. */
static void evict(struct bench *bench, const struct attn_setup *setup)
{
    const struct attn_load from = attn_load_now();
    const double began = attn_clock_process();
    flush_operands(&bench->timing);
    if (attn_team_run(setup->n_processors, setup->processors, evict_one, bench) != 0)
        evict_one(bench, 0);
    attn_load_leave_out(&bench->load, &from);
    bench->start += attn_clock_process() - began;
}

/* A batch of runs by the device's own clock; *seconds of one of them. */
static int timed_batch(struct bench *bench, double *seconds)
{
    struct attn_timing *timing = &bench->timing;
    const struct attn_plan *plan = &timing->plan;
    const struct attn_backend *backend = plan->backend;
    char *why = timing->why;
    const size_t size = sizeof(timing->why);
    double ns = 0;
    const uint32_t batch = bench->batch;
    const double start = attn_clock_wall();
    timing->result = ATTN_OK;
    for (uint32_t r = 0; r < batch && timing->result == ATTN_OK; r++) {
        timing->result = backend->enqueue(bench->rotated[bench->turn], why, size);
        bench->turn = (bench->turn + 1) % bench->n_rotated;
    }
    if (timing->result == ATTN_OK)
        timing->result = backend->wait(plan->binding, why, size);
    const double wall = attn_clock_wall() - start;
    if (timing->result == ATTN_OK)
        timing->result = backend->time_device(plan->binding, &ns, why, size);
    *seconds = 1e-9 * ns;
    const double fit = *seconds > 0 ? BATCH_S / *seconds : 1;
    bench->batch = !(fit > 1) ? 1 : fit < BATCH_MOST ? (uint32_t)fit : BATCH_MOST;
    if (bench->evict) /* for each run */
        bench->batch = 1;
    /* A batch as long as it should be: the trial of one run may be shorter than what may be hidden.
     */
    const double hidden = wall - 2 * batch * *seconds;
    if (2 * batch >= bench->batch)
        timing->hidden = hidden < timing->hidden ? hidden : timing->hidden;
    return timing->result;
}

/* One run by the device's own clock where it has one, else by ours. */
static int timed_run(void *context, double *seconds)
{
    struct bench *bench = context;
    struct attn_timing *timing = &bench->timing;
    const struct attn_setup *setup = timing->plan.setup;
    const bool device = timing->plan.backend->enqueue != NULL;

    if (!device)
        attn_vary_step(&timing->vary);
    if (bench->evict)
        evict(bench, setup);
    if (device)
        return timed_batch(bench, seconds);
    const double start = attn_clock_wall();
    attn_timing_run(timing);
    *seconds = attn_clock_wall() - start;
    return answer(timing);
}

/* Samples of what `bench` says how to run. */
static void measure(struct bench *bench, struct attn_message_reply *reply)
{
    struct attn_timing *timing = &bench->timing;
    const struct attn_message_request *request = timing->request;
    const bool device = timing->plan.backend->enqueue != NULL;
    const bool self_timed = bench->evict || device;
    const bool varies = !device && request->second[0] > 0;
    const struct attn_gbench_job job = {
        .before = varies ? before : NULL,
        .keep = keep,
        .run = self_timed ? NULL : hot_run,
        .timed_run = self_timed ? timed_run : NULL,
        .context = bench,
        .min_time = request->min_time > 0 ? request->min_time : 1e-3,
        .iterations = timing->is_long ? 1
                      : bench->evict  ? COLD_RUNS
                                      : 0,
        .samples = timing->is_long || request->samples < 1 ? 1 : request->samples,
    };
    bench->load = attn_load_now();
    attn_slot_enter(ATTN_SLOT_RUN);
    const int n = attn_gbench_run(&job, ATTN_SAMPLES_MAX, reply->samples_ns, reply->cpu_ns,
                                  reply->iterations);
    note_usual(bench);
    if (attn_timing_leave(timing, bench->usual, reply) != 0)
        return;
    if (n < 1)
        attn_reply_set(reply, ATTN_ERROR, "no sample was taken");
    else if (attn_timing_check_clock(timing, reply) == 0 &&
             attn_load_check(&bench->load, timing->runs, timing->plan.setup, reply) == 0 &&
             attn_timing_check_found(timing, bench->usual, reply) == 0)
        reply->n_samples = (uint32_t)n;
}

/* Evicts the caches of the processors before each run. What is read for it is mapped once: its
 * pages take longer to come than a case to be timed. */
static void measure_evicted(struct bench *bench, struct attn_message_reply *reply)
{
    static unsigned char *evict;
    bench->evict_bytes = 2 * attn_last_cache_bytes();
#if defined(__x86_64__)
    bench->evict_bytes = bench->evict_bytes < EVICT_MOST ? bench->evict_bytes : EVICT_MOST;
#endif
    if (!evict) {
        void *mapped = NULL;
        size_t mapped_bytes = 0;
        evict = attn_memory_map(bench->evict_bytes, &mapped, &mapped_bytes);
        /* Untouched pages would all be the one zero page. */
        for (size_t at = 0; evict && at < bench->evict_bytes; at += 64)
            evict[at] = 1;
    }
    bench->evict = evict;
    if (evict)
        measure(bench, reply);
    else
        attn_reply_set(reply, ATTN_OOM, "no memory to evict the caches with");
}

/* Goes through as many bindings as take twice the device's cache, so that a run finds none of its
 * operands there. */
static void measure_rotated(struct bench *bench, uint64_t cache_bytes,
                            struct attn_message_reply *reply)
{
    const struct attn_message_request *request = bench->timing.request;
    const struct attn_tensor *tensors = bench->timing.owned.tensors;
    struct attn_plan *plan = &bench->timing.plan;
    void *bindings[ROTATED_MOST] = {plan->binding};
    uint64_t bytes = 1, n = 1;
    for (uint32_t t = 0; t < request->n_tensors; t++)
        bytes += request->operands[t].span;
    const uint64_t wanted = 1 + 2 * cache_bytes / bytes;
    while (n < wanted && n < ROTATED_MOST &&
           attn_plan_bind_another(plan, tensors, &bindings[n], reply) == 0)
        n++;
    bench->rotated = bindings;
    bench->n_rotated = (uint32_t)n;
    bench->turn = n > 1; /* the first has run before */
    if (reply->status == ATTN_PASS)
        measure(bench, reply);
    while (n > 1)
        attn_plan_release(plan, bindings[--n], reply);
}

static void measure_as_asked(struct bench *bench, struct attn_message_reply *reply)
{
    const struct attn_plan *plan = &bench->timing.plan;
    const bool cold = bench->timing.request->cold;
    const uint64_t cache_bytes = plan->backend->enqueue ? reply->before.cache_bytes : 0;
    bench->rotated = &plan->binding;
    bench->n_rotated = bench->batch = 1;
    if (cold && cache_bytes > 0)
        measure_rotated(bench, cache_bytes, reply);
    else if (cold)
        measure_evicted(bench, reply);
    else
        measure(bench, reply);
    reply->threads_seen = attn_threads_now();
}

/* A write to an input while it is protected is named after it. */
static void watch_faults(const struct attn_owned *owned)
{
    struct attn_fault_region regions[ATTN_MAX_TENSORS];
    for (uint32_t t = 0; t < owned->n; t++)
        regions[t] =
            (struct attn_fault_region){.begin = (uintptr_t)owned->mapped[t],
                                       .end = (uintptr_t)owned->mapped[t] + owned->bytes[t],
                                       .data = (uintptr_t)owned->tensors[t].data};
    attn_fault_watch(regions, owned->n);
}

void attn_serve_bench(struct attn_setup *setup, const struct attn_message_request *request,
                      const int fds[2], struct attn_message_reply *reply)
{
    struct bench bench = {.timing = {.request = request}};
    char why[256];

    if (attn_owned_create(request, fds, &bench.timing.owned, why, sizeof(why)) != 0) {
        attn_reply_set(reply, ATTN_OOM, "%s", why);
        return;
    }
    watch_faults(&bench.timing.owned);
    if (attn_timing_begin(&bench.timing, setup, reply) == 0)
        measure_as_asked(&bench, reply);
    attn_timing_end(&bench.timing, reply);
}
