/* SPDX-License-Identifier: Apache-2.0 */
/* power_project.c - q, k and v of multi-head attention, projected in double. */
#include <stdlib.h>
#include <string.h>

#include "explain/power_trials.h"
#include "reference/dtype.h"
#include "reference/sums.h"

/* Rows of w^T that go through all rows of x while they are in a cache. */
enum { TERMS = 32 };

/* Rows [first, first + width) of w, transposed: [in, width]. */
static double *turned(const struct attn_tensor *w, int64_t first, int64_t width)
{
    const int64_t in = w->shape[1];
    double *wt = calloc((size_t)(in * width) + 1, sizeof *wt);
    for (int64_t c = 0; wt && c < width; c++)
        for (int64_t e = 0; e < in; e++)
            wt[e * width + c] = ref_load(w, (const int64_t[]){first + c, e});
    return wt;
}

double *attn_power_project(const struct attn_tensor *x, int64_t b, const int64_t *row, int64_t rows,
                           const struct attn_tensor *w, const struct attn_tensor *bias,
                           int64_t first, int64_t width)
{
    const int64_t in = w->shape[1];
    double *wt = turned(w, first, width), *y = calloc((size_t)(rows * width) + 1, sizeof *y);
    double *from = calloc((size_t)(rows * in) + 1, sizeof *from);
    if (!wt || !y || !from) {
        free(y);
        y = NULL;
        goto out;
    }
    for (int64_t r = 0; r < rows; r++) {
        ref_load_vector(x, (const int64_t[]){b, row ? row[r] : r, 0}, in, from + r * in);
        for (int64_t c = 0; bias && c < width; c++)
            y[r * width + c] = ref_load(bias, (const int64_t[]){first + c});
    }
    for (int64_t e = 0; e < in; e += TERMS)
        for (int64_t r = 0; r < rows; r++)
            ref_add_rows(from + r * in + e, wt + e * width, width, NULL,
                         in - e < TERMS ? in - e : TERMS, width, y + r * width);
out:
    free(wt);
    free(from);
    return y;
}

const double *attn_power_keys(struct attn_power_trials *t, int64_t b, int64_t g)
{
    const struct attn_tensor *const *role = t->operands.by_role;
    const struct attn_problem *p = t->problem;
    double **keys = &t->keys[b * p->hkv + g];
    if (!*keys)
        *keys = attn_power_project(role[ATTN_X_K], b, NULL, p->sk, role[ATTN_W_K], role[ATTN_B_K],
                                   g * p->dk, p->dk);
    return *keys;
}

const double *attn_power_queries(struct attn_power_trials *t, int64_t b, int64_t h)
{
    const struct attn_tensor *const *role = t->operands.by_role;
    const struct attn_problem *p = t->problem;
    double **queries = &t->queries[b * p->hq + h];
    if (!*queries)
        *queries = attn_power_project(role[ATTN_X_Q], b, t->query, t->n_queries, role[ATTN_W_Q],
                                      role[ATTN_B_Q], h * p->dq, p->dq);
    return *queries;
}

const double *attn_power_values(struct attn_power_trials *t, int64_t b, int64_t g, int64_t i)
{
    const struct attn_tensor *const *role = t->operands.by_role;
    const struct attn_problem *p = t->problem;
    const bool global = role[ATTN_V_GLOBAL] && ref_is_global(&t->operands, b, i);
    double **values = &t->values[(global * p->b + b) * p->hkv + g];
    if (*values)
        return *values;
    if (t->projected) {
        *values = attn_power_project(role[ATTN_X_V], b, NULL, p->sk, role[ATTN_W_V], role[ATTN_B_V],
                                     g * p->dv, p->dv);
        return *values;
    }
    const int64_t n = t->n_value_columns;
    double *made = calloc((size_t)(p->sk * n) + 1, sizeof *made);
    for (int64_t j = 0; made && j < p->sk; j++)
        for (int64_t c = 0; c < n; c++)
            made[j * n + c] = ref_load(role[global ? ATTN_V_GLOBAL : ATTN_V],
                                       (const int64_t[]){b, g, j, t->value_column[c]});
    return *values = made;
}
