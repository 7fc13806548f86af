/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - calls of a backend's slots. */
#include "worker/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "worker/clocks.h"
#include "worker/slots.h"

#define WHY_SIZE 384

void attn_reply_set(struct attn_message_reply *reply, uint32_t status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    reply->status = status;
    vsnprintf(reply->reason, sizeof(reply->reason), format, args);
    va_end(args);
}

void attn_reply_result(struct attn_message_reply *reply, uint32_t slot, int result, const char *why)
{
    const char *name = attn_slot_name(slot);
    const char *text = why[0] ? why : "no reason given";
    const bool refusable = slot != ATTN_SLOT_RUN && slot != ATTN_SLOT_FETCH;

    if (result == ATTN_NO_DEVICE || (result == ATTN_UNSUPPORTED && refusable))
        attn_reply_set(reply, ATTN_SKIP, "%s", text);
    else if (result == ATTN_OUT_OF_MEMORY)
        attn_reply_set(reply, ATTN_OOM, "%s was refused memory: %s", name, text);
    else if (result >= ATTN_UNSUPPORTED && result <= ATTN_FAILED)
        attn_reply_set(reply, ATTN_ERROR, "%s failed: %s", name, text);
    else
        attn_reply_set(reply, ATTN_ERROR, "%s returned the unknown result %d", name, result);
}

static void state_broken(struct attn_message_reply *reply, uint32_t slot, const char *broken)
{
    attn_reply_set(reply, ATTN_FAIL, "%s, in %s", broken, attn_slot_name(slot));
    reply->broken = ATTN_PROMISE_STATE;
}

/* Judges a slot that has returned: its result first, then the state it left behind. */
static int finish(struct attn_message_reply *reply, uint32_t slot, int result, char *why)
{
    char broken[128];
    const int state = attn_slot_leave(broken, sizeof(broken));
    why[WHY_SIZE - 1] = 0;
    if (result != ATTN_OK)
        attn_reply_result(reply, slot, result, why);
    else if (state != 0)
        state_broken(reply, slot, broken);
    return result == ATTN_OK && state == 0 ? 0 : -1;
}

/* The problem as a plan sees it: its own descriptors, no data. */
static struct attn_problem problem_of(const struct attn_message_request *request)
{
    struct attn_problem problem = request->problem;
    problem.struct_size = sizeof(problem);
    problem.n_tensors = request->n_tensors;
    problem.tensors = request->tensors;
    return problem;
}

static int call_supports(struct attn_setup *setup, const struct attn_problem *problem,
                         struct attn_message_reply *reply)
{
    char why[WHY_SIZE] = "";
    attn_slot_enter(ATTN_SLOT_SUPPORTS);
    const int result = setup->backend->supports(problem, &setup->services, why, sizeof(why));
    return finish(reply, ATTN_SLOT_SUPPORTS, result, why);
}

int attn_plan_supports(struct attn_setup *setup, const struct attn_message_request *request,
                       struct attn_message_reply *reply)
{
    const struct attn_problem problem = problem_of(request);
    return call_supports(setup, &problem, reply);
}

/* What the plan says of itself, into the reply. */
static int ask(struct attn_plan *plan, struct attn_message_reply *reply)
{
    char none[WHY_SIZE] = "";
    if (plan->backend->numerics) {
        reply->numerics = (struct attn_numerics){.struct_size = sizeof(reply->numerics)};
        attn_slot_enter(ATTN_SLOT_NUMERICS);
        plan->backend->numerics(plan->plan, &reply->numerics);
        reply->has_numerics = 1;
        reply->has_source = reply->numerics.source != NULL;
        if (reply->has_source)
            snprintf(reply->source, sizeof(reply->source), "%s", reply->numerics.source);
        reply->numerics.source = NULL;
        if (finish(reply, ATTN_SLOT_NUMERICS, ATTN_OK, none) != 0)
            return -1;
    }
    if (plan->backend->describe) {
        attn_slot_enter(ATTN_SLOT_DESCRIBE);
        plan->backend->describe(plan->plan, reply->path, sizeof(reply->path));
        reply->path[sizeof(reply->path) - 1] = 0;
        if (finish(reply, ATTN_SLOT_DESCRIBE, ATTN_OK, none) != 0)
            return -1;
    }
    return 0;
}

int attn_plan_open(struct attn_setup *setup, const struct attn_message_request *request,
                   struct attn_plan *plan, struct attn_message_reply *reply)
{
    char why[WHY_SIZE] = "";
    *plan = (struct attn_plan){.setup = setup, .backend = setup->backend};
    plan->problem = problem_of(request);
    if (call_supports(setup, &plan->problem, reply) != 0)
        return -1;
    attn_slot_enter(ATTN_SLOT_CREATE);
    const int result =
        plan->backend->create(&plan->problem, &setup->services, &plan->plan, why, sizeof(why));
    plan->created = result == ATTN_OK;
    if (finish(reply, ATTN_SLOT_CREATE, result, why) != 0)
        return -1;
    return ask(plan, reply);
}

