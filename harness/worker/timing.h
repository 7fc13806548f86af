/* SPDX-License-Identifier: Apache-2.0 */
/* timing.h - what every timing begins and ends with, whoever takes the time in between.
 *
 * Fill in `request` and `owned` and call attn_fault_watch; then, between attn_timing_begin and
 * attn_timing_end, call the slots of `plan`. A failure goes into the reply. */
#ifndef ATTN_WORKER_TIMING_H
#define ATTN_WORKER_TIMING_H

#include "worker/plan.h"
#include "worker/vary.h"

enum { ATTN_FOUND_MOST = 64 };

/* Whose time: of the thread that calls `run`, or of all. */
enum { ATTN_FOUND_CALLER, ATTN_FOUND_ALL, ATTN_FOUND_KINDS };

struct attn_found {
    double seconds[ATTN_FOUND_KINDS]; /* of processor time */
    double faults[ATTN_FOUND_KINDS];  /* pages that were not there */
};

struct attn_timing {
    const struct attn_message_request *request;
    struct attn_owned owned;
    struct attn_vary vary;
    struct attn_plan plan;
    double warm_up; /* seconds of the first run */
    bool is_long;   /* a run is a sample of its own */
    int64_t runs;   /* of a backend without a device, since the plan was opened */
    double hidden;  /* the least time that a device's clock has left out of a batch */
    /* Of each set, the last runs that found all inputs exchanged, and how many did. The other set
     * may be less work: its lengths and masks are others. */
    struct attn_found found[2][ATTN_FOUND_MOST];
    size_t n_found[2];
    double fault;  /* seconds of a page fault; 0: not measured */
    int64_t finds; /* such runs, and those directly before them */
    /* Processor time of other processes that were started: in these runs; before the timing. */
    double children, children_before;
    int result; /* of the slot that ended the timing */
    char why[256];
};

/* Opens and binds the plan, runs it once with inputs that it may not write to, and asks for the
 * state of the device. Returns 0 or -1; call attn_timing_end in any case. */
int attn_timing_begin(struct attn_timing *timing, struct attn_setup *setup,
                      struct attn_message_reply *reply);

/* The work of a backend without a device: what its `fetch` does is part of it. */
static inline int attn_timing_run(struct attn_timing *timing)
{
    const struct attn_plan *plan = &timing->plan;
    const struct attn_backend *backend = plan->backend;
    timing->runs++;
    timing->result = backend->run(plan->binding, timing->why, sizeof(timing->why));
    if (backend->fetch && timing->result == ATTN_OK)
        timing->result = backend->fetch(plan->binding, timing->why, sizeof(timing->why));
    return timing->result;
}

/* After the last timed run: leaves the slot `run`. If attn_timing_check_found would object to
 * `usual`, inputs are exchanged some more times before. Returns 0; or -1: a slot has failed or has
 * broken a promise. */
int attn_timing_leave(struct attn_timing *timing, const double usual[2],
                      struct attn_message_reply *reply);

/* Exchanges all inputs. Unless runs are long, one run follows, which finds other inputs and may not
 * write to them, and if it is short, one that finds them new again where they lie; the first time
 * all this is done as often as it takes to find one set twice. Returns the result of the last run.
 */
int attn_timing_find(struct attn_timing *timing, bool is_long);

/* usual: of each set, the processor time in seconds of a run before which one element had changed.
 * Does it take much less than those that found all inputs exchanged? Then it updates an earlier
 * result, or gives it again, and does not compute its own. Returns 0; or -1: so it is. */
int attn_timing_check_found(const struct attn_timing *timing, const double usual[2],
                            struct attn_message_reply *reply);

/* Does the device's clock leave out much of the time of its batches? Returns 0; or -1: it does. */
int attn_timing_check_clock(const struct attn_timing *timing, struct attn_message_reply *reply);

/* If all has passed: one more run for whose inputs the host has a reference, and the checks that
 * nothing computes after `run` and that `fetch` only copies. Closes the plan. If all has passed
 * still, the outputs go back to the host, and the reply says which run was kept and whether an
 * input was written to. Frees the operands. */
void attn_timing_end(struct attn_timing *timing, struct attn_message_reply *reply);

#endif
