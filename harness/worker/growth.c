/* SPDX-License-Identifier: Apache-2.0 */
/* growth.c - does memory grow with every plan, or with every run, to the end?
 *
 * Libraries keep things for the process: pools, caches, the garbage of an interpreter. These come
 * to an end, or come and go. So memory is read after each tenth of the work. Only growth in every
 * one of the last eight tenths is a leak, and only if the same work shows it three times over. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/newer.h"
#include "worker/clocks.h"
#include "worker/growth.h"
#include "worker/serve.h"

/* As much work as fits into the time, up to these. */
enum { PLANS_MOST = 1000, RUNS_MOST = 10000 };
enum { TENTHS = 10, TENTHS_COUNTED = 8, LEAST_EACH = 5 };
/* A pool that fills up with threads may look like a leak once, a leak does so again. */
enum { SERIES = 3 };
/* Less than this for each plan or run is no leak of theirs. */
#define LEAST_BYTES 16

/* What the allocator has given out, to the byte; and all that is mapped, to the page. */
enum { HEAP, MAPPED, MEMORIES };

static void read_memory(int64_t bytes[MEMORIES])
{
    bytes[HEAP] = attn_allocated();
    bytes[MAPPED] = (int64_t)attn_mapped_now();
}

/* One plan with one run, or one run of a plan that is kept. */
typedef int (*attn_work)(void *context, struct attn_message_reply *reply);

/* Bytes by which memory grows with each work, from tenth to tenth, in a series of `each` a tenth;
 * 0: it does not grow to the end. Negative: the work failed. */
static int64_t growth(attn_work work, void *context, int each, struct attn_message_reply *reply)
{
    int64_t at[TENTHS + 1][MEMORIES];
    read_memory(at[0]);
    for (int tenth = 1; tenth <= TENTHS; tenth++) {
        for (int n = 0; n < each; n++)
            if (work(context, reply) != 0)
                return -1;
        read_memory(at[tenth]);
    }
    for (int m = 0; m < MEMORIES; m++) {
        const int first = TENTHS - TENTHS_COUNTED;
        const int64_t grown = at[TENTHS][m] - at[first][m];
        bool always = grown >= (int64_t)LEAST_BYTES * TENTHS_COUNTED * each;
        for (int tenth = first; tenth < TENTHS; tenth++)
            always = always && at[tenth + 1][m] > at[tenth][m];
        if (always)
            return grown / TENTHS_COUNTED / each;
    }
    return 0;
}

/* Does the work again and again, and fails the reply if memory grows to the end, in every series.
 */
static void grow(attn_work work, void *context, const char *what, int most, double seconds,
                 struct attn_message_reply *reply)
{
    int64_t grown = 0;
    if (work(context, reply) != 0)
        return;
    const double begin = attn_clock_wall(), used = attn_clock_process();
    if (work(context, reply) != 0)
        return;
    /* By processor time, so that a busy machine does not shorten the test; a backend that waits for
     * a device is limited by the clock. */
    const double once = fmax(attn_clock_process() - used, (attn_clock_wall() - begin) / 8) + 1e-9;
    const double fit = seconds / TENTHS / once;
    const int each = fit < LEAST_EACH ? LEAST_EACH : fit > most / TENTHS ? most / TENTHS : (int)fit;
    for (int s = 0; s < SERIES; s++)
        if ((grown = growth(work, context, each, reply)) <= 0)
            return;
    attn_reply_set(reply, ATTN_FAIL, "memory grows by %lld bytes with each %s, through %d %ss",
                   (long long)grown, what, SERIES * TENTHS * each, what);
}

struct use {
    struct attn_setup *setup;
    const struct attn_message_request *request;
    const struct attn_guarded *guarded;
    struct attn_plan plan;
};

static int open_plan(struct use *use, struct attn_message_reply *reply)
{
    if (attn_plan_open(use->setup, use->request, &use->plan, reply) != 0)
        return -1;
    return attn_plan_bind(&use->plan, use->guarded->tensors, reply);
}

static int run_plan(void *context, struct attn_message_reply *reply)
{
    struct use *use = context;
    if (attn_plan_run(&use->plan, NULL, reply) != 0)
        return -1;
    return attn_plan_fetch(&use->plan, reply);
}

static int make_plan(void *context, struct attn_message_reply *reply)
{
    struct use *use = context;
    if (open_plan(use, reply) == 0)
        run_plan(use, reply);
    attn_plan_close(&use->plan, reply);
    return reply->status == ATTN_PASS ? 0 : -1;
}

void attn_growth_find(struct attn_setup *setup, const struct attn_message_request *request,
                      const struct attn_guarded *guarded, struct attn_message_reply *reply)
{
    struct use use = {.setup = setup, .request = request, .guarded = guarded};
#ifdef __SANITIZE_ADDRESS__
    return; /* its allocator keeps what was freed, and attn_allocated knows nothing of it */
#endif
    grow(make_plan, &use, "plan", PLANS_MOST, request->min_time, reply);
    if (reply->status != ATTN_PASS)
        return;
    if (open_plan(&use, reply) == 0)
        grow(run_plan, &use, "run", RUNS_MOST, request->min_time, reply);
    attn_plan_close(&use.plan, reply);
}
