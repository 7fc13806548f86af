/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - a bound plan that the host times batch by batch. */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "worker/channel.h"
#include "worker/clocks.h"
#include "worker/fault.h"
#include "worker/load.h"
#include "worker/serve.h"
#include "worker/slots.h"
#include "worker/timing.h"
#include "worker/vary.h"

/* A batch takes at most this long, or is one run. A scheduler's slice is longer, so that most
 * batches are not interrupted. A device needs more runs to hide launches behind. */
#define BATCH_S        2e-4
#define BATCH_DEVICE_S 1e-3
#define BATCH_MOST     100000
#define BATCH_LAUNCHES 64

/* From here on a run brings its operands back by itself. (Measured: runs of 1 to 3 ms that came
 * directly after other workers' took 3 to 25 % longer than those after one of their own.) */
#define LONG_S 1e-2

/* Single runs from which the length of a batch is found; fewer where these take long, or where the
 * length is known. */
#define SINGLES       16
#define SINGLES_KNOWN 4
#define SINGLES_S     0.02

/* A backend that gives the processor back by itself, and whose threads in some run compute or want
 * to compute for less than this share of its time, has its work done elsewhere. */
#define WAITS_SHARE 0.7

/* Processor time outside `run` and in other processes that is no work: clocks of other threads are
 * read a little apart. */
#define ASTRAY_SHARE 0.05
#define ASTRAY_S     2e-3

struct live {
    struct attn_timing timing;
    int64_t iterations;
    uint32_t clock;  /* enum attn_clock */
    double single;   /* seconds of the fastest single run */
    double own;      /* processor time of the process before the first batch */
    double runs;     /* processor time of the process while it served batches */
    double others;   /* that of other threads than this one, while it did */
    double astray;   /* the same, while it did not */
    double usual[2]; /* processor time of a run of each set: see note_usual */
    int64_t batches[2];
};

static int run_device(struct live *live, int64_t n, struct attn_live_sample *sample)
{
    struct attn_timing *timing = &live->timing;
    const struct attn_backend *backend = timing->plan.backend;
    void *const binding = timing->plan.binding;
    char *why = timing->why;
    double ns = 0;
    const struct attn_reading start = attn_clocks_read();
    timing->result = ATTN_OK;
    for (int64_t r = 0; r < n && timing->result == ATTN_OK; r++)
        timing->result = backend->enqueue(binding, why, sizeof(timing->why));
    if (timing->result == ATTN_OK)
        timing->result = backend->wait(binding, why, sizeof(timing->why));
    const struct attn_reading end = attn_clocks_read();
    if (timing->result == ATTN_OK)
        timing->result = backend->time_device(binding, &ns, why, sizeof(timing->why));
    const double wall = end.wall - start.wall;
    /* Only of whole batches: a single run may be shorter than what may be hidden. */
    const double hidden = wall - 2e-9 * ns * (double)n;
    if (n == live->iterations && hidden < timing->hidden)
        timing->hidden = hidden;
    sample->wall_ns = 1e9 * wall;
    sample->processor_ns = 1e9 * (end.process - start.process);
    sample->device_ns = ns > 0 ? ns * (double)n : 0;
    return timing->result;
}

/* A stretch of runs between two looks at the clocks. The wall clock is read outside the other. */
struct stretch {
    double wall, processor;
};

static struct stretch begin(uint32_t clock)
{
    const double wall = attn_clock_wall();
    return (struct stretch){wall, attn_clock_seconds(clock == ATTN_CLOCK_THREAD
                                                         ? CLOCK_THREAD_CPUTIME_ID
                                                         : CLOCK_PROCESS_CPUTIME_ID)};
}

static void end(uint32_t clock, struct stretch since, struct attn_live_sample *sample)
{
    const double processor = attn_clock_seconds(
        clock == ATTN_CLOCK_THREAD ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID);
    sample->processor_ns += 1e9 * (processor - since.processor);
    sample->wall_ns += 1e9 * (attn_clock_wall() - since.wall);
}

/* A batch, timed without the copies that are made for the host in it. */
static int batch_host(struct live *live, struct attn_live_sample *sample)
{
    struct attn_vary *vary = &live->timing.vary;
    attn_vary_draw(vary, live->iterations);
    struct stretch since = begin(live->clock);
    for (int64_t r = 0; r < live->iterations; r++) {
        attn_vary_step(vary);
        if (attn_timing_run(&live->timing) != ATTN_OK)
            return live->timing.result;
        if (vary->countdown < 0 || --vary->countdown > 0)
            continue;
        vary->countdown = -1;
        end(live->clock, since, sample);
        attn_vary_keep(vary);
        since = begin(live->clock);
    }
    end(live->clock, since, sample);
    return ATTN_OK;
}

