/* SPDX-License-Identifier: Apache-2.0 */
/* aged.h - a plan that is kept beside the next requests, to run once more when it is old. */
#ifndef ATTN_WORKER_AGED_H
#define ATTN_WORKER_AGED_H

#include "worker/guard.h"
#include "worker/plan.h"

/* How long the end of a run is watched for what still computes or writes. */
#define ATTN_SETTLE_S 0.02

/* A plan with its operands, and the request that its tensors belong to. */
struct attn_aged {
    struct attn_message_request request;
    struct attn_plan plan;
    struct attn_guarded guarded;
};

/* Room for the one plan that can be kept. One that is there already is closed. */
struct attn_aged *attn_aged_empty(void);

/* The plan in that room is kept from now on, bound and old by at least one run. Its operands are no
 * longer watched for faults. */
void attn_aged_keep(void);

#endif
