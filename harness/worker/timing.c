/* SPDX-License-Identifier: Apache-2.0 */
/* timing.c - one plan timed on operands of the worker's own. */
#include <math.h>
#include <stdio.h>

#include "worker/caches.h"
#include "worker/clocks.h"
#include "worker/fault.h"
#include "worker/fresh.h"
#include "worker/gbench_shim.h"
#include "worker/load.h"
#include "worker/serve.h"
#include "worker/slots.h"
#include "worker/team.h"
#include "worker/timing.h"
#include "worker/vary.h"

/* A run that takes longer is its own sample, and the only one of its round. */
#define LONG_RUN_S 0.1

/* Runs of a cold sample: evicting costs milliseconds each time. */
#define COLD_RUNS 2

/* A device is given so many runs at once that they last so long: all launches but the first then
 * hide behind the run before. */
#define BATCH_S    1e-3
#define BATCH_MOST 64

/* What a run that finds all inputs changed may take beyond a timed one, of which one element has
 * changed: so many times as long, and this much more. Caches and pages are warmer in a timed one.
 */
#define FRESH_TIMES 4
#define FRESH_S     2e-4

/* How long the end of a timing is watched for what still computes or writes. */
#define SETTLE_S 0.05

/* What the calls around a batch may take beyond twice the device's own time. */
#define LAUNCH_S 2e-4

/* A fetch copies results; a slow link copies so much in a second, and sets out within this time. */
#define FETCH_BYTES_S 1e8
#define FETCH_S       1e-2
#define FETCH_TRIES   5

/* Sets of operands that a cold device goes through in turn; so many of the smallest ones. */
#define ROTATED_MOST 1024

struct timing {
    const struct attn_backend *backend;
    void *binding;
    void *const *rotated; /* [n_rotated] bindings that runs of a device are given in turn */
    uint32_t n_rotated, turn, batch;
    struct attn_vary *vary;
    bool is_long;  /* a run is a sample of its own */
    double hidden; /* the least time that the device's clock has left out of a batch */
    /* Processor time: the least of a run that found all inputs changed; that of a timed run, in the
     * samples of most runs; and what is needed to tell the latter. */
    double fresh, usual, start;
    int64_t usual_runs, runs;
    int result; /* of the slot that ended the measurement */
    char why[256];
    const struct attn_setup *setup;
    const unsigned char *evict; /* 2 x the last-level cache; NULL when hot */
    size_t evict_bytes;
};

/* The work of a backend without a device: what its `fetch` does is part of it. */
static inline int run_host(struct timing *timing)
{
    const struct attn_backend *backend = timing->backend;
    timing->result = backend->run(timing->binding, timing->why, sizeof(timing->why));
    if (backend->fetch && timing->result == ATTN_OK)
        timing->result = backend->fetch(timing->binding, timing->why, sizeof(timing->why));
    return timing->result;
}

/* As attn_gbench_job wants it: are the outputs of the run that has just ended to be kept. */
static inline int answer(struct timing *timing)
{
    if (timing->result != ATTN_OK)
        return -1;
    return timing->vary->countdown >= 0 && --timing->vary->countdown == 0;
}

static int hot_run(void *context)
{
    struct timing *timing = context;
    attn_vary_step(timing->vary);
    run_host(timing);
    return answer(timing);
}

static void keep(void *context)
{
    struct timing *timing = context;
    attn_vary_keep(timing->vary);
}

/* A sample has ended: what did a run of it take? */
static void note_usual(struct timing *timing)
{
    const double each =
        timing->runs > 0 ? (attn_clock_process() - timing->start) / (double)timing->runs : 0;
    if (timing->runs > timing->usual_runs)
        timing->usual = each;
    else if (timing->runs == timing->usual_runs)
        timing->usual = fmax(timing->usual, each);
    timing->usual_runs = timing->runs > timing->usual_runs ? timing->runs : timing->usual_runs;
    timing->runs = 0;
}

