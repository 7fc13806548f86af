/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - the life of one plan: every slot call of a request. A failure goes into the reply.
 *
 * All functions that return int: 0, or -1 with status and reason in the reply. */
#ifndef ATTN_WORKER_PLAN_H
#define ATTN_WORKER_PLAN_H

#include "host/protocol.h"
#include "plugin/loader.h"
#include "worker/services.h"

/* What a worker was configured for. */
struct attn_setup {
    struct attn_loaded loaded;
    const struct attn_backend *backend; /* NULL: none selected */
    struct attn_services services;
    struct attn_service_state state;
    int init_result; /* the answer of the plugin's init, and its reason */
    char init_why[256];
    uint32_t threads;
    uint32_t n_processors;
    uint32_t processors[ATTN_PROCESSORS_MAX];
};

struct attn_plan {
    struct attn_setup *setup;
    const struct attn_backend *backend;
    struct attn_problem problem; /* its tensors have no data */
    void *plan, *binding;        /* NULL: not made yet */
    bool created, bound;
};

int attn_plan_supports(struct attn_setup *setup, const struct attn_message_request *request,
                       struct attn_message_reply *reply);

/* supports, create, numerics, describe. */
int attn_plan_open(struct attn_setup *setup, const struct attn_message_request *request,
                   struct attn_plan *plan, struct attn_message_reply *reply);
int attn_plan_bind(struct attn_plan *plan, const struct attn_tensor *tensors,
                   struct attn_message_reply *reply);

/* Makes one more binding of the plan. The caller releases it before the plan is closed. */
int attn_plan_bind_another(struct attn_plan *plan, const struct attn_tensor *tensors,
                           void **binding, struct attn_message_reply *reply);
void attn_plan_release(struct attn_plan *plan, void *binding, struct attn_message_reply *reply);

/* Replaces the binding by a new one. */
int attn_plan_rebind(struct attn_plan *plan, const struct attn_tensor *tensors,
                     struct attn_message_reply *reply);

/* One run with all checks around it; seconds may be NULL. */
int attn_plan_run(struct attn_plan *plan, double *seconds, struct attn_message_reply *reply);
int attn_plan_fetch(struct attn_plan *plan, struct attn_message_reply *reply);

/* Asks for the present state of the device; struct_size 0: the backend reports none. */
int attn_device_ask(const struct attn_backend *backend, struct attn_device *device,
                    struct attn_message_reply *reply);

/* Calls release and destroy as far as needed. A reply that holds a failure keeps it. */
void attn_plan_close(struct attn_plan *plan, struct attn_message_reply *reply);

/* Puts a result other than ATTN_OK into the reply. */
void attn_reply_result(struct attn_message_reply *reply, uint32_t slot, int result,
                       const char *why);

/* Puts a status and a formatted reason into the reply. */
void attn_reply_set(struct attn_message_reply *reply, uint32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
