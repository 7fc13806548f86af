/* SPDX-License-Identifier: Apache-2.0 */
/* hypotheses.c - fits wrong rows against mistakes.
 *
 * A hypothesis gives an answer of its own, with its own bound, for the rows that are wrong. It is
 * taken as an explanation where (nearly) all elements of these rows agree with it, and enough of
 * them could not have agreed with the right answer as well. */
#include "judge/hypotheses.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/mutations.h"
#include "reference/dtype.h"

/* Share of the elements that an explanation must explain: a kernel may be wrong in a second way in
 * some corner. */
static const double least_share = 0.99, first_share = 0.9; /* of the first row alone */
/* Elements in which an explanation must differ from the right answer by more than both bounds. One
 * agrees by chance in at most a tenth of cases (16-bit types), four of them with one of 100
 * hypotheses in one of 100. */
enum { LEAST_DISTINCT = 4 };
/* Wrong rows that are looked at, and multiply-adds that one hypothesis may cost. */
enum { MOST_ROWS = 24 };
static const double budget = 2e6;

struct sample {
    const struct attn_instance *instance;
    const struct attn_numerics *numerics;
    int threads;
    const struct attn_tensor *tensor; /* what is wrong: out, lse or weights */
    int64_t width;                    /* its elements in a row */
    int64_t *index;                   /* of the rows looked at, ascending */
    int64_t count;
    double *got, *want, *bound;  /* [count, width] */
    double *trial, *trial_bound; /* of a hypothesis */
    double share;                /* of the best so far */
    char *text;                  /* says it */
    size_t size;
};

static bool within(double got, double want, double bound)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    return got == want || fabs(got - want) <= bound;
}

/* Element c of a row of out, lse or weights, as the reference orders them. */
static double got_at(const struct sample *s, int64_t row, int64_t c)
{
    const struct attn_problem *p = &s->instance->problem;
    const struct attn_tensor *t = s->tensor;
    const bool mha = p->op == ATTN_OP_MHA;
    const int64_t i = row % p->sq, group = row / p->sq;
    int64_t at[4] = {mha ? group : group / p->hq, mha ? 0 : group % p->hq, i, c};
    if (t->role == ATTN_OUT && mha) {
        at[1] = i;
        at[2] = c;
    } else if (t->role != ATTN_OUT) {
        const int64_t inner = t->role == ATTN_WEIGHTS ? p->sk : 1;
        at[1] = mha ? c / inner : at[1];
        at[3] = c % inner;
    }
    int64_t index = 0;
    for (uint32_t a = 0; a < t->rank; a++)
        index += at[a] * t->stride[a];
    return attn_dtype_load(t->dtype, t->data, index);
}

static const double *values_of(const struct ref_result *ref, uint32_t role, bool bound)
{
    return role == ATTN_OUT   ? (bound ? ref->out_bound : ref->out)
           : role == ATTN_LSE ? (bound ? ref->lse_bound : ref->lse)
                              : (bound ? ref->weights_bound : ref->weights);
}

/* Rows of one output in which an element misses its bound; returns how many, in `wrong`. */
static int64_t find_wrong(const struct sample *s, const struct ref_rows *rows,
                          const struct ref_result *ref, int64_t *wrong)
{
    const double *want = values_of(ref, s->tensor->role, false);
    const double *bound = values_of(ref, s->tensor->role, true);
    int64_t n = 0;
    for (int64_t r = 0; r < rows->count; r++) {
        const int64_t row = rows->index ? rows->index[r] : r;
        bool ok = true;
        for (int64_t c = 0; c < s->width && ok; c++)
            ok = within(got_at(s, row, c), want[r * s->width + c], bound[r * s->width + c]);
        if (!ok)
            wrong[n++] = r;
    }
    return n;
}

static void sample_free(struct sample *s)
{
    free(s->index);
    free(s->got);
}

/* Chooses an output that is wrong, and of its wrong rows an even sample. False: none, or no memory.
 */
