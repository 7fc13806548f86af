/* SPDX-License-Identifier: Apache-2.0 */
/* resume.h - takes up a run where it was cut off. */
#ifndef ATTN_RESUME_H
#define ATTN_RESUME_H

#include "run/session.h"

/* Reads the session's results.ndjson, counts the verdicts that stand there, and removes from the
 * session's cases those that every backend is done with: timed, or with a verdict that ends it.
 * Returns 0, or -1 with the reason. */
int attn_resume(struct attn_session *session, char *why, size_t size);

#endif
