/* SPDX-License-Identifier: Apache-2.0 */
/* timing.c - the plan of a timing: opened and run once before, checked and closed after it. */
#include "worker/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/clocks.h"
#include "worker/fault.h"
#include "worker/fresh.h"
#include "worker/load.h"
#include "worker/slots.h"

/* What a run that finds all inputs new may take beyond a timed one, of which one element has
 * changed: so many times as long, so much more, and what it takes to bring all operands into the
 * caches by one processor of a slow machine. Other threads have more room: one that waits in a loop
 * takes 0.3 ms (oneDNN). (Measured, of 900 timings of honest backends at a lower priority beside
 * two busy processes: twice and 44 us. Of 4,800 beside two processes, 1.9 times from 0.3 ms on.) */
#define FOUND_TIMES   2
#define FOUND_BYTES_S 4e9
/* Page faults are no part of it, up to this share of the time: an allocator that gives memory back
 * to the kernel does so in some runs and not in others. (transformers, which copies 2 MB of keys
 * and values into 8, takes 0.5 ms without and 3.7 ms with 2,016 of them, 1.1 to 1.4 us each.) */
#define FAULTS_MOST 0.8
static const double found_s[ATTN_FOUND_KINDS] = {1e-4, 4e-4};

/* Runs that take longer need no second one, of which calls of the system are no part. */
#define AGAIN_MOST_S 1e-2

/* Exchanges that follow where a timing ends above that: one in the middle of so many is not slow by
 * chance. */
#define FINDS_MORE 10

/* Of so many exchanges in a row, two bring the same set. */
#define FINDS 3

/* A run that takes longer is its own sample, and the only one of its round. */
#define LONG_RUN_S 0.1

/* How long the end of a timing is watched for what still computes or writes. */
#define SETTLE_S 0.05

/* What the calls around a batch may take beyond twice the device's own time. */
#define LAUNCH_S 2e-4

/* A fetch copies results; a slow link copies so much in a second, and sets out within this time. */
#define FETCH_BYTES_S 1e8
#define FETCH_S       1e-2
#define FETCH_TRIES   5

/* Of the outputs, and of the inputs too. */
static double operand_bytes(const struct attn_message_request *request, bool inputs)
{
    double bytes = 0;
    for (uint32_t t = 0; t < request->n_tensors; t++)
        if (inputs || request->operands[t].output)
            bytes += (double)request->operands[t].span;
    return bytes;
}

static bool has_device(const struct attn_timing *timing)
{
    return timing->plan.setup->backend->enqueue != NULL;
}

int attn_timing_begin(struct attn_timing *timing, struct attn_setup *setup,
                      struct attn_message_reply *reply)
{
    struct attn_plan *plan = &timing->plan;
    struct attn_vary *vary = &timing->vary;
    timing->hidden = HUGE_VAL;
    timing->children_before = attn_load_children();
    attn_vary_begin(vary, timing->request, &timing->owned);
    if (attn_plan_open(setup, timing->request, plan, reply) != 0)
        return -1;
    if (has_device(timing))
        vary->n_spots = 0;
    if (attn_plan_bind(plan, timing->owned.tensors, reply) != 0)
        return -1;
    attn_vary_protect(vary, true);
    const int ran = attn_plan_run(plan, &timing->warm_up, reply);
    attn_vary_protect(vary, false);
    timing->is_long = timing->warm_up > LONG_RUN_S;
    return ran == 0 ? attn_device_ask(plan->backend, &reply->before, reply) : -1;
}

/* A run and its times. */
static int run_clocked(struct attn_timing *timing, struct attn_found *found)
{
    const uint64_t before[ATTN_FOUND_KINDS] = {attn_clocks_faults(false), attn_clocks_faults(true)};
    const struct attn_reading start = attn_clocks_read();
    attn_timing_run(timing);
    const struct attn_reading end = attn_clocks_read();
    timing->finds++;
    found->seconds[ATTN_FOUND_CALLER] = end.thread - start.thread;
    found->seconds[ATTN_FOUND_ALL] = end.process - start.process;
    for (int kind = 0; kind < ATTN_FOUND_KINDS; kind++)
        found->faults[kind] = (double)(attn_clocks_faults(kind == ATTN_FOUND_ALL) - before[kind]);
    return timing->result;
}

static int find(struct attn_timing *timing)
{
    const double others = attn_load_children();
    struct attn_found found;
    attn_vary_warm(&timing->vary);
    attn_vary_protect(&timing->vary, true);
    int result = run_clocked(timing, &found);
    attn_vary_protect(&timing->vary, false);
    /* What a run takes directly after calls of the system depends on who had the processor and its
     * caches meanwhile: up to 0.4 ms more on a busy machine. */
    found.seconds[ATTN_FOUND_CALLER] = 0;
    if (result == ATTN_OK && timing->warm_up < AGAIN_MOST_S && attn_vary_refresh(&timing->vary)) {
        attn_vary_warm(&timing->vary);
        result = run_clocked(timing, &found);
    }
    const uint32_t set = timing->vary.set;
    timing->found[set][timing->n_found[set]++ % ATTN_FOUND_MOST] = found;
    timing->children += attn_load_children() - others;
    /* The result of the run whose time counts. */
    if (result == ATTN_OK)
        attn_vary_found(&timing->vary);
    return result;
}

