/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - shows how far a command is: a bar with the time left on a terminal, one line per
 * case in a log. All on stderr. */
#ifndef ATTN_PROGRESS_H
#define ATTN_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "case/case.h"

struct attn_progress {
    size_t total, finished;
    double began, budget_s;
    double spent; /* seconds since the beginning, when `finished` last changed */
    bool terminal, colour;
    int width;
};

/* Colour is used on a terminal unless NO_COLOR is set (to anything but the empty string). */
void attn_progress_begin(struct attn_progress *progress, size_t total, double budget_s);
/* Call before case `at` (0-based) starts. `finished` cases are done: verified and, if the command
 * times, timed. The time left is estimated from them. */
void attn_progress_step(struct attn_progress *progress, size_t at, size_t finished,
                        const struct attn_case *c);

/* Says which process to put a debugger on, and at a terminal waits for Enter. */
void attn_progress_debug(const char *backend, long pid);

/* Prints a sentence above the bar. */
void attn_progress_note(const char *text);
/* Shows the line that a failing case has become after this many tries. */
void attn_progress_shrink(const char *backend, int tries, const char *line);

/* Clears the bar. */
void attn_progress_end(struct attn_progress *progress);

#endif
