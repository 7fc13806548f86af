/* SPDX-License-Identifier: Apache-2.0 */
/* row.c - one row of the backward pass: its weights, the gradients at its scores, and how far those
 * of a backend may be off. OP.md derives the errors. */
#include <string.h>

#include "reference/dtype.h"
#include "reference/ops/attention_backward/attention_backward.h"
#include "reference/philox.h"
#include "reference/sums.h"

static double limited(double x)
{
    return x < REF_UNKNOWN ? x : REF_UNKNOWN;
}

static bool is_known(double error)
{
    return error < REF_UNKNOWN;
}

static const struct attn_problem *problem_of(const struct ref_backward_group *group)
{
    return group->job->operands.problem;
}

static struct ref_block block_of(const struct ref_backward_group *group, int64_t h)
{
    return (struct ref_block){.job = group->job, .keys = &group->keys, .b = group->b, .h = h};
}

/* The number of a row in the group. */
static int64_t place_of(const struct ref_backward_group *group, const struct ref_backward_row *row)
{
    return row->h % group->heads * problem_of(group)->sq + row->i;
}

static double given_lse(const struct ref_backward_group *group, const struct ref_backward_row *row)
{
    return ref_load(group->job->operands.by_role[ATTN_LSE],
                    (const int64_t[]){group->b, row->h, row->i});
}

/* GRAD_LSE of the row; 0: there is none. */
static double lse_gradient(const struct ref_backward_group *group,
                           const struct ref_backward_row *row)
{
    const struct attn_tensor *dlse = group->job->operands.by_role[ATTN_GRAD_LSE];

    return dlse ? ref_load(dlse, (const int64_t[]){group->b, row->h, row->i}) : 0.0;
}

/* dO . OUT with the OUT that is given, less GRAD_LSE. */
static double given_delta(const struct ref_backward_group *group,
                          const struct ref_backward_row *row)
{
    const struct attn_tensor *out = group->job->operands.by_role[ATTN_OUT];
    const int64_t dv = problem_of(group)->dv;
    const double *dout = group->dout + place_of(group, row) * dv;
    double sum = 0.0;

    for (int64_t c = 0; c < dv; c++)
        sum += dout[c] * ref_load(out, (const int64_t[]){group->b, row->h, row->i, c});
    return sum - lse_gradient(group, row);
}

static void add_span(struct ref_backward_row *row, int64_t begin, int64_t end)
{
    row->spans[row->n_spans++] = (struct ref_backward_span){begin, end};
}

/* The keys of a run that are not 0, and one that is, for all others. */
static void add_others(const struct ref_backward_group *group, const struct ref_run *run,
                       struct ref_backward_row *row)
{
    const int64_t *others = group->others;
    int64_t first = 0, last = group->n_others, zeros = run->end - run->begin, next = run->begin;

    while (first < last) {
        const int64_t middle = first + (last - first) / 2;
        if (others[middle] < run->begin)
            first = middle + 1;
        else
            last = middle;
    }
    for (; first < group->n_others && others[first] < run->end; first++, zeros--) {
        add_span(row, others[first], others[first] + 1);
        next += others[first] == next; /* the first key of the run that is 0 */
    }
    if (zeros > 0 && row->zero < 0) {
        row->zero = next;
        add_span(row, next, next + 1);
        zeros--;
    }
    row->more += zeros;
}

/* What is looked at of the keys that a row may see. */
static void list_spans(const struct ref_backward_group *group, struct ref_backward_row *row)
{
    struct ref_sight sight;
    struct ref_run run;

    row->n_spans = row->more = 0;
    row->zero = -1;
    ref_sight_of(&group->job->operands, group->b, row->h, row->i, &sight);
    for (int64_t from = 0; ref_sight_next(&sight, from, &run); from = run.end)
        if (group->few)
            add_others(group, &run, row);
        else
            add_span(row, run.begin, run.end);
}

/* For how many keys allowed key t stands. */
static double times_of(const struct ref_backward_row *row, int64_t t)
{
    return row->scratch->key[t] == row->zero ? 1.0 + (double)row->more : 1.0;
}

