/* SPDX-License-Identifier: Apache-2.0 */
/* guesses_problems.c - answers of problems with one mistake in them, or with another scale. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain/guesses.h"
#include "explain/mistakes.h"

/* A hypothesis must explain this share of the first row to be tried on the others. */
static const double first_share = 0.9;

static void add_twice(const struct attn_sample_rows *rows, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        rows->trial[k] = 2 * rows->want[k] - rows->trial[k];
}

/* Does a problem give the right answers in rows that are right? */
static bool leaves_right(const struct attn_sample *s, const struct attn_problem *problem,
                         bool twice)
{
    const struct attn_sample_rows *h = &s->held;
    const int64_t n = h->count * s->width;
    bool right = h->count == 0 || attn_sample_answer(s, h, problem, h->count);
    if (twice)
        add_twice(h, n);
    for (int64_t k = 0; k < n && right; k++)
        right = attn_sample_within(h->got[k], h->trial[k], h->bound[k] + h->trial_bound[k]);
    return right;
}

void attn_guess_mutation(struct attn_sample *s, const struct attn_mutation *m)
{
    /* One row first: it rules out nearly all of them. */
    for (int64_t rows = 1;; rows = s->wrong.count) {
        const bool done = attn_sample_answer(s, &s->wrong, &m->problem, rows);
        if (done && m->twice)
            add_twice(&s->wrong, rows * s->width);
        const double share = done ? attn_sample_share(s, rows) : 0;
        if (share < first_share)
            return;
        if (rows < s->wrong.count)
            continue;
        const bool local = !leaves_right(s, &m->problem, m->twice);
        attn_sample_propose(s, share, local,
                            "are, within the bound, the answer of this case with %s%s", m->what,
                            local ? ", but only in these rows" : "");
        return;
    }
}

void attn_guess_mistakes(struct attn_sample *s)
{
    struct attn_mutation *m = malloc(sizeof *m);
    struct attn_mistake_place place = {0};
    while (m && attn_mistake_next(&s->instance->problem, &place, m)) {
        attn_guess_mutation(s, m);
        attn_mutation_free(m);
    }
    free(m);
}

/* The factor of scale that explains best, by Gauss-Newton. It starts at 1 and finds factors near 1.
 */
void attn_guess_scale(struct attn_sample *s)
{
    struct attn_problem p = s->instance->problem;
    const struct attn_sample_rows *w = &s->wrong;
    const double right = p.scale, h = 1e-5;
    const int64_t rows = w->count < 4 ? w->count : 4, n = rows * s->width;
    double *at = calloc((size_t)n, sizeof *at), log_factor = 0;
    for (int steps = 0; steps < 20 && at; steps++) {
        double slope_slope = 0, slope_error = 0;
        p.scale = right * exp(log_factor);
        if (!attn_sample_answer(s, w, &p, rows))
            break;
        memcpy(at, w->trial, (size_t)n * sizeof *at);
        p.scale = right * exp(log_factor + h);
        if (!attn_sample_answer(s, w, &p, rows))
            break;
        for (int64_t k = 0; k < n; k++) {
            const double slope = (w->trial[k] - at[k]) / h, error = w->got[k] - at[k];
            if (!isfinite(slope) || !isfinite(error))
                continue;
            slope_slope += slope * slope;
            slope_error += slope * error;
        }
        const double step = slope_slope > 0 ? slope_error / slope_slope : 0;
        log_factor += fmax(-0.5, fmin(0.5, step));
        if (fabs(step) < 1e-10)
            break;
    }
    free(at);
    p.scale = right * exp(log_factor);
    if (attn_sample_answer(s, w, &p, w->count)) {
        const double share = attn_sample_share(s, w->count);
        const bool local = !leaves_right(s, &p, false);
        attn_sample_propose(
            s, local ? 0 : share, false,
            "are, within the bound, the answer of this case with scale %.6g instead "
            "of %.6g (times %.6g)",
            p.scale, right, exp(log_factor));
    }
}