/* Before a sample: other inputs, and a run that finds them and may not write to them. */
static int before(void *context, int64_t n)
{
    struct timing *timing = context;
    struct attn_vary *vary = timing->vary;
    note_usual(timing);
    attn_vary_exchange(vary);
    if (!timing->is_long) {
        attn_vary_protect(vary, true);
        const double start = attn_clock_process();
        run_host(timing);
        timing->fresh = fmin(timing->fresh, attn_clock_process() - start);
        attn_vary_protect(vary, false);
        /* Back where they were, with their pages writable again. */
        for (uint32_t s = 0; s < 2 * vary->n_spots; s++)
            attn_vary_step(vary);
    }
    attn_vary_draw(vary, n);
    timing->runs = n;
    timing->start = attn_clock_process();
    return timing->result == ATTN_OK ? 0 : -1;
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
    const uint32_t batch = timing->batch;
    const double start = attn_clock_wall();
    timing->result = ATTN_OK;
    for (uint32_t r = 0; r < batch && timing->result == ATTN_OK; r++) {
        timing->result = backend->enqueue(timing->rotated[timing->turn], why, size);
        timing->turn = (timing->turn + 1) % timing->n_rotated;
    }
    if (timing->result == ATTN_OK)
        timing->result = backend->wait(timing->binding, why, size);
    const double wall = attn_clock_wall() - start;
    if (timing->result == ATTN_OK)
        timing->result = backend->time_device(timing->binding, &ns, why, size);
    *seconds = 1e-9 * ns;
    const double fit = *seconds > 0 ? BATCH_S / *seconds : 1;
    timing->batch = !(fit > 1) ? 1 : fit < BATCH_MOST ? (uint32_t)fit : BATCH_MOST;
    if (timing->evict) /* for each run */
        timing->batch = 1;
    /* A batch as long as it should be: the trial of one run may be shorter than what may be hidden.
     */
    const double hidden = wall - 2 * batch * *seconds;
    if (2 * batch >= timing->batch)
        timing->hidden = hidden < timing->hidden ? hidden : timing->hidden;
    return timing->result;
}

/* One run by the device's own clock where it has one, else by ours. */
static int timed_run(void *context, double *seconds)
{
    struct timing *timing = context;
    const struct attn_backend *backend = timing->backend;

    if (!backend->enqueue)
        attn_vary_step(timing->vary);
    if (timing->evict && attn_team_run(timing->setup->n_processors, timing->setup->processors,
                                       evict_one, timing) != 0)
        evict_one(timing, 0);
    if (backend->enqueue)
        return timed_batch(timing, seconds);
    const double start = attn_clock_wall();
    run_host(timing);
    *seconds = attn_clock_wall() - start;
    return answer(timing);
}

/* Do timed runs take much less than those that find other inputs? Then they update an earlier
 * result, and do not compute theirs. Processor time does not grow on a busy machine. */
static int check_fresh(struct timing *timing, struct attn_message_reply *reply)
{
    note_usual(timing);
    if (!(timing->fresh < HUGE_VAL) || timing->fresh <= FRESH_TIMES * timing->usual + FRESH_S)
        return 0;
    attn_reply_set(reply, ATTN_SUSPECT,
                   "a run takes %.3g s of processor time after all inputs have changed, but %.3g s "
                   "after one element has: it updates an earlier result",
                   timing->fresh, timing->usual);
    return -1;
}

