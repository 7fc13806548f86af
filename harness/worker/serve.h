/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h - one function for each kind of request. All fill the reply. The caller has set it to
 * PASS and zero. */
#ifndef ATTN_WORKER_SERVE_H
#define ATTN_WORKER_SERVE_H

#include "worker/plan.h"

/* Applies a configuration: limits, processors, plugin, backend, options. */
void attn_serve_config(struct attn_setup *setup, const struct attn_message_config *config,
                       struct attn_message_reply *reply);

/* Sends a BACKEND message for each backend. */
void attn_serve_inspect(struct attn_setup *setup, struct attn_message_reply *reply);

/* Asks `supports` for flags, words, types, roles and spaces without a meaning. FAIL if it accepts
 * one. The request's problem is one that the backend accepts. */
void attn_serve_unknowns(struct attn_setup *setup, const struct attn_message_request *request,
                         struct attn_message_reply *reply);

void attn_serve_verify(struct attn_setup *setup, const struct attn_message_request *request,
                       const int fds[2], struct attn_message_reply *reply);
/* One more run of the plan that a VERIFY has kept. SKIP: none is kept. */
void attn_serve_aged(const struct attn_message_request *request, const int fds[2],
                     struct attn_message_reply *reply);
void attn_serve_repeat(struct attn_setup *setup, const struct attn_message_request *request,
                       const int fds[2], struct attn_message_reply *reply);
void attn_serve_bench(struct attn_setup *setup, const struct attn_message_request *request,
                      const int fds[2], struct attn_message_reply *reply);
/* Answers BATCH messages until the host sends the last one, or something fails. */
void attn_serve_live(struct attn_setup *setup, const struct attn_message_request *request,
                     const int fds[2], struct attn_message_reply *reply);
void attn_serve_peak(struct attn_setup *setup, const struct attn_message_request *request,
                     const int fds[2], struct attn_message_reply *reply);
/* A run whose instructions valgrind counts. */
void attn_serve_count(struct attn_setup *setup, const struct attn_message_request *request,
                      const int fds[2], struct attn_message_reply *reply);
void attn_serve_ceilings(struct attn_setup *setup, struct attn_message_reply *reply);

/* Bytes of address space that this process has mapped now; 0: unknown. */
uint64_t attn_mapped_now(void);

/* Number of threads of this process now; 0: unknown. */
uint32_t attn_threads_now(void);

#endif
