/* SPDX-License-Identifier: Apache-2.0 */
/* timing.h - what every timing ends with: the checks after the last run, and what goes back. */
#ifndef ATTN_WORKER_TIMING_H
#define ATTN_WORKER_TIMING_H

#include "worker/plan.h"
#include "worker/vary.h"

/* After the last timed run of a bound plan: one more run for whose inputs the host has a reference,
 * and the checks that nothing computes after `run` and that `fetch` only copies. warm_up: seconds
 * of the first run. A failure goes into the reply. */
void attn_timing_finish(struct attn_plan *plan, const struct attn_message_request *request,
                        struct attn_owned *owned, struct attn_vary *vary, double warm_up,
                        struct attn_message_reply *reply);

/* After the plan is closed, if all has passed: the outputs go back to the host, and the reply says
 * which run was kept and whether an input was written to. */
void attn_timing_return(const struct attn_backend *backend,
                        const struct attn_message_request *request, struct attn_owned *owned,
                        struct attn_vary *vary, struct attn_message_reply *reply);

#endif