/* Samples of what `timing` says how to run. */
static void measure(struct timing *timing, const struct attn_message_request *request,
                    double warm_up, struct attn_message_reply *reply)
{
    const bool is_long = warm_up > LONG_RUN_S;
    const bool self_timed = timing->evict || timing->backend->enqueue;
    const bool varies = !timing->backend->enqueue && request->second[0] > 0;
    timing->is_long = is_long;
    timing->hidden = timing->fresh = HUGE_VAL;
    const struct attn_gbench_job job = {
        .before = varies ? before : NULL,
        .keep = keep,
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
    const struct attn_load load = attn_load_now();
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
    else if (timing->hidden > LAUNCH_S && timing->hidden < HUGE_VAL)
        attn_reply_set(reply, ATTN_SUSPECT,
                       "the device's clock says less than half of the time that its runs take: in "
                       "every batch at least %.3g s passed beyond twice what it says",
                       timing->hidden);
    else if (attn_load_check(&load, 0, timing->setup, reply) == 0 &&
             check_fresh(timing, reply) == 0)
        reply->n_samples = (uint32_t)n;
}

/* The last run of all: one for whose inputs the host has a reference. */
static int run_last(struct attn_plan *plan, struct attn_vary *vary,
                    struct attn_message_reply *reply)
{
    while (!attn_vary_known(vary)) {
        attn_vary_step(vary);
        if (attn_plan_run(plan, NULL, reply) != 0)
            return -1;
    }
    reply->last = attn_vary_state(vary);
    return 0;
}

/* Results come back by a copy, not by work. The best of a few: others may have the processor. */
static int fetch_quickly(struct attn_plan *plan, const struct attn_message_request *request,
                         struct attn_message_reply *reply)
{
    double bytes = 0, best = HUGE_VAL;
    for (uint32_t t = 0; t < request->n_tensors; t++)
        bytes += request->operands[t].output ? (double)request->operands[t].span : 0;
    const double allowed = FETCH_S + bytes / FETCH_BYTES_S;
    for (int n = 0; n < FETCH_TRIES && best > allowed; n++) {
        const double start = attn_clock_wall();
        if (attn_plan_fetch(plan, reply) != 0)
            return -1;
        const double seconds = attn_clock_wall() - start;
        best = seconds < best ? seconds : best;
    }
    if (best <= allowed)
        return 0;
    attn_reply_set(reply, ATTN_SUSPECT,
                   "fetch takes %.3g s for %.3g MB of results: a copy takes less", best,
                   1e-6 * bytes);
    return -1;
}

/* A device has copied its inputs in bind: it is bound to the second set, and runs once more. */
static void run_second(struct attn_plan *plan, const struct attn_message_request *request,
                       struct attn_owned *owned, struct attn_vary *vary,
                       struct attn_message_reply *reply)
{
    attn_owned_return(request, owned, 0);
    attn_vary_exchange(vary);
    if (attn_plan_rebind(plan, owned->tensors, reply) == 0 &&
        attn_plan_run(plan, NULL, reply) == 0 && attn_plan_fetch(plan, reply) == 0)
        attn_vary_keep(vary);
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

void attn_timing_finish(struct attn_plan *plan, const struct attn_message_request *request,
                        struct attn_owned *owned, struct attn_vary *vary, double warm_up,
                        struct attn_message_reply *reply)
{
    const bool device = plan->backend->enqueue != NULL, two = request->second[0] > 0;
    if (run_last(plan, vary, reply) != 0 ||
        (!device && attn_load_settle(request, owned->tensors, plan->setup, SETTLE_S, reply) != 0) ||
        fetch_quickly(plan, request, reply) != 0 || plan->backend->exactness == ATTN_NONE)
        return;
    if (device && two)
        run_second(plan, request, owned, vary, reply);
    else if (!two && warm_up <= LONG_RUN_S)
        run_fresh(plan, request, owned, reply);
}

static void run_all(struct attn_plan *plan, const struct attn_message_request *request,
                    struct attn_owned *owned, struct attn_vary *vary,
                    struct attn_message_reply *reply)
{
    double warm_up;
    if (attn_plan_bind(plan, owned->tensors, reply) != 0)
        return;
    attn_vary_protect(vary, true);
    const int ran = attn_plan_run(plan, &warm_up, reply);
    attn_vary_protect(vary, false);
    if (ran != 0 || attn_device_ask(plan->backend, &reply->before, reply) != 0)
        return;
    struct timing timing = {.backend = plan->backend,
                            .binding = plan->binding,
                            .rotated = &plan->binding,
                            .n_rotated = 1,
                            .batch = 1,
                            .vary = vary,
                            .setup = plan->setup};
    const uint64_t cache_bytes = plan->backend->enqueue ? reply->before.cache_bytes : 0;
    if (request->cold && cache_bytes > 0)
        measure_rotated(&timing, plan, request, owned, cache_bytes, warm_up, reply);
    else if (request->cold)
        measure_evicted(&timing, request, warm_up, reply);
    else
        measure(&timing, request, warm_up, reply);
    reply->threads_seen = attn_threads_now();
    if (reply->status == ATTN_PASS && attn_device_ask(plan->backend, &reply->after, reply) == 0)
        attn_timing_finish(plan, request, owned, vary, warm_up, reply);
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

void attn_timing_return(const struct attn_backend *backend,
                        const struct attn_message_request *request, struct attn_owned *owned,
                        struct attn_vary *vary, struct attn_message_reply *reply)
{
    uint32_t changed;
    reply->drawn = vary->drawn;
    if (!backend->enqueue || request->second[1] == 0)
        attn_owned_return(request, owned, 0);
    attn_vary_home(vary);
    /* The host words it: it knows the operand by name. */
    reply->modified = attn_owned_check(request, owned, vary->set, &changed) != 0 ? changed + 1 : 0;
}

void attn_serve_bench(struct attn_setup *setup, const struct attn_message_request *request,
                      const int fds[2], struct attn_message_reply *reply)
{
    struct attn_owned owned;
    struct attn_plan plan;
    char why[256];

    if (attn_owned_create(request, fds, &owned, why, sizeof(why)) != 0) {
        attn_reply_set(reply, ATTN_OOM, "%s", why);
        return;
    }
    struct attn_vary vary;
    attn_vary_begin(&vary, request, &owned);
    watch_faults(&owned);
    if (attn_plan_open(setup, request, &plan, reply) == 0) {
        if (setup->backend->enqueue)
            vary.n_spots = 0;
        run_all(&plan, request, &owned, &vary, reply);
    }
    attn_plan_close(&plan, reply);
    attn_fault_watch(NULL, 0);
    if (reply->status == ATTN_PASS)
        attn_timing_return(setup->backend, request, &owned, &vary, reply);
    attn_owned_free(&owned);
}