/* A batch has ended in which a run took so long. The least of all counts, but with several threads
 * the mean: their clocks are read a little apart, and a batch may seem to take half of its time. */
static void note_usual(struct live *live, double seconds)
{
    const uint32_t set = live->timing.vary.set;
    const double n = (double)++live->batches[set];
    double *usual = &live->usual[set];
    if (live->timing.plan.setup->threads == 1 || n < 2)
        *usual = fmin(*usual, seconds);
    else
        *usual += (seconds - *usual) / n;
}

static int serve_batch(struct live *live, bool other, struct attn_live_sample *sample)
{
    *sample = (struct attn_live_sample){.iterations = live->iterations, .clock = live->clock};
    const struct attn_reading before = attn_clocks_read();
    int result = ATTN_OK;
    if (live->timing.plan.backend->enqueue) {
        result = run_device(live, live->iterations, sample);
    } else {
        struct attn_timing *timing = &live->timing;
        const bool is_long = live->iterations == 1 && live->single >= LONG_S;
        attn_vary_home(&timing->vary);
        /* The other worker has had the caches: one run brings the operands back. A long run does
         * that by itself, and finds all inputs new. Of a single short one it would be 5 %. */
        if (other)
            result = attn_timing_find(timing, is_long);
        else if (is_long)
            attn_vary_renew(&timing->vary);
        else
            result = attn_timing_run(timing);
        const uint64_t switches = attn_clocks_switches(live->clock != ATTN_CLOCK_THREAD);
        if (result == ATTN_OK)
            result = batch_host(live, sample);
        note_usual(live, 1e-9 * sample->processor_ns / (double)live->iterations);
        sample->switches = attn_clocks_switches(live->clock != ATTN_CLOCK_THREAD) - switches;
    }
    const struct attn_reading after = attn_clocks_read();
    const double process = after.process - before.process;
    live->runs += process;
    live->others += process - (after.thread - before.thread);
    return result;
}

/* The clock that tells the time of this backend's work. */
static uint32_t clock_of(const struct live *live, int waits, int runs, double share)
{
    if (live->timing.plan.backend->enqueue)
        return ATTN_CLOCK_DEVICE;
    if (live->timing.plan.setup->threads > 1 || (2 * waits > runs && share < WAITS_SHARE))
        return ATTN_CLOCK_WALL;
    return attn_threads_now() == 1 ? ATTN_CLOCK_THREAD : ATTN_CLOCK_PROCESS;
}

/* Single runs: how long a batch is to be, and by which clock. */
static int find_batch(struct live *live)
{
    const bool device = live->timing.plan.backend->enqueue != NULL;
    const int most = live->timing.request->iterations > 0 ? SINGLES_KNOWN : SINGLES;
    const double until = attn_clock_wall() + SINGLES_S;
    int runs = 0, waits = 0;
    double share = 1;
    live->single = INFINITY; /* the warm-up was without `fetch` */
    for (; runs < most && (runs == 0 || (live->single < LONG_S && attn_clock_wall() < until));
         runs++) {
        struct attn_live_sample sample = {0};
        const double waited = attn_clocks_delayed(true);
        const struct attn_reading start = attn_clocks_read();
        attn_vary_step(&live->timing.vary);
        if ((device ? run_device(live, 1, &sample) : attn_timing_run(&live->timing)) != ATTN_OK)
            return live->timing.result;
        const struct attn_reading now = attn_clocks_read();
        const double seconds = device ? 1e-9 * sample.device_ns : now.wall - start.wall;
        waits += now.given > start.given;
        share = fmin(share, (now.process - start.process + attn_clocks_delayed(true) - waited) /
                                (now.wall - start.wall));
        live->single = seconds > 0 && seconds < live->single ? seconds : live->single;
    }
    if (!isfinite(live->single))
        live->single = live->timing.warm_up;
    live->clock = clock_of(live, waits, runs, share);
    const double fit = (device ? BATCH_DEVICE_S : BATCH_S) / live->single;
    const double batch_most = device ? BATCH_LAUNCHES : BATCH_MOST;
    live->iterations = live->timing.request->iterations > 0 ? live->timing.request->iterations
                       : !(fit > 1)                         ? 1
                                                            : (int64_t)fmin(fit, batch_most);
    return ATTN_OK;
}

static void send_sample(const struct attn_live_sample *sample)
{
    const struct attn_message_sample message = {
        .head = {.length = sizeof(message), .type = ATTN_MESSAGE_SAMPLE}, .sample = *sample};
    attn_channel_send(&message.head);
}

