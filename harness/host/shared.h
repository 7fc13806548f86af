/* SPDX-License-Identifier: Apache-2.0 */
/* shared.h - a request with operands in shared memory, from sending to the checks of what has come
 * back. Internal to the host. */
#ifndef ATTN_HOST_SHARED_H
#define ATTN_HOST_SHARED_H

#include "host/share.h"
#include "host/types.h"

struct attn_worker;

/* Makes sure that there is a process, and that it has been told what it is for. */
struct attn_outcome attn_worker_ensure(struct attn_worker *worker);

/* A request about a problem; `share` may be NULL, and fills in where the operands lie. */
void attn_request_fill(struct attn_message_request *request, uint32_t kind,
                       const struct attn_instance *instance, const struct attn_share *share);

/* Set instance and twin (NULL: none); the rest belongs to the functions. */
struct attn_shared {
    struct attn_instance *instance, *twin;
    struct attn_share share;
    bool two_results; /* the twin receives the outputs of a run drawn at random */
};

/* Shares the operands and sends a request with these parameters of its kind. PASS: the reply, or
 * for LIVE the first sample, is in worker->in. Call attn_shared_finish in any case. */
struct attn_outcome attn_shared_send(struct attn_worker *worker, struct attn_shared *shared,
                                     enum attn_placement placement,
                                     const struct attn_message_request *parameters);

/* Takes the outcome of the last exchange. If that is PASS, checks the promises that every backend
 * makes and brings the outputs back. Frees what is shared. info may be NULL. */
struct attn_outcome attn_shared_finish(struct attn_worker *worker, struct attn_shared *shared,
                                       struct attn_outcome outcome, struct attn_plan_info *info);

#endif
