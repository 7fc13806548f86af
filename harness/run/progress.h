/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - shows how far a command is: a bar with the time left on a terminal, one line per
 * case in a log. All on stderr. */
#ifndef ATTN_PROGRESS_H
#define ATTN_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "case/case.h"
#include "results/status.h"

struct attn_progress {
    size_t total, finished;
    double began, budget_s;
    double spent; /* seconds since the beginning, when `finished` last changed */
    size_t at;    /* of the last step */
    double share; /* that the bar shows; it never goes back */
    int round;    /* the last that a log has a line of; -1: none */
    double said;  /* when a log got its last line */
    bool terminal, colour;
    int width;
};

/* Colour is used on a terminal unless NO_COLOR is set (to anything but the empty string). */
void attn_progress_begin(struct attn_progress *progress, size_t total, double budget_s);
/* Call before case `at` (0-based) starts. `finished` cases are done: verified and, if the command
 * times, timed. The time left is estimated from them. */
void attn_progress_step(struct attn_progress *progress, size_t at, size_t finished,
                        const struct attn_case *c);

/* The same while cases are timed: a backend, or ATTN_PROGRESS_TURNS, is at case `c` in a round,
 * counted from 0, of `rounds` or more. left_s: until the rounds of these cases end; below 0: not
 * known. A log gets one line a round, and one after ATTN_PROGRESS_SILENCE_S without any. */
#define ATTN_PROGRESS_TURNS "turns"
enum { ATTN_PROGRESS_SILENCE_S = 30 };
void attn_progress_round(struct attn_progress *progress, int round, int rounds, double left_s,
                         const char *name, const struct attn_case *c);

/* The same while random cases are drawn: so many of the `total` are taken. A log gets no line: the
 * command says at its end what came of it. */
void attn_progress_drawing(struct attn_progress *progress, size_t taken, size_t drawn);

/* Says which process to put a debugger on, and at a terminal waits for Enter. */
void attn_progress_debug(const char *backend, long pid);

/* Prints a sentence above the bar. */
void attn_progress_note(const char *text);
/* Shows the line that a failing case has become after this many tries. */
void attn_progress_shrink(const char *backend, int tries, const char *line);

/* Clears the bar, which the next step draws again. To be called before anything is printed. */
void attn_progress_clear(void);

/* Whether a stream may be coloured: it is a terminal, and NO_COLOR is not set. */
bool attn_colour_wanted(FILE *stream);
/* The escape sequence that begins the colour of a status; ATTN_COLOUR_END ends it. */
const char *attn_colour_of(enum attn_status status);
#define ATTN_COLOUR_END "\033[0m"

#endif
