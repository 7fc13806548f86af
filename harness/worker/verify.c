/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c - one plan on guarded operands. */
#include <dirent.h>

#include "worker/aged.h"
#include "worker/clocks.h"
#include "worker/fresh.h"
#include "worker/guard.h"
#include "worker/load.h"
#include "worker/serve.h"

uint32_t attn_threads_now(void)
{
    uint32_t n = 0;
    DIR *dir = opendir("/proc/self/task");
    if (!dir)
        return 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* With the signs of an input turned, in a copy that is read-only while the backend runs. */
static void run_fresh(struct attn_plan *plan, const struct attn_message_request *request,
                      const int fds[2], const struct attn_guarded *guarded,
                      struct attn_message_reply *reply)
{
    const uint32_t t = attn_fresh_input(request);
    if (t == UINT32_MAX || attn_guarded_own(request, fds, t, guarded) != 0)
        return;
    attn_fresh_turn(&guarded->tensors[t], request->operands[t].element);
    attn_guarded_protect(request, t, guarded);
    attn_fresh_run(plan, request, guarded->tensors, reply);
}

/* Weights and score parameters first, with a new binding, since bind may have transformed them;
 * then all others, under that binding. A device has copied its inputs, so it is bound once more. */
static int replace_inputs(struct attn_plan *plan, const struct attn_message_request *request,
                          const int fds[2], const struct attn_guarded *guarded,
                          struct attn_message_reply *reply)
{
    bool packed = false;
    for (uint32_t t = 0; t < request->n_tensors; t++)
        packed = packed || request->operands[t].packed;
    if (packed && (attn_guarded_replace(request, fds, true, guarded) != 0 ||
                   attn_plan_rebind(plan, guarded->tensors, reply) != 0))
        return -1;
    if (attn_guarded_replace(request, fds, false, guarded) != 0) {
        attn_reply_set(reply, ATTN_ERROR, "cannot map the second set of inputs");
        return -1;
    }
    return plan->backend->enqueue ? attn_plan_rebind(plan, guarded->tensors, reply) : 0;
}

/* The wall time of a series of runs, at most, over its processor time. */
#define WALL_SHARE 4

/* Runs that answer for the first inputs, and one that must answer for the second. Nothing is primed
 * between them: what lies in the outputs is a right answer, to another question. */
static void run_renewed(struct attn_plan *plan, const struct attn_message_request *request,
                        const int fds[2], const struct attn_guarded *guarded,
                        struct attn_message_reply *reply)
{
    if (attn_plan_bind(plan, guarded->tensors, reply) != 0)
        return;
    const struct attn_load before = attn_load_now();
    /* Processor time: on a busy machine it is still as many runs. Who waits for a device or sleeps
     * is limited by the clock. */
    const double start = attn_clock_process();
    int32_t r;
    for (r = 0; r < request->runs && attn_clock_process() - start <= request->min_time &&
                attn_clock_wall() - before.wall <= WALL_SHARE * request->min_time;
         r++)
        if (attn_plan_run(plan, NULL, reply) != 0)
            return;
    if (attn_load_check(&before, r, plan->setup, reply) != 0)
        return;
    if (replace_inputs(plan, request, fds, guarded, reply) == 0 &&
        attn_plan_run(plan, NULL, reply) == 0 &&
        attn_load_settle(request, guarded->tensors, plan->setup, ATTN_SETTLE_S, reply) == 0)
        attn_plan_fetch(plan, reply);
}

static void run_all(struct attn_plan *plan, const struct attn_message_request *request,
                    const int fds[2], const struct attn_guarded *guarded,
                    struct attn_message_reply *reply)
{
    /* A plan may be bound again; the second placement tries it. */
    if (attn_plan_bind(plan, guarded->tensors, reply) != 0 ||
        (request->fresh && attn_plan_rebind(plan, guarded->tensors, reply) != 0))
        return;
    for (int32_t r = 0; r < request->runs; r++) {
        double seconds;
        if (r > 0)
            attn_guarded_prime(request, guarded);
        if (attn_plan_run(plan, &seconds, reply) != 0)
            return;
        if (r == 0 || seconds < reply->seconds)
            reply->seconds = seconds;
    }
    reply->threads_seen = attn_threads_now();
    const double ran = attn_clock_wall();
    const int fetched = attn_plan_fetch(plan, reply);
    if (!plan->backend->enqueue) /* work that is done there is part of the run */
        reply->seconds += attn_clock_wall() - ran;
    if (fetched == 0 && request->fresh)
        run_fresh(plan, request, fds, guarded, reply);
}

void attn_serve_verify(struct attn_setup *setup, const struct attn_message_request *request,
                       const int fds[2], struct attn_message_reply *reply)
{
    struct attn_aged here, *use = request->keep ? attn_aged_empty() : &here;
    char why[256];

    use->request = *request; /* the plan may look at its tensors as long as it lives */
    if (attn_guarded_map(request, fds, &use->guarded, why, sizeof(why)) != 0) {
        attn_reply_set(reply, ATTN_ERROR, "%s", why);
        return;
    }
    const bool renewed = request->second[0] > 0;
    if (renewed)
        attn_load_widen(setup);
    if (attn_plan_open(setup, &use->request, &use->plan, reply) == 0)
        (renewed ? run_renewed : run_all)(&use->plan, &use->request, fds, &use->guarded, reply);
    if (renewed)
        attn_load_narrow(setup);
    if (request->keep && reply->status == ATTN_PASS) {
        attn_aged_keep();
        return;
    }
    attn_plan_close(&use->plan, reply);
    attn_guarded_unmap(&use->guarded);
}
