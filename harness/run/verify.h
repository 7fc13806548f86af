/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h - runs one case on one backend in guarded memory and judges it. */
#ifndef ATTN_VERIFY_H
#define ATTN_VERIFY_H

#include "run/entry.h"
#include "run/seat.h"

/* Makes an instance, or says why not as a verdict: skip (needs ..., have ...) where it can not fit,
 * ERROR otherwise. Returns NULL then. */
struct attn_instance *attn_instance_for(const struct attn_session *session,
                                        const struct attn_case *c, struct attn_judgement *verdict);

/* Fills the entry's verification part. With a backend that computes nothing, PASS without judging.
 * `judge` is shared by all backends of a case. */
void attn_verify_entry(struct attn_seat *seat, struct attn_instance *instance,
                       struct attn_judge *judge, struct attn_entry *entry);

/* Records an entry's verdict and prints it as a line on `out` unless NULL. Returns 0 or -1 with the
 * reason. */
int attn_verify_finish(struct attn_session *session, struct attn_entry *entry, FILE *out, char *why,
                       size_t size);

/* One case: its instance and judge (both given to the caller, NULL where it can not be made), the
 * reference against a pack's expected answers, then every backend of the session. `seats` and
 * `entries` have one item a backend. Returns 0, or -1 with the reason. */
int attn_verify_case(struct attn_session *session, struct attn_seat *seats,
                     const struct attn_case *c, struct attn_instance **instance,
                     struct attn_judge **judge, struct attn_entry *entries, FILE *out, char *why,
                     size_t size);

/* The whole command: every case on every backend; records, progress on stderr, a line a result on
 * `out` unless NULL. Returns 0, or -1 with the reason when the harness itself failed. */
int attn_verify_all(struct attn_session *session, FILE *out, char *why, size_t size);

#endif