static bool sample_take(struct sample *s, const struct ref_rows *rows, const struct ref_result *ref)
{
    static const uint32_t roles[] = {ATTN_OUT, ATTN_LSE, ATTN_WEIGHTS};
    const struct attn_problem *p = &s->instance->problem;
    const int64_t heads = p->op == ATTN_OP_MHA ? p->hq : 1;
    int64_t wrong = 0;
    s->index = calloc((size_t)rows->count + 1, sizeof *s->index);
    for (size_t o = 0; o < 3 && wrong == 0 && s->index; o++) {
        s->tensor = attn_tensor_find(p, roles[o]);
        s->width = o == 0 ? ref_row_width(p) : o == 1 ? heads : heads * p->sk;
        wrong = s->tensor ? find_wrong(s, rows, ref, s->index) : 0;
    }
    if (wrong == 0)
        return false;
    const double affordable = fmax(2, fmin(MOST_ROWS, budget / ref_row_cost(p)));
    s->count = wrong < (int64_t)affordable ? wrong : (int64_t)affordable;
    const size_t n = (size_t)(s->count * s->width);
    s->got = calloc(5 * n, sizeof *s->got);
    if (!s->got)
        return false;
    s->want = s->got + n;
    s->bound = s->want + n;
    s->trial = s->bound + n;
    s->trial_bound = s->trial + n;
    for (int64_t k = 0; k < s->count; k++) {
        const int64_t r = s->index[s->count > 1 ? k * (wrong - 1) / (s->count - 1) : 0];
        s->index[k] = rows->index ? rows->index[r] : r;
        const size_t to = (size_t)(k * s->width), bytes = (size_t)s->width * sizeof(double);
        memcpy(s->want + to, values_of(ref, s->tensor->role, false) + r * s->width, bytes);
        memcpy(s->bound + to, values_of(ref, s->tensor->role, true) + r * s->width, bytes);
        for (int64_t c = 0; c < s->width; c++)
            s->got[(int64_t)to + c] = got_at(s, s->index[k], c);
    }
    return true;
}

/* Share of the elements of the first `rows` rows that the trial explains; 0 where too few of them
 * tell it from the right answer. */
static double share_of(const struct sample *s, int64_t rows)
{
    int64_t explained = 0, distinct = 0;
    for (int64_t n = 0; n < rows * s->width; n++) {
        const bool agrees = within(s->got[n], s->trial[n], s->trial_bound[n]);
        explained += agrees;
        distinct += agrees && !within(s->trial[n], s->want[n], s->bound[n] + s->trial_bound[n]);
    }
    const bool enough = rows < s->count || distinct >= LEAST_DISTINCT;
    return enough ? (double)explained / (double)(rows * s->width) : 0;
}

__attribute__((format(printf, 3, 4))) static void propose(struct sample *s, double share,
                                                          const char *format, ...)
{
    if (share < least_share || share <= s->share)
        return;
    s->share = share;
    int n = snprintf(s->text, s->size,
                     "explained: %.3g %% of %lld elements of wrong rows are, "
                     "within the bound, ",
                     100 * share, (long long)(s->count * s->width));
    va_list arguments;
    va_start(arguments, format);
    if (n > 0 && (size_t)n < s->size)
        vsnprintf(s->text + n, s->size - (size_t)n, format, arguments);
    va_end(arguments);
}

/* The answer of a problem into the trial, for the first `rows` rows. */
static bool answer(struct sample *s, const struct attn_problem *problem, int64_t rows)
{
    char why[256];
    const struct ref_rows chosen = {.count = rows, .index = s->index};
    struct ref_result r = {0};
    const uint32_t role = s->tensor->role;
    *(role == ATTN_OUT ? &r.out : role == ATTN_LSE ? &r.lse : &r.weights) = s->trial;
    *(role == ATTN_OUT   ? &r.out_bound
      : role == ATTN_LSE ? &r.lse_bound
                         : &r.weights_bound) = s->trial_bound;
    return ref_compute(problem, &chosen, s->numerics, s->instance->kind, s->threads, &r, why,
                       sizeof why) == ATTN_OK;
}

