/* SPDX-License-Identifier: Apache-2.0 */
/* fresh.h - does a result come from the inputs as they are now, or from an earlier run.
 *
 * The host names an input that `out` is linear in, where the operator has one: v, say. With every
 * sign of it turned, no element of `out` can stay what it was, except those that are zero. */
#ifndef ATTN_WORKER_FRESH_H
#define ATTN_WORKER_FRESH_H

#include "worker/plan.h"

/* The input whose signs are to be turned; UINT32_MAX: there is none. */
uint32_t attn_fresh_input(const struct attn_message_request *request);

/* Turns the sign of every element; twice is as before. */
void attn_fresh_turn(const struct attn_tensor *tensor, uint32_t element);

/* To be called with the input turned, after a run and its fetch: runs once more and compares. Where
 * the backend fetches, its inputs may lie on a device, and are bound again. The earlier results are
 * put back. Returns 0, or -1 with status and reason in the reply. */
int attn_fresh_run(struct attn_plan *plan, const struct attn_message_request *request,
                   const struct attn_tensor *tensors, struct attn_message_reply *reply);

#endif