int attn_timing_find(struct attn_timing *timing, bool is_long)
{
    const bool first = timing->n_found[0] + timing->n_found[1] == 0;
    int result = ATTN_OK;
    for (int times = first && !is_long ? FINDS : 1; times > 0 && result == ATTN_OK; times--) {
        attn_vary_exchange(&timing->vary);
        result = is_long ? ATTN_OK : find(timing);
    }
    return result;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a run of this set takes that finds all inputs new; 0: too few have, as one may have been
 * slow by itself. Not the least, but one in the middle, of two the longer: who leaves out one of
 * these runs is not always caught by its result. Processor time does not grow on a busy machine. */
static double usual_found(const struct attn_timing *timing, uint32_t set, int kind)
{
    const size_t found = timing->n_found[set];
    const size_t n = found < ATTN_FOUND_MOST ? found : ATTN_FOUND_MOST;
    double sorted[ATTN_FOUND_MOST];
    if (n < 2)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const struct attn_found *run = &timing->found[set][i];
        const double faults = timing->fault * run->faults[kind];
        sorted[i] = run->seconds[kind] - fmin(faults, FAULTS_MOST * run->seconds[kind]);
    }
    qsort(sorted, n, sizeof(*sorted), by_size);
    return sorted[n / 2];
}

/* Does a set's timed run take much less than one that found all inputs exchanged? */
static bool updates(const struct attn_timing *timing, const double usual[2], double *fresh,
                    double *timed)
{
    const double reading = operand_bytes(timing->request, true) / FOUND_BYTES_S;
    for (uint32_t set = 0; set < 2; set++)
        for (int kind = 0; kind < ATTN_FOUND_KINDS; kind++) {
            const double room =
                found_s[kind] * (kind == ATTN_FOUND_ALL ? timing->plan.setup->threads : 1);
            *fresh = usual_found(timing, set, kind);
            *timed = usual[set];
            if (*timed > 0 && *fresh > FOUND_TIMES * *timed + room + fmin(reading, *timed))
                return true;
        }
    /* The same of other processes, in the mean. */
    const double finds = (double)timing->finds, runs = (double)timing->runs - finds;
    if (finds < 1 || runs < 1)
        return false;
    *fresh = timing->children / finds;
    *timed = (attn_load_children() - timing->children_before - timing->children) / runs;
    return *fresh > FOUND_TIMES * fmax(*timed, 0) + found_s[ATTN_FOUND_ALL];
}

int attn_timing_leave(struct attn_timing *timing, const double usual[2],
                      struct attn_message_reply *reply)
{
    char broken[128];
    double fresh, timed;
    for (int f = 0;
         f < FINDS_MORE && timing->result == ATTN_OK && updates(timing, usual, &fresh, &timed);
         f++) {
        timing->fault = timing->fault > 0 ? timing->fault : attn_clocks_fault();
        attn_timing_find(timing, false);
    }
    const int state = attn_slot_leave(broken, sizeof(broken));
    timing->why[sizeof(timing->why) - 1] = 0;
    if (timing->result != ATTN_OK)
        attn_reply_result(reply, ATTN_SLOT_RUN, timing->result, timing->why);
    else if (state != 0)
        attn_reply_set(reply, ATTN_FAIL, "%s, in %s", broken, attn_slot_name(ATTN_SLOT_RUN));
    else
        return 0;
    return -1;
}

int attn_timing_check_found(const struct attn_timing *timing, const double usual[2],
                            struct attn_message_reply *reply)
{
    double fresh, timed;
    if (!updates(timing, usual, &fresh, &timed))
        return 0;
    attn_reply_set(reply, ATTN_SUSPECT,
                   "a run takes %.3g s of processor time after all inputs have changed, but %.3g s "
                   "after one element has: it repeats or updates an earlier result",
                   fresh, timed);
    return -1;
}

int attn_timing_check_clock(const struct attn_timing *timing, struct attn_message_reply *reply)
{
    if (!(timing->hidden > LAUNCH_S && timing->hidden < HUGE_VAL))
        return 0;
    attn_reply_set(reply, ATTN_SUSPECT,
                   "the device's clock says less than half of the time that its runs take: in "
                   "every batch at least %.3g s passed beyond twice what it says",
                   timing->hidden);
    return -1;
}

/* Brings the inputs to the mixed state of the first set, as a sample would begin, and runs. Runs
 * between are left out by threes, because who computes in every third alone skips as many. */