/* ---- the hypotheses ---- */

static const char *factor_name(const struct attn_problem *p, double factor)
{
    const struct {
        double factor;
        const char *name;
    } known[] = {{1 / 0.69314718055994530942, " (in base 2)"},
                 {0.69314718055994530942, " (ln 2)"},
                 {1 - p->dropout_p, " (1 - dropout)"},
                 {1 / (1 - p->dropout_p), " (1 / (1 - dropout))"},
                 {(double)p->hq / (double)p->hkv, " (hq / hkv)"},
                 {(double)p->sk, " (sk)"},
                 {p->scale, " (scale)"}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (fabs(factor / known[k].factor - 1) < 1e-3)
            return known[k].name;
    return "";
}

static void try_factor(struct sample *s)
{
    const int64_t n = s->count * s->width;
    double product = 0, square = 0;
    for (int64_t k = 0; k < n; k++)
        if (isfinite(s->got[k]) && isfinite(s->want[k])) {
            product += s->got[k] * s->want[k];
            square += s->want[k] * s->want[k];
        }
    const double factor = product / square;
    if (!isfinite(factor))
        return;
    for (int64_t k = 0; k < n; k++) {
        s->trial[k] = factor * s->want[k];
        s->trial_bound[k] = fabs(factor) * s->bound[k];
    }
    propose(s, share_of(s, s->count), "the right answer times %.6g%s", factor,
            factor_name(&s->instance->problem, factor));
}

/* Lse moved by a constant, or short of a part. */
static void try_lse(struct sample *s)
{
    const struct attn_problem *p = &s->instance->problem;
    const int64_t heads = s->width, n = s->count * heads;
    double shift = 0;
    for (int64_t k = 0; k < n; k++)
        shift += (s->got[k] - s->want[k]) / (double)n;
    memcpy(s->trial_bound, s->bound, (size_t)n * sizeof *s->bound);
    for (int64_t k = 0; k < n; k++)
        s->trial[k] = s->want[k] + shift;
    propose(s, share_of(s, s->count), "the right answer %+.6g%s", shift,
            fabs(fabs(shift) - 0.69314718056) < 1e-3 ? " (ln 2)" : "");

    double *scores = p->sk > 0 ? calloc((size_t)(n * p->sk), sizeof *scores) : NULL;
    struct ref_result r = {.scores = {[2] = scores}};
    const struct ref_rows chosen = {.count = s->count, .index = s->index};
    char why[256];
    if (scores && ref_compute(p, &chosen, NULL, s->instance->kind, s->threads, &r, why,
                              sizeof why) == ATTN_OK) {
        for (int64_t k = 0; k < n; k++) {
            const int64_t row = s->index[k / heads], i = row % p->sq, group = row / p->sq;
            const bool mha = p->op == ATTN_OP_MHA;
            const int64_t b = mha ? group : group / p->hq, h = mha ? k % heads : group % p->hq;
            double most = -INFINITY;
            for (int64_t j = 0; j < p->sk; j++)
                if (ref_allowed(p, b, h, i, j))
                    most = fmax(most, scores[k * p->sk + j]);
            s->trial[k] = s->want[k] - most;
        }
        propose(s, share_of(s, s->count), "the right answer without the maximum of the scores");
    }
    free(scores);
}

static void describe_row(const struct attn_problem *p, int64_t row, char *text, size_t size)
{
    const int64_t i = row % p->sq, group = row / p->sq;
    if (p->op == ATTN_OP_MHA)
        snprintf(text, size, "b%lld query %lld", (long long)group, (long long)i);
    else
        snprintf(text, size, "b%lld h%lld query %lld", (long long)(group / p->hq),
                 (long long)(group % p->hq), (long long)i);
}

/* A row that holds the answer of another: stale, of another head, of another batch. */
static void try_rows(struct sample *s, const struct ref_rows *rows, const struct ref_result *ref)
{
    const struct attn_problem *p = &s->instance->problem;
    char here[64] = "", there[64] = "";
    if (s->width < LEAST_DISTINCT)
        return;
    for (int64_t k = 0; k < s->count; k++) {
        const double *got = s->got + k * s->width;
        double *trial = s->trial + k * s->width, *trial_bound = s->trial_bound + k * s->width;
        memset(trial_bound, 0, (size_t)s->width * sizeof *trial_bound);
        for (int64_t c = 0; c < s->width; c++)
            trial[c] = INFINITY;
        for (int64_t r = 0; r < rows->count; r++) {
            const double *want = ref->out + r * s->width, *bound = ref->out_bound + r * s->width;
            int64_t same = 0;
            while (same < s->width && within(got[same], want[same], bound[same]))
                same++;
            if (same < s->width)
                continue;
            memcpy(trial, want, (size_t)s->width * sizeof *trial);
            memcpy(trial_bound, bound, (size_t)s->width * sizeof *trial_bound);
            if (!*here) {
                describe_row(p, s->index[k], here, sizeof here);
                describe_row(p, rows->index ? rows->index[r] : r, there, sizeof there);
            }
            break;
        }
    }
    propose(s, share_of(s, s->count), "answers of other rows: %s holds that of %s", here, there);
}

static void try_mutations(struct sample *s)
{
    struct attn_mutation *m = malloc(sizeof *m);
    struct attn_mutation_place place = {0};
    while (m && attn_mutation_next(&s->instance->problem, &place, m)) {
        /* One row first: it rules out nearly all of them. */
        for (int64_t rows = 1;; rows = s->count) {
            const bool done = answer(s, &m->problem, rows);
            for (int64_t n = 0; done && m->twice && n < rows * s->width; n++)
                s->trial[n] = 2 * s->want[n] - s->trial[n];
            const double share = done ? share_of(s, rows) : 0;
            if (rows == s->count)
                propose(s, share, "the answer of this case with %s", m->what);
            if (rows == s->count || share < first_share)
                break;
        }
        attn_mutation_free(m);
    }
    free(m);
}

/* The factor of scale that explains best, by Gauss and Newton; a start at 1 finds those near it. */
static void try_scale(struct sample *s)
{
    struct attn_problem p = s->instance->problem;
    const double right = p.scale, h = 1e-5;
    const int64_t rows = s->count < 4 ? s->count : 4, n = rows * s->width;
    double *at = calloc((size_t)n, sizeof *at), log_factor = 0;
    for (int steps = 0; steps < 20 && at; steps++) {
        double slope_slope = 0, slope_error = 0;
        p.scale = right * exp(log_factor);
        if (!answer(s, &p, rows))
            break;
        memcpy(at, s->trial, (size_t)n * sizeof *at);
        p.scale = right * exp(log_factor + h);
        if (!answer(s, &p, rows))
            break;
        for (int64_t k = 0; k < n; k++) {
            const double slope = (s->trial[k] - at[k]) / h, error = s->got[k] - at[k];
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
    if (answer(s, &p, s->count))
        propose(s, share_of(s, s->count),
                "the answer of this case with scale %.6g instead of %.6g (times %.6g)", p.scale,
                right, exp(log_factor));
}

void attn_hypotheses_explain(const struct attn_instance *instance,
                             const struct attn_numerics *numerics, const struct ref_rows *rows,
                             const struct ref_result *ref, int threads, char *text, size_t size)
{
    struct sample s = {
        .instance = instance, .numerics = numerics, .threads = threads, .text = text, .size = size};
    *text = '\0';
    if (sample_take(&s, rows, ref)) {
        try_factor(&s);
        if (s.tensor->role == ATTN_OUT)
            try_rows(&s, rows, ref);
        if (s.tensor->role == ATTN_LSE)
            try_lse(&s);
        try_mutations(&s);
        if (s.share == 0)
            try_scale(&s);
    }
    sample_free(&s);
}
