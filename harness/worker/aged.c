/* SPDX-License-Identifier: Apache-2.0 */
/* aged.c - the same plan, seconds and other requests later. */
#include "worker/aged.h"

#include "worker/fault.h"
#include "worker/load.h"
#include "worker/serve.h"

static struct attn_aged aged;
static bool kept;

static void close_kept(struct attn_message_reply *reply)
{
    kept = false;
    attn_plan_close(&aged.plan, reply);
    attn_guarded_unmap(&aged.guarded);
}

struct attn_aged *attn_aged_empty(void)
{
    static struct attn_message_reply unheard;
    if (kept)
        close_kept(&unheard);
    return &aged;
}

void attn_aged_keep(void)
{
    kept = true;
    attn_fault_watch(NULL, 0);
}

/* The inputs that lie there now, under the same plan; and under the same binding, unless `bind` may
 * have transformed or copied them. */
static void run_again(const struct attn_message_request *request, struct attn_message_reply *reply)
{
    struct attn_plan *plan = &aged.plan;
    bool rebind = plan->backend->enqueue != NULL;
    for (uint32_t t = 0; t < request->n_tensors; t++)
        rebind = rebind || request->operands[t].packed;
    if ((!rebind || attn_plan_rebind(plan, aged.guarded.tensors, reply) == 0) &&
        attn_plan_run(plan, NULL, reply) == 0 &&
        attn_load_settle(request, aged.guarded.tensors, plan->setup, ATTN_SETTLE_S, reply) == 0)
        attn_plan_fetch(plan, reply);
}

void attn_serve_aged(const struct attn_message_request *request, const int fds[2],
                     struct attn_message_reply *reply)
{
    if (!kept) {
        attn_reply_set(reply, ATTN_SKIP, "no plan has been kept");
        return;
    }
    if (attn_guarded_remap(request, fds, &aged.request, &aged.guarded) != 0)
        attn_reply_set(reply, ATTN_ERROR, "the operands do not fit the plan that was kept");
    else
        run_again(request, reply);
    close_kept(reply);
}
