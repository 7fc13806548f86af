/* SPDX-License-Identifier: Apache-2.0 */
/* fresh.h - checks that a result comes from the present inputs and not from an earlier run.
 *
 * The host names an input that `out` is linear in, where the operator has one: v, say. With every
 * sign of it turned, no element of `out` can stay what it was, except those that are zero. */
#ifndef ATTN_WORKER_FRESH_H
#define ATTN_WORKER_FRESH_H

#include "worker/plan.h"

/* The input whose signs are to be turned; UINT32_MAX: there is none. */
uint32_t attn_fresh_input(const struct attn_message_request *request);

/* Turns the sign of every element. Doing it twice restores the input. */
void attn_fresh_turn(const struct attn_tensor *tensor, uint32_t element);

/* Call it with the input turned, after a run and its fetch. It runs once more, compares, and puts
 * the earlier results back. If the backend has `fetch`, its inputs may lie on a device, so they are
 * bound again. Returns 0, or -1 with status and reason in the reply. */
int attn_fresh_run(struct attn_plan *plan, const struct attn_message_request *request,
                   const struct attn_tensor *tensors, struct attn_message_reply *reply);

#endif
