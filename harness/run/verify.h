/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h - case by case, backend by backend: verdicts, and their records. */
#ifndef ATTN_VERIFY_H
#define ATTN_VERIFY_H

#include "run/entry.h"
#include "run/seat.h"

/* Records an entry's verdict and prints it as one line on `out`, unless `out` is NULL. Returns 0,
 * or -1 with the reason. */
int attn_verify_finish(struct attn_session *session, struct attn_entry *entry, FILE *out, char *why,
                       size_t size);

/* One case on every backend of the session. */
struct attn_verification {
    const struct attn_case *c;
    struct attn_seat *seats;        /* one per backend */
    struct attn_entry *entries;     /* one per backend; overwritten */
    struct attn_instance *instance; /* set; NULL: it cannot be made. The caller frees it */
    struct attn_judge *judge;       /* the same */
};

/* Makes the instance and its judge, compares the reference with a pack's expected answers, then
 * verifies every backend. Returns 0, or -1 with the reason. */
int attn_verify_case(struct attn_session *session, struct attn_verification *verification,
                     FILE *out, char *why, size_t size);

/* The whole command: every case on every backend. Writes records, progress on stderr, and one line
 * per result on `out` unless that is NULL. Returns 0, or -1 with the reason if the harness itself
 * failed. */
int attn_verify_all(struct attn_session *session, FILE *out, char *why, size_t size);

#endif
