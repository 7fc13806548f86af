/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - the bar on stderr. */
#include "run/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "run/session.h"

enum { BAR = 24 };

/* There is a bar in the terminal's last line. */
static bool shown;

bool attn_colour_wanted(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(stream)) && !(term && !strcmp(term, "dumb")) && !(no_color && *no_color);
}

const char *attn_colour_of(enum attn_status status)
{
    switch (status) {
    case ATTN_PASS:
    case ATTN_APPROX:
        return "\033[32m";
    case ATTN_SKIP:
        return "\033[2m";
    case ATTN_MISTRUSTED:
        return "\033[33m";
    default:
        return "\033[31m";
    }
}

void attn_progress_begin(struct attn_progress *p, size_t total, double budget_s)
{
    const char *term = getenv("TERM");
    struct winsize window;
    *p = (struct attn_progress){
        .total = total, .began = attn_now(), .budget_s = budget_s, .round = -1};
    p->terminal = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
    p->colour = attn_colour_wanted(stderr);
    p->width =
        ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 20 ? window.ws_col : 80;
}

/* "1h02m", "3m20s", "12s" */
static void duration(double seconds, char *text, size_t size)
{
    long s = (long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, size, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(text, size, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(text, size, "%lds", s);
}

/* " 12s left", or "" */
static const char *left_text(double seconds, char *text, size_t size)
{
    char figure[24];
    text[0] = '\0';
    if (seconds >= 0) {
        duration(seconds, figure, sizeof figure);
        snprintf(text, size, ", %s left", figure);
    }
    return text;
}

/* Draws the bar: the share of cases that are done, or of the budget. left_s: what these are
 * expected to take that were begun since; below 0: not known. */
static void draw(struct attn_progress *p, double done, double left_s, const char *text)
{
    const double spent = attn_now() - p->began, part = spent - p->spent;
    if (left_s >= 0 && part > 0)
        done += (double)(p->at + 1 - p->finished) * part / (part + left_s);
    double share = p->total ? done / (double)p->total : 0;
    if (p->budget_s > 0)
        share = fmax(share, spent / p->budget_s);
    p->share = fmin(fmax(p->share, share), 1);
    const int full = (int)(BAR * p->share);
    char bar[BAR + 1];
    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = '\0';
    fprintf(stderr, "\r\033[K%s[%s]%s %.*s", p->colour ? "\033[32m" : "", bar,
            p->colour ? ATTN_COLOUR_END : "", p->width - BAR - 4, text);
    fflush(stderr);
    shown = true;
}

void attn_progress_step(struct attn_progress *p, size_t at, size_t finished,
                        const struct attn_case *c)
{
    char label[ATTN_CASE_LINE_MAX], left[32], text[ATTN_CASE_LINE_MAX + 96];
    const char *name = attn_case_label(c, label, sizeof label);
    const double spent = attn_now() - p->began;
    double seconds = -1;
    p->at = at;
    p->round = -1;
    if (finished > p->finished) {
        p->finished = finished;
        p->spent = spent;
    }
    if (finished > 0) {
        double whole = p->spent * (double)p->total / (double)finished;
        if (p->budget_s > 0 && whole > p->budget_s)
            whole = p->budget_s;
        seconds = whole > spent ? whole - spent : 0;
    }
    left_text(seconds, left, sizeof left);
    if (p->terminal) {
        snprintf(text, sizeof text, "%zu/%zu%s: %s", at, p->total, left, name);
        draw(p, (double)finished, -1, text);
    } else {
        fprintf(stderr, "[%zu/%zu] %s%s\n", at + 1, p->total, name, left);
        p->said = attn_now();
    }
}

void attn_progress_round(struct attn_progress *p, int round, int rounds, double left_s,
                         const char *name, const struct attn_case *c)
{
    char label[ATTN_CASE_LINE_MAX], left[32], of[32] = "", text[ATTN_CASE_LINE_MAX + 128];
    const bool turns = strcmp(name, ATTN_PROGRESS_TURNS) == 0;
    left_text(left_s, left, sizeof left);
    if (round < rounds)
        snprintf(of, sizeof of, " of %d", rounds);
    if (p->terminal) {
        snprintf(text, sizeof text, "%zu/%zu: round %d%s%s: %s, %s", p->at + 1, p->total, round + 1,
                 of, left, name, attn_case_label(c, label, sizeof label));
        draw(p, (double)p->finished, left_s, text);
    } else if (p->round != round || attn_now() - p->said >= ATTN_PROGRESS_SILENCE_S) {
        snprintf(text, sizeof text, ": %s", attn_case_label(c, label, sizeof label));
        fprintf(stderr, "[%zu/%zu] %s, round %d%s%s%s\n", p->at + 1, p->total,
                turns ? ATTN_PROGRESS_TURNS : "timing", round + 1, of, left,
                p->round == round ? text : "");
        p->round = round;
        p->said = attn_now();
    }
}

void attn_progress_drawing(struct attn_progress *p, size_t taken, size_t drawn)
{
    enum { EVERY = 200 }; /* often enough to look alive, and not a line a draw */
    char text[96];
    p->at = taken;
    if (!p->terminal || drawn % EVERY > 0)
        return;
    snprintf(text, sizeof text, "%zu/%zu: %zu random cases drawn", taken, p->total, drawn);
    draw(p, (double)taken, -1, text);
}

void attn_progress_debug(const char *backend, long pid)
{
    const bool wait = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    attn_progress_clear();
    fprintf(stderr, "worker of %s: gdb -p %ld%s", backend, pid,
            wait ? "; press Enter to go on " : "\n");
    fflush(stderr);
    for (int c = 0; wait && c != '\n' && c != EOF;)
        c = getchar();
}

void attn_progress_clear(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = false;
}

void attn_progress_note(const char *text)
{
    attn_progress_clear();
    fprintf(stderr, "attnbench: %s\n", text);
}

void attn_progress_shrink(const char *backend, int tries, const char *line)
{
    char text[ATTN_CASE_LINE_MAX + 64];
    snprintf(text, sizeof text, "shrinking, %s, %d tries: %s", backend, tries, line);
    attn_progress_note(text);
}
