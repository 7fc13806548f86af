/* SPDX-License-Identifier: Apache-2.0 */
/* count.c - one run whose instructions valgrind counts, because the host has started the worker
 * under it (harness/host/count.c). */
#include <stdio.h>

#include "host/count.h"
#include "worker/memory.h"
#include "worker/serve.h"
#include "worker/slots.h"

/* Runs before it: what a library compiles, loads or allocates once is done then. */
#define WARM_UP 2

#if __has_attribute(noipa)
#define KEPT __attribute__((noipa))
#else
#define KEPT __attribute__((noinline))
#endif

/* Callgrind counts while this function runs, with all that it calls: it is told the name. So it
 * must stay a function, and be there until the run has returned. */
KEPT int ATTN_COUNTED_FUNCTION(const struct attn_backend *backend, void *binding, char *why,
                               size_t size);

int ATTN_COUNTED_FUNCTION(const struct attn_backend *backend, void *binding, char *why, size_t size)
{
    int result = backend->run(binding, why, size);
    /* What a backend of the host does in `fetch` is part of its work. */
    if (backend->fetch && result == ATTN_OK)
        result = backend->fetch(binding, why, size);
    __asm__ volatile("" : "+r"(result)); /* no jump into the last call in place of it */
    return result;
}

static void count_run(struct attn_plan *plan, struct attn_message_reply *reply)
{
    char why[256] = "", broken[128];
    for (int r = 0; r < WARM_UP; r++)
        if (attn_plan_run(plan, NULL, reply) != 0)
            return;
    attn_slot_enter(ATTN_SLOT_RUN);
    const int result = ATTN_COUNTED_FUNCTION(plan->backend, plan->binding, why, sizeof(why));
    const int state = attn_slot_leave(broken, sizeof(broken));
    why[sizeof(why) - 1] = 0;
    if (result != ATTN_OK)
        attn_reply_result(reply, ATTN_SLOT_RUN, result, why);
    else if (state != 0)
        attn_reply_set(reply, ATTN_FAIL, "%s, in %s", broken, attn_slot_name(ATTN_SLOT_RUN));
    reply->threads_seen = attn_threads_now();
}

void attn_serve_count(struct attn_setup *setup, const struct attn_message_request *request,
                      const int fds[2], struct attn_message_reply *reply)
{
    struct attn_owned owned;
    struct attn_plan plan;
    char why[256];
    if (attn_owned_create(request, fds, &owned, why, sizeof(why)) != 0) {
        attn_reply_set(reply, ATTN_OOM, "%s", why);
        return;
    }
    if (attn_plan_open(setup, request, &plan, reply) == 0 &&
        attn_plan_bind(&plan, owned.tensors, reply) == 0)
        count_run(&plan, reply);
    attn_plan_close(&plan, reply);
    if (reply->status == ATTN_PASS)
        attn_owned_return(request, &owned, 0);
    attn_owned_free(&owned);
}
