/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h - checks what a worker sent, or how it ended, and puts it into words. Internal to the
 * host. */
#ifndef ATTN_HOST_REPLY_H
#define ATTN_HOST_REPLY_H

#include <stddef.h>

#include "host/protocol.h"
#include "host/types.h"

/* An outcome with a formatted reason. */
struct attn_outcome attn_outcome_make(enum attn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A fatal signal, as the worker's handler reported it. The instance may be NULL. */
struct attn_outcome attn_outcome_of_fault(const struct attn_message_fault *fault,
                                          const struct attn_instance *instance);

/* The worker ended without a message, by exit or by a signal. */
struct attn_outcome attn_outcome_of_exit(int wait_status, uint32_t slot);

/* Checks every field of a reply, of a sample and of a backend's description. Return 0, or -1 with
 * the reason. */
int attn_reply_check(const struct attn_message_reply *reply, char *why, size_t size);
int attn_sample_check(const struct attn_message_sample *sample, char *why, size_t size);
int attn_backend_info_check(struct attn_backend_info *info, char *why, size_t size);

/* Copies what a checked reply says about a device. */
void attn_device_take(struct attn_device *to, const struct attn_device *from);

/* Copies what a checked reply says about the plan. */
void attn_plan_info_take(struct attn_plan_info *info, const struct attn_message_reply *reply,
                         const char *protection);

#endif
