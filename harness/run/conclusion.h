/* SPDX-License-Identifier: Apache-2.0 */
/* conclusion.h - the exit code of a command, and the line that says why it is not 0. */
#ifndef ATTN_CONCLUSION_H
#define ATTN_CONCLUSION_H

#include "run/session.h"

/* The code that the verdicts of a session lead to. A backend that was asked for by -b or --plugin
 * and was checked on nothing makes it ATTN_EXIT_NOTHING. `line` receives one line that says why,
 * and what to do; "" for ATTN_EXIT_OK. */
enum attn_exit attn_conclude(const struct attn_session *session, char *line, size_t size);

#endif
