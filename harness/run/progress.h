/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - how far a command is: a bar with the time left on a terminal, one line a case in a
 * log. All on stderr. */
#ifndef ATTN_PROGRESS_H
#define ATTN_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "case/case.h"

struct attn_progress {
    size_t total, finished;
    double began, budget_s;
    double spent; /* seconds, when the last of `finished` were */
    bool terminal, colour;
    int width;
};

/* Colour is used on a terminal unless NO_COLOR is set (to anything but the empty string). */
void attn_progress_begin(struct attn_progress *progress, size_t total, double budget_s);
/* Before case `at` (0-based) starts, with `finished` cases behind: verified and, where they are to
 * be, timed. The time left is estimated from those. */
void attn_progress_step(struct attn_progress *progress, size_t at, size_t finished,
                        const struct attn_case *c);

/* Says which process to put a debugger on, and at a terminal waits for Enter. */
void attn_progress_debug(const char *backend, long pid);

/* A sentence beside the bar. */
void attn_progress_note(const char *text);
/* A failing case of a backend has become this line, after so many tries. */
void attn_progress_shrink(const char *backend, int tries, const char *line);

/* Clears the bar. */
void attn_progress_end(struct attn_progress *progress);

#endif