/* Scores, and the allowed keys. Returns whether one of their scores makes the row NaN. */
static bool look(const struct ref_backward_group *group, struct ref_backward_row *row)
{
    const struct attn_tensor *mask = group->job->operands.by_role[ATTN_MASK];
    const struct ref_block block = block_of(group, row->h);
    const double *q = group->q + place_of(group, row) * problem_of(group)->dq;
    struct ref_scratch *x = row->scratch;
    bool poisoned = false;

    row->n = 0;
    list_spans(group, row);
    for (int64_t n = 0; n < row->n_spans; n++) {
        const struct ref_backward_span span = row->spans[n];
        ref_scores(&block, row->i, q, NULL, span.begin, span.end, x);
        for (int64_t j = span.begin; j < span.end; j++) {
            const double s = x->score[2][j];
            if (s == -INFINITY ||
                (mask && ref_load(mask, (const int64_t[]){group->b, row->h, row->i, j}) == 0.0))
                continue;
            poisoned = poisoned || !(s < INFINITY);
            x->key[row->n] = j;
            x->logit[row->n++] = s;
        }
    }
    return poisoned;
}

/* p of each allowed key and of the sink by the LSE that is given. */
static void weigh_given(const struct ref_backward_group *group, struct ref_backward_row *row,
                        bool poisoned)
{
    struct ref_scratch *x = row->scratch;

    row->lse = poisoned ? NAN : given_lse(group, row);
    row->sink_p = row->sink ? exp(row->sink_logit - row->lse) : 0.0;
    for (int64_t t = 0; t < row->n; t++)
        x->p[t] = exp(x->logit[t] - row->lse);
}

/* The same by an LSE of our own. */
static void weigh(struct ref_backward_row *row, bool poisoned)
{
    struct ref_scratch *x = row->scratch;
    double most = row->sink ? row->sink_logit : -INFINITY, sum = 0.0;

    for (int64_t t = 0; t < row->n; t++)
        most = fmax(most, x->logit[t]);
    for (int64_t t = 0; t < row->n; t++) {
        x->p[t] = exp(x->logit[t] - most);
        sum += times_of(row, t) * x->p[t];
    }
    row->sink_p = row->sink ? exp(row->sink_logit - most) : 0.0;
    sum += row->sink_p;
    row->lse = poisoned ? NAN : most + log(sum);
    row->sink_p = poisoned ? NAN : row->sink_p / sum;
    for (int64_t t = 0; t < row->n; t++)
        x->p[t] = poisoned ? NAN : x->p[t] / sum;
}

/* 0, or 1 / (1 - pdrop). */
static double keep_of(const struct ref_backward_group *group, const struct ref_backward_row *row,
                      int64_t j)
{
    const struct attn_problem *p = problem_of(group);
    const struct attn_tensor *keep = group->job->operands.by_role[ATTN_KEEP];
    const int64_t first = ((group->b * p->hq + row->h) * p->sq + row->i) * p->sk;

    if (!(p->flags & ATTN_FLAG_DROPOUT))
        return 1.0;
    if (keep ? ref_load(keep, (const int64_t[]){group->b, row->h, row->i, j}) == 0.0
             : !attn_dropout_keep(p->dropout_seed, (uint64_t)(first + j), p->dropout_p))
        return 0.0;
    return 1.0 / (1.0 - p->dropout_p);
}

/* By key, dO.v or the sum of its magnitudes. */
static void along_spans(const struct ref_backward_group *group, const struct ref_backward_row *row,
                        void (*add)(const double *x, const double *a, int64_t stride,
                                    const int64_t *index, int64_t rows, int64_t width, double *y),
                        double *sums)
{
    const struct attn_problem *p = problem_of(group);
    const double *dout = group->dout + place_of(group, row) * p->dv;

    for (int64_t n = 0; n < row->n_spans; n++) {
        const int64_t begin = row->spans[n].begin, count = row->spans[n].end - begin;
        memset(sums + begin, 0, (size_t)count * sizeof(*sums));
        add(dout, group->vt + begin, p->sk, NULL, p->dv, count, sums + begin);
    }
}

/* dP, delta, dS and dZ. A key that was dropped takes no part, whatever its v. */
static void differentiate(const struct ref_backward_group *group, struct ref_backward_row *row)
{
    const struct attn_problem *p = problem_of(group);
    struct ref_scratch *x = row->scratch;

    along_spans(group, row, ref_add_rows, row->along);
    row->delta = 0.0;
    for (int64_t t = 0; t < row->n; t++) {
        x->keep[t] = keep_of(group, row, x->key[t]);
        row->dp[t] = x->keep[t] > 0.0 ? x->keep[t] * row->along[x->key[t]] : 0.0;
        row->kept[t] = x->p[t] * x->keep[t];
        row->delta += x->p[t] * row->dp[t];
    }
    row->delta -= lse_gradient(group, row);
    if (group->job->request->given && !group->declared.own_delta)
        row->delta = given_delta(group, row);
    for (int64_t t = 0; t < row->n; t++) {
        const double cap = p->softcap, s = x->score[1][x->key[t]] / (cap > 0.0 ? cap : 1.0);
        row->ds[t] = x->p[t] * (row->dp[t] - row->delta);
        row->dz[t] = p->flags & ATTN_FLAG_SOFTCAP ? row->ds[t] * (1.0 - s * s) : row->ds[t];
    }
}

