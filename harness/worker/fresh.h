/* SPDX-License-Identifier: Apache-2.0 */
/* fresh.h - checks that a result comes from the present inputs and not from an earlier run.
 *
 * `out` is linear in v, and in the x that v is projected from if nothing is added to it. So when
 * every sign of v is turned, every element of `out` that is not zero must change. */
#ifndef ATTN_WORKER_FRESH_H
#define ATTN_WORKER_FRESH_H

#include "worker/plan.h"

/* The input whose signs are turned; UINT32_MAX: turning no input must change the result. */
uint32_t attn_fresh_input(const struct attn_message_request *request);

/* Turns the sign of every element. Doing it twice restores the input. */
void attn_fresh_turn(const struct attn_tensor *tensor, uint32_t element);

/* Call it with the input turned, after a run and its fetch. It runs once more, compares, and puts
 * the earlier results back. If the backend has `fetch`, its inputs may lie on a device, so they are
 * bound again. Returns 0, or -1 with status and reason in the reply. */
int attn_fresh_run(struct attn_plan *plan, const struct attn_message_request *request,
                   const struct attn_tensor *tensors, struct attn_message_reply *reply);

#endif
