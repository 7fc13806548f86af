/* SPDX-License-Identifier: Apache-2.0 */
/* guesses_rows.c - rows that hold nothing, a multiple of their answer, or the answer of other rows.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain/guesses.h"
#include "reference/dtype.h"
#include "reference/operands.h"

/* With fewer elements in a row, a factor per row fits anything. */
enum { LEAST_WIDTH = 8 };

static const char *factor_name(const struct attn_problem *p, double factor)
{
    const bool gradients = attn_tensor_find(p, ATTN_GRAD_OUT) != NULL;
    const struct {
        double factor;
        const char *name;
    } known[] = {{1 / 0.69314718055994530942, " (in base 2)"},
                 {0.69314718055994530942, " (ln 2)"},
                 {1 - p->dropout_p, " (1 - dropout)"},
                 {1 / (1 - p->dropout_p), " (1 / (1 - dropout))"},
                 {(double)p->hq / (double)p->hkv, " (hq / hkv)"},
                 {(double)p->sk, " (sk)"},
                 {p->scale, gradients ? " (scale: applied twice)" : " (scale)"},
                 {gradients ? 1 / p->scale : NAN, " (1 / scale: not applied)"},
                 {gradients ? 2 : NAN, " (added to an earlier result)"},
                 {gradients ? -1 : NAN, " (the other sign)"}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (fabs(factor / known[k].factor - 1) < 1e-3)
            return known[k].name;
    return "";
}

/* The factor that fits elements [begin, end) best; NaN: there is none. */
static double fit_factor(const struct attn_sample_rows *w, int64_t begin, int64_t end)
{
    double product = 0, square = 0;
    for (int64_t k = begin; k < end; k++)
        if (isfinite(w->got[k]) && isfinite(w->want[k])) {
            product += w->got[k] * w->want[k];
            square += w->want[k] * w->want[k];
        }
    return product / square;
}

static void scale_trial(const struct attn_sample_rows *w, int64_t begin, int64_t end, double factor)
{
    for (int64_t k = begin; k < end; k++) {
        w->trial[k] = factor * w->want[k];
        w->trial_bound[k] = fabs(factor) * w->bound[k];
    }
}

void attn_guess_factor(struct attn_sample *s)
{
    const int64_t n = s->wrong.count * s->width;
    const double factor = fit_factor(&s->wrong, 0, n);
    if (!isfinite(factor) || factor == 0)
        return;
    scale_trial(&s->wrong, 0, n, factor);
    attn_sample_propose(s, attn_sample_share(s, s->wrong.count), false,
                        "are, within the bound, the right answer times %.6g%s", factor,
                        factor_name(&s->instance->problem, factor));
}

/* Each row divided by a sum of weights other than its own. */
void attn_guess_row_factors(struct attn_sample *s)
{
    double least = INFINITY, most = -INFINITY;
    if (s->role != ATTN_OUT || !ref_op_is(s->instance->problem.op, REF_QKV) ||
        s->width < LEAST_WIDTH || s->wrong.count < 2)
        return;
    for (int64_t k = 0; k < s->wrong.count; k++) {
        const double factor = fit_factor(&s->wrong, k * s->width, (k + 1) * s->width);
        if (!isfinite(factor) || factor == 0)
            return;
        scale_trial(&s->wrong, k * s->width, (k + 1) * s->width, factor);
        least = fmin(least, factor);
        most = fmax(most, factor);
    }
    attn_sample_propose(s, attn_sample_share(s, s->wrong.count), true,
                        "are, within the bound, the right answer times one factor per row, "
                        "%.6g to %.6g: the sum of weights that it is divided by is wrong",
                        least, most);
}

/* Is the element still as it was before the run: all bits set? */
static bool is_unwritten(const struct attn_sample *s, int64_t row, int64_t c)
{
    const struct attn_tensor *tensor = s->units.tensor;
    const size_t size = attn_dtype_size(tensor->dtype);
    const unsigned char *at =
        (const unsigned char *)tensor->data + (size_t)attn_sample_place(s, row, c) * size;
    bool all = true;
    for (size_t n = 0; n < size; n++)
        all = all && at[n] == 0xff;
    return all;
}

/* Zeros or unwritten elements instead of an answer; all other columns are right. */
static void guess_blank(struct attn_sample *s, bool zero)
{
    const struct attn_sample_rows *w = &s->wrong;
    int64_t first = s->width, last = -1, blank = 0, wrong = 0;
    for (int64_t k = 0; k < w->count * s->width; k++) {
        const int64_t c = k % s->width;
        if (attn_sample_within(w->got[k], w->want[k], w->bound[k]))
            continue;
        wrong++;
        if (zero ? w->got[k] != 0 : !is_unwritten(s, w->index[k / s->width], c))
            continue;
        blank++;
        first = c < first ? c : first;
        last = c > last ? c : last;
    }
    if (blank < ATTN_SAMPLE_DISTINCT)
        return;
    char columns[64] = "";
    if (s->role == ATTN_OUT && last - first + 1 < s->width)
        snprintf(columns, sizeof columns, " in columns %lld to %lld", (long long)first,
                 (long long)last);
    attn_sample_propose(s, (double)blank / (double)wrong, false, "%s%s%s",
                        zero ? "are 0" : "were never written", columns,
                        *columns ? ", and right in the others" : "");
}

/* Does an input hold NaN or infinity? Read from its first element on, views included. */
static bool holds_non_finite(const struct attn_tensor *t)
{
    int64_t places = 1;
    for (uint32_t a = 0; a < t->rank; a++)
        places *= t->shape[a];
    for (int64_t n = 0; n < places; n++) {
        int64_t rest = n, at = 0;
        for (uint32_t a = t->rank; a-- > 0; rest /= t->shape[a])
            at += rest % t->shape[a] * t->stride[a];
        if (!isfinite(attn_dtype_load(t->dtype, t->data, at)))
            return true;
    }
    return false;
}

/* NaN where the right answer is a number: what the row may not see holds NaN, or the right answer
 * would be NaN, too. */
void attn_guess_forbidden(struct attn_sample *s)
{
    const struct attn_sample_rows *w = &s->wrong;
    int64_t wrong = 0, nan = 0;
    bool poisoned = false;
    for (int64_t k = 0; k < w->count * s->width; k++) {
        const bool is_wrong = !attn_sample_within(w->got[k], w->want[k], w->bound[k]);
        wrong += is_wrong;
        nan += is_wrong && isnan(w->got[k]) && isfinite(w->want[k]) &&
               !is_unwritten(s, w->index[k / s->width], k % s->width);
    }
    if (nan == 0)
        return;
    const struct attn_problem *p = &s->instance->problem;
    for (uint32_t t = 0; t < p->n_tensors && !poisoned; t++)
        poisoned = !s->instance->operands[t].output &&
                   (p->tensors[t].role == ATTN_K || p->tensors[t].role == ATTN_V ||
                    p->tensors[t].role == ATTN_X_K || p->tensors[t].role == ATTN_X_V ||
                    p->tensors[t].role == ATTN_X_Q || p->tensors[t].role == ATTN_K_GLOBAL ||
                    p->tensors[t].role == ATTN_V_GLOBAL) &&
                   holds_non_finite(&s->instance->tensors[t]);
    if (poisoned)
        attn_sample_propose(s, (double)nan / (double)wrong, false,
                            "are NaN: NaN of a forbidden key came through (0 * NaN is NaN)");
}

/* Gradients of rows without keys: their lse is -inf. */
void attn_guess_empty_rows(struct attn_sample *s)
{
    const struct attn_sample_rows *w = &s->wrong;
    const struct attn_tensor *lse = attn_tensor_find(&s->instance->problem, ATTN_LSE);
    int64_t wrong = 0, nan = 0;
    if (s->role != ATTN_GRAD_Q || !lse)
        return;
    for (int64_t k = 0; k < w->count * s->width; k++) {
        int64_t at[ATTN_MAX_RANK];
        ref_unit_place(s->units.output, &s->units.shape, w->index[k / s->width], at);
        if (attn_sample_within(w->got[k], w->want[k], w->bound[k]))
            continue;
        wrong++;
        nan += isnan(w->got[k]) && ref_load(lse, at) == -INFINITY;
    }
    if (nan > 0)
        attn_sample_propose(s, (double)nan / (double)wrong, false,
                            "are NaN where a row sees no key: exp(s - lse) with an lse of -inf");
}

void attn_guess_blank(struct attn_sample *s)
{
    guess_blank(s, true);
    guess_blank(s, false);
}

/* ---- rows of others ---- */

/* "b0 h3 query 17" */
static void describe_row(const struct attn_units *units, int64_t row, char *text, size_t size)
{
    size_t n = 0;
    *text = '\0';
    for (const char *letter = units->output->unit; *letter && n < size; letter++) {
        const char name[] = {*letter, '\0'};
        const long long index =
            (long long)ref_unit_index(units->output, &units->shape, row, *letter);
        n += (size_t)snprintf(text + n, size - n, "%s%s%lld", n > 0 ? " " : "",
                              *letter == 'i' ? "query " : name, index);
    }
}

/* The row of the verdict whose answer wrong row k holds, or -1. */
static int64_t find_row(const struct attn_sample *s, int64_t k)
{
    const double *got = s->wrong.got + k * s->width;
    for (int64_t r = 0; r < s->rows->count; r++) {
        const double *want = s->ref->output[0].value + r * s->width;
        const double *bound = s->ref->output[0].bound + r * s->width;
        int64_t same = 0;
        while (same < s->width && isfinite(got[same]) &&
               attn_sample_within(got[same], want[same], bound[same]))
            same++;
        if (same == s->width)
            return r;
    }
    return -1;
}

/* Are two rows the same except for the index of this letter? */
static bool same_but(const struct attn_units *units, char but, int64_t here, int64_t there)
{
    bool same = true;
    for (const char *u = units->output->unit; *u; u++)
        same = same && (*u == but || ref_unit_index(units->output, &units->shape, here, *u) ==
                                         ref_unit_index(units->output, &units->shape, there, *u));
    return same;
}

/* How two rows differ: "other heads" if only the head differs. */
static const char *kind_of(const struct attn_units *units, int64_t here, int64_t there)
{
    if (same_but(units, 'h', here, there))
        return "other heads";
    return same_but(units, 'b', here, there) ? "other batches" : "other rows";
}

/* A row that holds the answer of another: stale, of another head, of another batch. */
void attn_guess_other_rows(struct attn_sample *s)
{
    const struct attn_sample_rows *w = &s->wrong;
    const struct ref_values *ref = &s->ref->output[0];
    char here[64] = "", there[64] = "";
    const char *kind = NULL;
    if (s->role != ATTN_OUT || s->width < ATTN_SAMPLE_DISTINCT)
        return;
    for (int64_t k = 0; k < w->count; k++) {
        double *trial = w->trial + k * s->width, *trial_bound = w->trial_bound + k * s->width;
        const int64_t r = find_row(s, k), row = r >= 0 ? ref_unit_number(s->rows, r) : r;
        for (int64_t c = 0; c < s->width; c++) {
            trial[c] = r >= 0 ? ref->value[r * s->width + c] : INFINITY;
            trial_bound[c] = r >= 0 ? ref->bound[r * s->width + c] : 0;
        }
        if (r < 0)
            continue;
        const char *of = kind_of(&s->units, w->index[k], row);
        if (kind == NULL) {
            describe_row(&s->units, w->index[k], here, sizeof here);
            describe_row(&s->units, row, there, sizeof there);
        }
        kind = kind == NULL || kind == of ? of : "other rows";
    }
    attn_sample_propose(s, attn_sample_share(s, w->count), false,
                        "are, within the bound, answers of %s: %s holds that of %s",
                        kind ? kind : "", here, there);
}