/* ---- errors ---- */

/* ds of every allowed key. Returns false if a step towards a score may overflow. */
static bool bound_scores(const struct ref_backward_group *group, struct ref_backward_row *row)
{
    const struct ref_block block = block_of(group, row->h);
    const double *q = group->q + place_of(group, row) * problem_of(group)->dq;
    struct ref_scratch *x = row->scratch;

    x->offset = 0.0;
    for (int64_t n = 0; n < row->n_spans; n++)
        ref_score_errors(&block, row->i, q, NULL, NULL, row->spans[n].begin, row->spans[n].end, x);
    for (int64_t t = 0; t < row->n; t++)
        x->wrong[t] = x->ds[x->key[t]];
    return !ref_scores_overflow(&block, q, x, row->n);
}

/* How far the lse that a backend uses may be from ours. Its own one has the bound of forward. */
static double lse_error(const struct ref_backward_group *group, const struct ref_backward_row *row)
{
    const struct attn_problem *p = problem_of(group);
    const struct ref_arithmetic *a = &group->arithmetic;
    const double size = fabs(row->lse) + row->scratch->offset;
    const double shifted = (ref_growth(a, 4.0) + a->u_op) * row->scratch->offset;
    struct ref_softmax softmax = {.n = row->n,
                                  .sink = row->sink,
                                  .sink_logit = row->sink_logit,
                                  .lse = row->lse,
                                  .max = row->sink ? row->sink_logit : -INFINITY,
                                  .dropout = p->flags & ATTN_FLAG_DROPOUT,
                                  .dropout_p = p->dropout_p,
                                  .offset = row->scratch->offset};
    struct ref_row_bound bound;

    if (!group->declared.own_lse)
        return limited(fabs(given_lse(group, row) - row->lse) + 2.0 * a->u_op * size + shifted);
    for (int64_t t = 0; t < row->n; t++)
        softmax.max = fmax(softmax.max, row->scratch->logit[t]);
    softmax.log_sum = row->lse - softmax.max;
    softmax.sum = exp(softmax.log_sum);
    softmax.rises = a->on_rise ? ref_bound_rises(row->scratch, row->n) : 0.0;
    ref_bound_row(a, &softmax, row->scratch, &bound);
    return bound.overflows ? REF_UNKNOWN : limited(bound.lse_error + 2.0 * a->u_op * size);
}

double ref_backward_weight_error(const struct ref_backward_group *group,
                                 const struct ref_backward_row *row, double s, double ds)
{
    const struct ref_arithmetic *a = &group->arithmetic;
    const double off = ds + row->d_lambda, far = fabs(row->lse - s) + off;
    const double exps = group->declared.own_lse ? 1.0 + a->tiles : 1.0;
    /* In f64 our own weight is divided by a sum. */
    const double ours = a->copies > 1.0 ? ref_growth(a, (double)(row->n + row->more) + 3.0) : 0.0;

    return limited(expm1(off + ours + a->three * far + exps * a->e_exp + a->e_arg * far));
}

/* How far p of allowed key t may be off. Without a maximum to take off, an exp may overflow. */
static double weight_off(const struct ref_backward_group *group, const struct ref_backward_row *row,
                         int64_t t)
{
    const struct ref_arithmetic *a = &group->arithmetic;
    const struct ref_scratch *x = row->scratch;
    const double w = ref_backward_weight_error(group, row, x->logit[t], x->wrong[t]);
    const double e = x->p[t] * w + a->omega, most = x->p[t] + e;

    return is_known(w) && most <= a->largest && most <= a->p_largest ? e : REF_UNKNOWN;
}

static double sum_sizes(const double *x, int64_t n)
{
    double sum = 0.0;

    for (int64_t c = 0; c < n; c++)
        sum += fabs(x[c]);
    return sum;
}

