/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h - case by case, backend by backend: verdicts, and their records. */
#ifndef ATTN_VERIFY_H
#define ATTN_VERIFY_H

#include "run/entry.h"
#include "run/seat.h"

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