/* After bind, so that packed weights count. */
static int ask_workspace(struct attn_plan *plan, struct attn_message_reply *reply)
{
    char none[WHY_SIZE] = "";
    reply->workspace_bytes = atomic_load(&plan->setup->state.live);
    if (!plan->backend->workspace_bytes)
        return 0;
    attn_slot_enter(ATTN_SLOT_WORKSPACE);
    reply->workspace_bytes += plan->backend->workspace_bytes(plan->plan);
    return finish(reply, ATTN_SLOT_WORKSPACE, ATTN_OK, none);
}

static int bind(struct attn_plan *plan, const struct attn_tensor *tensors, void **binding,
                bool *bound, struct attn_message_reply *reply)
{
    char why[WHY_SIZE] = "";
    attn_slot_enter(ATTN_SLOT_BIND);
    const int result = plan->backend->bind(plan->plan, tensors, plan->problem.n_tensors, binding,
                                           why, sizeof(why));
    *bound = result == ATTN_OK;
    return finish(reply, ATTN_SLOT_BIND, result, why);
}

int attn_plan_bind(struct attn_plan *plan, const struct attn_tensor *tensors,
                   struct attn_message_reply *reply)
{
    if (bind(plan, tensors, &plan->binding, &plan->bound, reply) != 0)
        return -1;
    return ask_workspace(plan, reply);
}

int attn_plan_bind_another(struct attn_plan *plan, const struct attn_tensor *tensors,
                           void **binding, struct attn_message_reply *reply)
{
    bool bound;
    if (bind(plan, tensors, binding, &bound, reply) == 0)
        return 0;
    if (bound)
        attn_plan_release(plan, *binding, reply);
    return -1;
}

int attn_plan_run(struct attn_plan *plan, double *seconds, struct attn_message_reply *reply)
{
    char why[WHY_SIZE] = "";
    attn_slot_enter(ATTN_SLOT_RUN);
    const double start = attn_clock_wall();
    const int result = plan->backend->run(plan->binding, why, sizeof(why));
    if (seconds)
        *seconds = attn_clock_wall() - start;
    return finish(reply, ATTN_SLOT_RUN, result, why);
}

int attn_plan_fetch(struct attn_plan *plan, struct attn_message_reply *reply)
{
    char why[WHY_SIZE] = "";
    if (!plan->backend->fetch)
        return 0;
    attn_slot_enter(ATTN_SLOT_FETCH);
    const int result = plan->backend->fetch(plan->binding, why, sizeof(why));
    return finish(reply, ATTN_SLOT_FETCH, result, why);
}

int attn_device_ask(const struct attn_backend *backend, struct attn_device *device,
                    struct attn_message_reply *reply)
{
    char none[WHY_SIZE] = "";
    *device = (struct attn_device){.struct_size = 0};
    /* The slot was appended: a plugin that is older than it ends before. */
    if (backend->struct_size <= offsetof(struct attn_backend, device) || !backend->device)
        return 0;
    device->struct_size = sizeof(*device);
    attn_slot_enter(ATTN_SLOT_DEVICE);
    backend->device(device);
    device->throttled[sizeof(device->throttled) - 1] = 0;
    return finish(reply, ATTN_SLOT_DEVICE, ATTN_OK, none);
}

/* A slot without a result, after which only the state it left can be wrong. */
static void finish_closing(struct attn_message_reply *reply, uint32_t slot)
{
    char broken[128];
    if (attn_slot_leave(broken, sizeof(broken)) != 0 && reply->status == ATTN_PASS)
        state_broken(reply, slot, broken);
}

void attn_plan_release(struct attn_plan *plan, void *binding, struct attn_message_reply *reply)
{
    attn_slot_enter(ATTN_SLOT_RELEASE);
    plan->backend->release(binding);
    finish_closing(reply, ATTN_SLOT_RELEASE);
}

static void release(struct attn_plan *plan, struct attn_message_reply *reply)
{
    attn_plan_release(plan, plan->binding, reply);
    plan->bound = false;
}

int attn_plan_rebind(struct attn_plan *plan, const struct attn_tensor *tensors,
                     struct attn_message_reply *reply)
{
    release(plan, reply);
    return reply->status == ATTN_PASS ? attn_plan_bind(plan, tensors, reply) : -1;
}

void attn_plan_close(struct attn_plan *plan, struct attn_message_reply *reply)
{
    if (plan->bound)
        release(plan, reply);
    if (plan->created) {
        attn_slot_enter(ATTN_SLOT_DESTROY);
        plan->backend->destroy(plan->plan);
        finish_closing(reply, ATTN_SLOT_DESTROY);
    }
    *plan = (struct attn_plan){.setup = plan->setup};
}