/* E of dP of allowed key t: a product of Dv columns, and the factor of dropout. */
static double product_error(const struct ref_backward_group *group,
                            const struct ref_backward_row *row, int64_t t, double dout)
{
    const struct ref_arithmetic *a = &group->arithmetic;
    const double dv = (double)problem_of(group)->dv, keep = row->scratch->keep[t];
    const int64_t j = row->scratch->key[t];
    const double growth = ref_backward_growth(group, dv + 1.0), drop = group->declared.dropout;
    const double all = growth + drop * (1.0 + growth);
    double lost = a->omega * (2.0 * dv + dout + group->v_size[j]);

    if (keep == 0.0)
        return 0.0;
    lost += a->partial > 0.0 ? dv * a->partial_omega * (1.0 + a->partial) : 0.0;
    if (!(row->sizes[j] * (1.0 + all) * keep <= a->largest) ||
        (a->partial > 0.0 && !(row->sizes[j] * (1.0 + all) <= a->partial_largest)))
        return REF_UNKNOWN;
    return keep * (all * row->sizes[j] + lost * (1.0 + drop)) + a->omega;
}

/* E of delta: of dO.out with the OUT that is given, or of the sum of p dP. row->e_dz has the errors
 * of dP, row->e_kept those of p. */
static double delta_error(const struct ref_backward_group *group,
                          const struct ref_backward_row *row)
{
    const struct ref_arithmetic *a = &group->arithmetic;
    const struct attn_problem *p = problem_of(group);
    const double *dout = group->dout + place_of(group, row) * p->dv;
    const double dv = (double)p->dv,
                 chain = ref_growth(a, ref_backward_chain(group, row->n + row->more) + 2.0);
    double size = 0.0, terms = 0.0, wrong = 0.0, lost = 2.0 * dv, error;

    for (int64_t t = 0; t < row->n; t++) {
        const double w = row->scratch->p[t] + row->e_kept[t], times = times_of(row, t);
        terms += times * w * fabs(row->dp[t]);
        wrong += times * (row->e_kept[t] * fabs(row->dp[t]) + w * row->e_dz[t]);
    }
    for (int64_t c = 0; c < p->dv; c++) {
        const double out = ref_load(group->job->operands.by_role[ATTN_OUT],
                                    (const int64_t[]){group->b, row->h, row->i, c});
        size += fabs(dout[c] * out);
        lost += fabs(dout[c]) + fabs(out);
    }
    if (!(size <= a->largest))
        return REF_UNKNOWN;
    if (group->declared.own_delta)
        error = wrong + chain * (terms + wrong) + (double)(row->n + row->more) * 2.0 * a->omega;
    else
        error = fabs(given_delta(group, row) - row->delta) +
                ref_backward_growth(group, dv + 1.0) * size + lost * a->omega;
    if (a->copies > 1.0) /* ours is a sum over the keys */
        error += chain * terms;
    if (group->job->operands.by_role[ATTN_GRAD_LSE])
        error += a->u_op * (fabs(row->delta) + error) + a->omega;
    return limited(error + group->declared.u_delta * (fabs(row->delta) + error));
}

/* What 1 - tanh^2 makes of an error of dS at key j. */
static double capped_error(const struct ref_backward_group *group,
                           const struct ref_backward_row *row, int64_t t)
{
    const struct ref_arithmetic *a = &group->arithmetic;
    const double cap = problem_of(group)->softcap;
    const int64_t j = row->scratch->key[t];
    const double x = row->scratch->score[1][j] / cap, rest = 1.0 - x * x;
    const double off = fmin(2.0, row->scratch->ds[j] / cap + a->e_tanh + ref_growth(a, 4.0));

    return rest * row->e_ds[t] +
           (fabs(row->ds[t]) + row->e_ds[t]) *
               (2.0 * fabs(x) * off + off * off + ref_growth(a, 2.0) * (1.0 + x * x));
}

static void bound_stores(const struct ref_backward_group *group, struct ref_backward_row *row,
                         int64_t t)
{
    const struct ref_arithmetic *a = &group->arithmetic;
    const struct ref_backward_declared *d = &group->declared;
    const double s = fabs(row->ds[t]) + row->e_ds[t], z = fabs(row->dz[t]) + row->e_dz[t];

    row->t_ds[t] = d->u_ds > 0.0 ? fmax(d->u_ds * s, d->eta_ds) : 0.0;
    row->t_dz[t] = d->u_ds > 0.0 ? fmax(d->u_ds * z, d->eta_dz) : 0.0;
    row->t_kept[t] = a->u_p > 0.0 ? fmax(a->u_p * (row->kept[t] + row->e_kept[t]), a->eta_p) : 0.0;
    if (s > d->ds_largest || z > d->dz_largest)
        row->e_ds[t] = row->e_dz[t] = REF_UNKNOWN;
}

