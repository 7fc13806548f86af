/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c - takes the sample, and holds trials against it. */
#include "explain/sample.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"

/* Share of the elements that an explanation must explain: a kernel may be wrong in a second way in
 * some corner. */
static const double least_share = 0.99;
/* Rows that are looked at, wrong ones and others, and multiply-adds that one hypothesis may cost.
 */
enum { MOST_ROWS = 24, MOST_HELD = 12 };
static const double budget = 2e6;

bool attn_sample_within(double got, double want, double bound)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    return got == want || fabs(got - want) <= bound;
}

/* Rows are ordered as the reference orders them. */
int64_t attn_sample_place(const struct attn_sample *s, int64_t row, int64_t c)
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
    return index;
}

static double got_at(const struct attn_sample *s, int64_t row, int64_t c)
{
    return attn_dtype_load(s->tensor->dtype, s->tensor->data, attn_sample_place(s, row, c));
}

static const double *values_of(const struct ref_result *ref, uint32_t role, bool bound)
{
    return role == ATTN_OUT   ? (bound ? ref->out_bound : ref->out)
           : role == ATTN_LSE ? (bound ? ref->lse_bound : ref->lse)
                              : (bound ? ref->weights_bound : ref->weights);
}

static bool is_right(const struct attn_sample *s, int64_t r)
{
    const double *want = values_of(s->ref, s->tensor->role, false) + r * s->width;
    const double *bound = values_of(s->ref, s->tensor->role, true) + r * s->width;
    const int64_t row = s->rows->index ? s->rows->index[r] : r;
    bool ok = true;
    for (int64_t c = 0; c < s->width && ok; c++)
        ok = attn_sample_within(got_at(s, row, c), want[c], bound[c]);
    return ok;
}

/* An even sample of the `found` rows of the verdict in `from`. */
static bool rows_take(const struct attn_sample *s, struct attn_sample_rows *rows,
                      const int64_t *from, int64_t found, double most)
{
    rows->count = found < (int64_t)most ? found : (int64_t)most;
    const size_t n = (size_t)(rows->count * s->width);
    rows->index = calloc((size_t)rows->count + 1, sizeof *rows->index);
    rows->got = calloc(5 * n + 1, sizeof *rows->got);
    if (!rows->index || !rows->got)
        return false;
    rows->want = rows->got + n;
    rows->bound = rows->want + n;
    rows->trial = rows->bound + n;
    rows->trial_bound = rows->trial + n;
    for (int64_t k = 0; k < rows->count; k++) {
        const int64_t r = from[rows->count > 1 ? k * (found - 1) / (rows->count - 1) : 0];
        rows->index[k] = s->rows->index ? s->rows->index[r] : r;
        const size_t to = (size_t)(k * s->width), bytes = (size_t)s->width * sizeof(double);
        memcpy(rows->want + to, values_of(s->ref, s->tensor->role, false) + r * s->width, bytes);
        memcpy(rows->bound + to, values_of(s->ref, s->tensor->role, true) + r * s->width, bytes);
        for (int64_t c = 0; c < s->width; c++)
            rows->got[(int64_t)to + c] = got_at(s, rows->index[k], c);
    }
    return true;
}

bool attn_sample_take(struct attn_sample *s)
{
    static const uint32_t roles[] = {ATTN_OUT, ATTN_LSE, ATTN_WEIGHTS};
    const struct attn_problem *p = &s->instance->problem;
    const int64_t heads = p->op == ATTN_OP_MHA ? p->hq : 1;
    int64_t *wrong = calloc(2 * (size_t)s->rows->count + 1, sizeof *wrong);
    int64_t *held = wrong ? wrong + s->rows->count : NULL, n_wrong = 0, n_held = 0;
    for (size_t o = 0; o < 3 && n_wrong == 0 && wrong; o++) {
        s->tensor = attn_tensor_find(p, roles[o]);
        s->width = o == 0 ? ref_row_width(p) : o == 1 ? heads : heads * p->sk;
        n_held = 0;
        for (int64_t r = 0; s->tensor && r < s->rows->count; r++)
            if (is_right(s, r))
                held[n_held++] = r;
            else
                wrong[n_wrong++] = r;
    }
    const double affordable = fmax(2, fmin(MOST_ROWS, budget / ref_row_cost(p)));
    const bool taken = n_wrong > 0 && rows_take(s, &s->wrong, wrong, n_wrong, affordable) &&
                       rows_take(s, &s->held, held, n_held, fmin(MOST_HELD, affordable));
    free(wrong);
    return taken;
}

void attn_sample_free(struct attn_sample *s)
{
    free(s->wrong.index);
    free(s->wrong.got);
    free(s->held.index);
    free(s->held.got);
}

double attn_sample_share(const struct attn_sample *s, int64_t count)
{
    const struct attn_sample_rows *w = &s->wrong;
    const int64_t n = count * s->width;
    int64_t explained = 0, distinct = 0, wrong = 0, wrong_explained = 0;
    for (int64_t k = 0; k < n; k++) {
        const bool agrees = attn_sample_within(w->got[k], w->trial[k], w->trial_bound[k]);
        const bool is_wrong = !attn_sample_within(w->got[k], w->want[k], w->bound[k]);
        explained += agrees;
        wrong += is_wrong;
        wrong_explained += is_wrong && agrees;
        distinct += agrees && isfinite(w->got[k]) &&
                    !attn_sample_within(w->trial[k], w->want[k], w->bound[k] + w->trial_bound[k]);
    }
    if (count == w->count && distinct < ATTN_SAMPLE_DISTINCT)
        return 0;
    return fmin((double)explained / (double)n, wrong ? (double)wrong_explained / (double)wrong : 0);
}

bool attn_sample_answer(const struct attn_sample *s, const struct attn_sample_rows *rows,
                        const struct attn_problem *problem, int64_t count)
{
    char why[256];
    const struct ref_rows chosen = {.count = count, .index = rows->index};
    struct ref_result r = {0};
    const uint32_t role = s->tensor->role;
    *(role == ATTN_OUT ? &r.out : role == ATTN_LSE ? &r.lse : &r.weights) = rows->trial;
    *(role == ATTN_OUT   ? &r.out_bound
      : role == ATTN_LSE ? &r.lse_bound
                         : &r.weights_bound) = rows->trial_bound;
    return ref_compute(problem, &chosen, s->numerics, s->instance->kind, s->threads, &r, why,
                       sizeof why) == ATTN_OK;
}

void attn_sample_propose(struct attn_sample *s, double share, bool local, const char *format, ...)
{
    const double rank = share + !local;
    if (share < least_share || rank <= s->rank)
        return;
    s->rank = rank;
    const int n = snprintf(s->text, s->size, "explained: %.3g %% of %lld elements of wrong rows ",
                           100 * share, (long long)(s->wrong.count * s->width));
    va_list arguments;
    va_start(arguments, format);
    if (n > 0 && (size_t)n < s->size)
        vsnprintf(s->text + n, s->size - (size_t)n, format, arguments);
    va_end(arguments);
}