static int run_mixed(struct attn_timing *timing, struct attn_message_reply *reply)
{
    struct attn_vary *vary = &timing->vary;
    const uint32_t mixed = timing->request->mixed, silent = mixed - mixed % 3;
    if (vary->set == 1)
        attn_vary_exchange(vary);
    else
        attn_vary_home(vary);
    for (uint32_t step = 0; step <= mixed; step++) {
        if (step > 0)
            attn_vary_step(vary);
        if ((step == 0 || step > silent) && attn_plan_run(&timing->plan, NULL, reply) != 0)
            return -1;
    }
    reply->last = ATTN_STATE_MIXED;
    return 0;
}

/* The last run of all: one for whose inputs the host has a reference. The run that was drawn found
 * all spots home or away most of the time, so this one finds them mixed: who computes for all home
 * and all away alone is wrong here. */
static int run_last(struct attn_timing *timing, struct attn_message_reply *reply)
{
    if (timing->request->mixed > 0 && timing->vary.n_spots > 0 && !timing->is_long)
        return run_mixed(timing, reply);
    for (bool lost = timing->vary.scrambled; lost || !attn_vary_known(&timing->vary);
         lost = false) {
        if (!attn_vary_known(&timing->vary))
            attn_vary_step(&timing->vary);
        if (attn_plan_run(&timing->plan, NULL, reply) != 0)
            return -1;
    }
    reply->last = attn_vary_state(&timing->vary);
    return 0;
}

/* Results come back by a copy, not by work. The best of a few: others may have the processor. */
static int fetch_quickly(struct attn_timing *timing, struct attn_message_reply *reply)
{
    const double bytes = operand_bytes(timing->request, false);
    const double allowed = FETCH_S + bytes / FETCH_BYTES_S;
    double best = HUGE_VAL;
    for (int n = 0; n < FETCH_TRIES && best > allowed; n++) {
        const double start = attn_clock_wall();
        if (attn_plan_fetch(&timing->plan, reply) != 0)
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
static void run_second(struct attn_timing *timing, struct attn_message_reply *reply)
{
    struct attn_plan *plan = &timing->plan;
    attn_owned_return(timing->request, &timing->owned, 0);
    attn_vary_exchange(&timing->vary);
    if (attn_plan_rebind(plan, timing->owned.tensors, reply) == 0 &&
        attn_plan_run(plan, NULL, reply) == 0 && attn_plan_fetch(plan, reply) == 0)
        attn_vary_keep(&timing->vary);
}

/* What was timed must have been computed in that time. */
static void run_fresh(struct attn_timing *timing, struct attn_message_reply *reply)
{
    const struct attn_message_request *request = timing->request;
    const struct attn_tensor *tensors = timing->owned.tensors;
    const uint32_t t = attn_fresh_input(request);
    if (t == UINT32_MAX)
        return;
    attn_fresh_turn(&tensors[t], request->operands[t].element);
    attn_fresh_run(&timing->plan, request, tensors, reply);
    attn_fresh_turn(&tensors[t], request->operands[t].element);
}

/* After the last timed run of a bound plan. */
static void finish(struct attn_timing *timing, struct attn_message_reply *reply)
{
    const struct attn_message_request *request = timing->request;
    const bool device = has_device(timing), two = request->second[0] > 0;
    attn_vary_end(&timing->vary);
    if (run_last(timing, reply) != 0 ||
        (!device && attn_load_settle(request, timing->owned.tensors, timing->plan.setup, SETTLE_S,
                                     reply) != 0) ||
        fetch_quickly(timing, reply) != 0 || timing->plan.backend->exactness == ATTN_NONE)
        return;
    if (device && two)
        run_second(timing, reply);
    else if (!two && !timing->is_long)
        run_fresh(timing, reply);
}

/* What goes back to the host once the plan is closed. */
static void give_back(struct attn_timing *timing, struct attn_message_reply *reply)
{
    const struct attn_message_request *request = timing->request;
    struct attn_vary *vary = &timing->vary;
    uint32_t changed;
    reply->drawn = vary->drawn;
    reply->drawn_seed = vary->drawn_seed;
    if (!has_device(timing) || request->second[1] == 0)
        attn_owned_return(request, &timing->owned, 0);
    attn_vary_home(vary);
    /* The host words it: it knows the operand by name. */
    reply->modified =
        attn_owned_check(request, &timing->owned, vary->set, &changed) != 0 ? changed + 1 : 0;
}

void attn_timing_end(struct attn_timing *timing, struct attn_message_reply *reply)
{
    if (reply->status == ATTN_PASS &&
        attn_device_ask(timing->plan.backend, &reply->after, reply) == 0)
        finish(timing, reply);
    attn_plan_close(&timing->plan, reply);
    attn_fault_watch(NULL, 0);
    if (reply->status == ATTN_PASS)
        give_back(timing, reply);
    attn_owned_free(&timing->owned);
}