/* Waits for the host. Other threads have nothing to do meanwhile. */
static int receive(struct live *live, struct attn_message_batch *order)
{
    static union attn_request_buffer buffer;
    int fds[2];
    const struct attn_reading before = attn_clocks_read();
    const int type = attn_channel_receive(&buffer, fds);
    const struct attn_reading after = attn_clocks_read();
    live->astray += (after.process - before.process) - (after.thread - before.thread);
    *order = type == ATTN_MESSAGE_BATCH ? buffer.batch : (struct attn_message_batch){.end = 1};
    return type;
}

/* Serves batches to the last. Returns the result of the slot that ended them. */
static int serve_all(struct live *live)
{
    struct attn_message_batch order;
    struct attn_live_sample sample = {0};
    if (find_batch(live) != ATTN_OK)
        return live->timing.result;
    sample.huge_bytes = attn_owned_huge(&live->timing.owned, &sample.bytes);
    sample.iterations = live->iterations;
    sample.wall_ns = 1e9 * live->single;
    sample.clock = live->clock;
    for (;;) {
        send_sample(&sample);
        receive(live, &order);
        if (order.end)
            return ATTN_OK;
        const int result = serve_batch(live, order.exchange != 0, &sample);
        if (result != ATTN_OK)
            return result;
    }
}

/* Was all work done in `run`, and by those whose time is counted? */
static int check_work(const struct live *live, const struct attn_load *before,
                      struct attn_message_reply *reply)
{
    const double allowed = ASTRAY_S + ASTRAY_SHARE * live->runs;
    /* In this order, or a slow look at other processes would count as theirs. */
    const double all = attn_load_now().process - before->process;
    const double own = attn_clock_process() - live->own;
    const double children = all - own;
    if (attn_load_check(before, live->timing.runs, live->timing.plan.setup, reply) != 0 ||
        attn_timing_check_found(&live->timing, live->usual, reply) != 0)
        return -1;
    if (live->timing.plan.setup->threads > 1 || live->clock == ATTN_CLOCK_DEVICE)
        return 0; /* threads of a pool may spin, and the wall clock counts */
    if (live->astray > allowed)
        attn_reply_set(reply, ATTN_FAIL,
                       "computes between runs: other threads used %.3g s of processor time while "
                       "no run was under way",
                       live->astray);
    else if (live->clock == ATTN_CLOCK_THREAD && live->others > allowed)
        attn_reply_set(reply, ATTN_FAIL,
                       "other threads used %.3g s of processor time, but there were none before "
                       "the timing",
                       live->others);
    else if (live->clock != ATTN_CLOCK_WALL && children > allowed)
        attn_reply_set(reply, ATTN_FAIL,
                       "processes that it has started used %.3g s of processor time", children);
    return reply->status == ATTN_PASS ? 0 : -1;
}

/* Batches in the slot `run`, and the checks behind them. */
static void time_all(struct live *live, struct attn_message_reply *reply)
{
    const struct attn_load load = attn_load_now();
    live->own = attn_clock_process();
    attn_slot_enter(ATTN_SLOT_RUN);
    serve_all(live);
    if (attn_timing_leave(&live->timing, live->usual, reply) == 0 &&
        attn_timing_check_clock(&live->timing, reply) == 0 && check_work(live, &load, reply) == 0)
        reply->threads_seen = attn_threads_now();
}

/* A write to an input while it is protected is named after it. */
static void watch_faults(const struct attn_timing *timing)
{
    struct attn_fault_region regions[ATTN_MAX_TENSORS];
    for (uint32_t t = 0; t < timing->owned.n; t++) {
        const struct attn_shared_operand *operand = &timing->request->operands[t];
        const uintptr_t data = (uintptr_t)timing->owned.tensors[t].data;
        regions[t] = (struct attn_fault_region){
            .begin = data - operand->lead, .end = data + operand->span, .data = data};
    }
    attn_fault_watch(regions, timing->owned.n);
}

void attn_serve_live(struct attn_setup *setup, const struct attn_message_request *request,
                     const int fds[2], struct attn_message_reply *reply)
{
    struct live live = {.timing = {.request = request}, .usual = {HUGE_VAL, HUGE_VAL}};
    char why[256];

    if (attn_owned_create_together(request, fds, &live.timing.owned, why, sizeof(why)) != 0) {
        attn_reply_set(reply, ATTN_OOM, "%s", why);
        return;
    }
    watch_faults(&live.timing);
    const int begun = attn_timing_begin(&live.timing, setup, reply);
    if (begun == 0)
        time_all(&live, reply);
    attn_timing_end(&live.timing, reply);
}
