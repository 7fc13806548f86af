/* SPDX-License-Identifier: Apache-2.0 */
/* growth.h - memory over a thousand plans and ten thousand runs. */
#ifndef ATTN_WORKER_GROWTH_H
#define ATTN_WORKER_GROWTH_H

#include "worker/guard.h"
#include "worker/plan.h"

/* Makes up to a thousand plans, then up to ten thousand runs of one, each for request->min_time
 * seconds. FAIL if memory grows with them to the end. */
void attn_growth_find(struct attn_setup *setup, const struct attn_message_request *request,
                      const struct attn_guarded *guarded, struct attn_message_reply *reply);

#endif
