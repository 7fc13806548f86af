/* SPDX-License-Identifier: Apache-2.0 */
/* instance.h - operands of a case, if there is time and memory for them. */
#ifndef ATTN_RUN_INSTANCE_H
#define ATTN_RUN_INSTANCE_H

#include "judge/judgement.h"
#include "run/session.h"
#include "tensor/instance.h"

/* Makes an instance; `like` as in attn_instance_create_like. On failure returns NULL, and the
 * verdict says why: skip (needs ..., have ...) if it does not fit in memory, ERROR otherwise. */
struct attn_instance *attn_instance_for(const struct attn_session *session,
                                        const struct attn_case *c, const struct attn_instance *like,
                                        struct attn_judgement *verdict);
/* One whose inputs the caller writes. NULL: no time, or no memory. */
struct attn_instance *attn_instance_blank(const struct attn_session *session,
                                          const struct attn_case *c);

/* Sets a verdict that was reached without judging. */
void attn_judgement_set(struct attn_judgement *verdict, enum attn_status status,
                        const char *reason);

#endif
