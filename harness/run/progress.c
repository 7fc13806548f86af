/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - the bar on stderr. */
#include "run/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "run/session.h"

enum { BAR = 24 };

void attn_progress_begin(struct attn_progress *p, size_t total, double budget_s)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    struct winsize window;
    *p = (struct attn_progress){.total = total, .began = attn_now(), .budget_s = budget_s};
    p->terminal = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
    p->colour = p->terminal && !(no_color && *no_color);
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

void attn_progress_step(struct attn_progress *p, size_t at, size_t finished,
                        const struct attn_case *c)
{
    char label[ATTN_CASE_LINE_MAX], left[32] = "";
    const char *name = attn_case_label(c, label, sizeof label);
    double spent = attn_now() - p->began;
    if (finished > p->finished) {
        p->finished = finished;
        p->spent = spent;
    }
    if (finished > 0) {
        double whole = p->spent * (double)p->total / (double)finished;
        if (p->budget_s > 0 && whole > p->budget_s)
            whole = p->budget_s;
        duration(whole > spent ? whole - spent : 0, left, sizeof left);
    }
    if (!p->terminal) {
        fprintf(stderr, "[%zu/%zu] %s%s%s\n", at + 1, p->total, name, *left ? ", left " : "", left);
        return;
    }
    int full = p->total ? (int)(BAR * at / p->total) : 0;
    char bar[BAR + 1];
    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = '\0';
    int room = p->width - BAR - 30;
    fprintf(stderr, "\r\033[K%s[%s]%s %zu/%zu %s%s  %.*s", p->colour ? "\033[32m" : "", bar,
            p->colour ? "\033[0m" : "", at, p->total, left, *left ? " left" : "",
            room > 0 ? room : 0, name);
    fflush(stderr);
}

void attn_progress_debug(const char *backend, long pid)
{
    const bool wait = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    fprintf(stderr, "\nworker of %s: gdb -p %ld%s", backend, pid,
            wait ? "; press Enter to go on " : "\n");
    fflush(stderr);
    for (int c = 0; wait && c != '\n' && c != EOF;)
        c = getchar();
}

void attn_progress_note(const char *text)
{
    fprintf(stderr, "%sattnbench: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", text);
}

void attn_progress_shrink(const char *backend, int tries, const char *line)
{
    char text[ATTN_CASE_LINE_MAX + 64];
    snprintf(text, sizeof text, "shrinking, %s, %d tries: %s", backend, tries, line);
    attn_progress_note(text);
}

void attn_progress_end(struct attn_progress *p)
{
    if (p->terminal)
        fprintf(stderr, "\r\033[K");
}