static void bound_cells(const struct ref_backward_group *group, struct ref_backward_row *row)
{
    const struct ref_arithmetic *a = &group->arithmetic;
    const double drop = group->declared.dropout;
    const bool capped = problem_of(group)->flags & ATTN_FLAG_SOFTCAP;
    const double *p = row->scratch->p, *keep = row->scratch->keep;

    row->e_delta = delta_error(group, row);
    for (int64_t t = 0; t < row->n; t++) {
        const double e_p = row->e_kept[t], e_dp = row->e_dz[t];
        const double g = fabs(row->dp[t] - row->delta);
        double e_g = e_dp + row->e_delta;
        e_g = limited(e_g + a->u_op * (g + e_g));
        row->e_ds[t] = e_p * g + (p[t] + e_p) * e_g;
        row->e_ds[t] = limited(row->e_ds[t] + a->u_op * (p[t] * g + row->e_ds[t]) + a->omega);
        if (!is_known(e_p) || !is_known(e_dp) || !is_known(row->e_delta))
            row->e_ds[t] = REF_UNKNOWN;
        row->e_kept[t] = is_known(e_p) ? keep[t] * (e_p + drop * (p[t] + e_p)) : REF_UNKNOWN;
        row->e_dz[t] = row->e_ds[t];
        if (capped && is_known(row->e_ds[t]))
            row->e_dz[t] = limited(capped_error(group, row, t));
        bound_stores(group, row, t);
    }
}

/* Nothing is known of a row whose scores may overflow. */
static void know_nothing(struct ref_backward_row *row)
{
    row->d_lambda = row->e_delta = REF_UNKNOWN;
    for (int64_t t = 0; t < row->n; t++) {
        row->e_ds[t] = row->e_dz[t] = row->e_kept[t] = REF_UNKNOWN;
        row->t_ds[t] = row->t_dz[t] = row->t_kept[t] = 0.0;
    }
}

static void bound(const struct ref_backward_group *group, struct ref_backward_row *row)
{
    const struct attn_problem *p = problem_of(group);
    const double *dout = group->dout + place_of(group, row) * p->dv;
    const double dout_size = sum_sizes(dout, p->dv);

    if (!bound_scores(group, row)) {
        know_nothing(row);
        return;
    }
    row->d_lambda = lse_error(group, row);
    along_spans(group, row, ref_add_magnitudes, row->sizes);
    for (int64_t t = 0; t < row->n; t++) {
        row->e_kept[t] = weight_off(group, row, t);
        row->e_dz[t] = product_error(group, row, t, dout_size);
    }
    bound_cells(group, row);
}

/* A row without keys. Its lse is the sink, which so has the gradient of lse. */
static void begin_empty(const struct ref_backward_group *group, struct ref_backward_row *row)
{
    const struct ref_arithmetic *a = &group->arithmetic;
    const double given = given_lse(group, row);

    if (!row->sink || !group->job->operands.by_role[ATTN_GRAD_LSE])
        return;
    row->delta = -lse_gradient(group, row);
    row->lse = isnan(given) || !(row->sink_logit < INFINITY) ? NAN : row->sink_logit;
    if (group->job->request->given && !group->declared.own_lse)
        row->lse = given;
    row->sink_p = exp(row->sink_logit - row->lse);
    if (group->job->bounds)
        row->d_lambda = limited(fabs(given - row->lse) + 2.0 * a->u_op * fabs(row->lse));
}

void ref_backward_row(const struct ref_backward_group *group, int64_t h, int64_t i,
                      struct ref_backward_row *row)
{
    const struct ref_operands *in = &group->job->operands;
    const struct attn_tensor *sink = in->by_role[ATTN_SINK];
    bool poisoned;

    row->h = h;
    row->i = i;
    row->sink_logit = sink ? ref_load(sink, &h) : -INFINITY;
    row->sink = row->sink_logit != -INFINITY;
    poisoned = row->sink && !(row->sink_logit < INFINITY);
    poisoned = look(group, row) || poisoned;
    row->delta = row->e_delta = row->d_lambda = 0.0;
    row->sink_p = 0.0;
    if (row->n == 0) {
        begin_empty(group, row);
        return;
    }
    poisoned = poisoned || isnan(given_lse(group, row));
    if (group->job->request->given && !group->declared.own_lse)
        weigh_given(group, row, poisoned);
    else
        weigh(row, poisoned);
    differentiate(group, row);
    if (group->job->bounds)
        bound(group, row);
}
