/* SPDX-License-Identifier: Apache-2.0 */
/* resume.h - continues a run that was cut off. */
#ifndef ATTN_RESUME_H
#define ATTN_RESUME_H

#include "run/session.h"

/* Reads the session's results.ndjson and counts its verdicts. Removes from the session the cases
 * that every backend has finished: timed, or with a verdict after which nothing is timed. Returns
 * 0, or -1 with the reason. */
int attn_resume(struct attn_session *session, char *why, size_t size);

#endif
