/* SPDX-License-Identifier: Apache-2.0 */
/* row.c - steps 4 to 8 of the operator for one query row: mask, softmax or another weight function,
 * dropout, output, gate. */
#include <math.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/job.h"
#include "reference/parallel.h"
#include "reference/philox.h"
#include "reference/sums.h"
#include "reference/weight.h"

/* Runs of keys with fewer keys between them are computed as one: vectors are longer then. */
#define BETWEEN 16

/* One row on its way through the steps. */
struct row {
    const struct ref_block *block;
    struct ref_sight sight;
    struct ref_scratch *scratch;
    int64_t i;    /* query */
    int64_t slot; /* entry in struct ref_row_results */
    struct ref_softmax softmax;
    bool poisoned; /* NaN or +inf among the allowed scores of a softmax */
    bool uniform;  /* empty, and declared to weigh all keys equally */
    bool overflow; /* a score may leave the range of its type */
};

static const struct ref_job *job_of(const struct row *row)
{
    return row->block->job;
}

static const struct attn_problem *problem_of(const struct row *row)
{
    return row->block->job->operands.problem;
}

/* The next keys that are computed together, from `from` on: runs with little between them. False:
 * there are no more. */
static bool next_span(const struct row *row, int64_t from, int64_t *begin, int64_t *end)
{
    struct ref_run run;

    if (!ref_sight_next(&row->sight, from, &run))
        return false;
    *begin = run.begin;
    *end = run.end;
    while (ref_sight_next(&row->sight, *end, &run) && run.begin - *end <= BETWEEN)
        *end = run.end;
    return true;
}

/* Pass 1: scores, and the stages that were asked for. Every cell is computed only where a caller
 * looks at all of them. */
static void compute_scores(struct row *row, const double *q, const double *q_error)
{
    const struct ref_row_results *result = &job_of(row)->rows;
    int64_t sk = problem_of(row)->sk, begin, end;

    if (!result->scores[0] && !result->scores[1] && !result->scores[2]) {
        for (int64_t from = 0; next_span(row, from, &begin, &end); from = end)
            ref_scores(row->block, row->i, q, q_error, begin, end, row->scratch);
        return;
    }
    ref_scores(row->block, row->i, q, q_error, 0, sk, row->scratch);
    for (int stage = 0; stage < 3; stage++)
        if (result->scores[stage])
            memcpy(result->scores[stage] + row->slot * sk, row->scratch->score[stage],
                   (size_t)sk * sizeof(double));
}

/* Pass 2: the allowed keys, in order, and their scores. */
static void collect_allowed(struct row *row)
{
    const struct attn_tensor *mask = job_of(row)->operands.by_role[ATTN_MASK];
    const double *s = row->scratch->score[2];
    const bool weighed = job_of(row)->weight;
    int64_t step = 0, n = 0;
    const uint8_t *may =
        mask ? ref_mask_row(mask, row->block->b, row->block->h, row->i, &step) : NULL;
    struct ref_run run;

    for (int64_t from = 0; ref_sight_next(&row->sight, from, &run); from = run.end)
        for (int64_t j = run.begin; j < run.end; j += run.step) {
            bool allowed = s[j] != -INFINITY && (!may || may[j * step] != 0);
            row->poisoned |= allowed && !weighed && !(s[j] < INFINITY);
            row->scratch->key[n] = j;
            row->scratch->logit[n] = s[j];
            n += allowed; /* else the next key takes its place */
        }
    row->softmax.n = n;
}

/* The same, where keys may be seen more than once, or not at all. */
static void collect_seen(struct row *row)
{
    const double *s = row->scratch->score[2], *times = row->scratch->bias;
    int64_t n = 0;

    row->block->times(row->block->context, row->i, row->scratch->bias);
    for (int64_t j = 0; j < problem_of(row)->sk; j++) {
        if (times[j] == -INFINITY || s[j] == -INFINITY)
            continue;
        row->poisoned |= !(s[j] < INFINITY);
        row->scratch->key[n] = j;
        row->scratch->logit[n++] = s[j] + times[j];
    }
    row->softmax.n = n;
}

/* The rule "uniform" for an empty row: equal scores over all keys, no sink. */
static void allow_all(struct row *row)
{
    int64_t sk = problem_of(row)->sk;

    for (int64_t j = 0; j < sk; j++) {
        row->scratch->key[j] = j;
        row->scratch->logit[j] = row->scratch->wrong[j] = 0.0;
        row->scratch->noise[j] = row->scratch->spread[j] = 0.0;
    }
    row->softmax.n = sk;
    row->softmax.sink = false;
    row->uniform = true;
}

/* Pass 3: p_j = exp(s_j - max) / sum over allowed keys and sink, in scratch->p. */
static void softmax(struct row *row)
{
    struct ref_softmax *x = &row->softmax;
    const double *s = row->scratch->logit;
    double *p = row->scratch->p;

    x->max = x->sink ? x->sink_logit : -INFINITY;
    for (int64_t t = 0; t < x->n; t++)
        x->max = s[t] > x->max ? s[t] : x->max;
    x->sum = 0.0;
    for (int64_t t = 0; t < x->n; t++) {
        p[t] = exp(s[t] - x->max);
        x->sum += p[t];
    }
    if (x->sink)
        x->sum += exp(x->sink_logit - x->max);
    x->log_sum = log(x->sum);
    x->lse = x->max + x->log_sum;
    for (int64_t t = 0; t < x->n; t++)
        p[t] /= x->sum;
}

/* Pass 3 with another weight function: p_j = f(s_j), in scratch->p. */
static void weigh(struct row *row)
{
    for (int64_t t = 0; t < row->softmax.n; t++)
        row->scratch->p[t] = job_of(row)->weight->value(row->scratch->logit[t]);
}

/* Pass 4: what dropout makes of each weight: 0, or 1 / (1 - p). */
static void dropout(struct row *row)
{
    const struct attn_problem *problem = problem_of(row);
    const struct attn_tensor *keep = job_of(row)->operands.by_role[ATTN_KEEP];
    int64_t b = row->block->b, h = row->block->h;
    uint64_t first = (uint64_t)(((b * problem->hq + h) * problem->sq + row->i) * problem->sk);

    for (int64_t t = 0; t < row->softmax.n; t++)
        row->scratch->keep[t] = 1.0;
    for (int64_t t = 0; row->softmax.dropout && t < row->softmax.n; t++) {
        int64_t j = row->scratch->key[t];
        bool kept;
        if (keep)
            kept = ref_load(keep, (const int64_t[]){b, h, row->i, j}) != 0.0;
        else
            kept =
                attn_dropout_keep(problem->dropout_seed, first + (uint64_t)j, problem->dropout_p);
        row->scratch->keep[t] = kept ? 1.0 / (1.0 - problem->dropout_p) : 0.0;
    }
}

/* Pass 5: out = sum_j p_j v_j. A dropped key takes no part, even where its v is not finite. */
static void weigh_values(struct row *row, double *out)
{
    const struct ref_keys *keys = row->block->keys;
    struct ref_scratch *x = row->scratch;
    int64_t kept = 0;

    for (int64_t t = 0; t < row->softmax.n; t++) {
        x->order[kept] = x->key[t];
        x->weight[kept] = x->p[t] * x->keep[t];
        kept += x->keep[t] != 0.0;
    }
    memset(out, 0, (size_t)keys->dv * sizeof(*out));
    ref_add_rows(x->weight, keys->v, keys->dv, x->order, kept, keys->dv, out);
}

static void fill(double *array, int64_t count, double value)
{
    for (int64_t c = 0; array && c < count; c++)
        array[c] = value;
}

static uint32_t lse_dtype(const struct row *row)
{
    const struct attn_tensor *lse = job_of(row)->operands.by_role[ATTN_LSE];

    if (lse)
        return lse->dtype;
    return problem_of(row)->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
}

/* Results of a row whose outputs are all one value, by rule and not by computing. */
static void store_rule(const struct row *row, double *out, double *error, double value, double lse)
{
    const struct ref_row_results *result = &job_of(row)->rows;
    int64_t sk = problem_of(row)->sk, slot = row->slot;

    fill(out, problem_of(row)->dv, value);
    fill(error, problem_of(row)->dv, 0.0);
    if (result->lse)
        result->lse[slot] = lse;
    if (result->lse_bound)
        result->lse_bound[slot] = ref_bound_final(&job_of(row)->arithmetic, lse_dtype(row), lse, 0);
    if (result->weights)
        fill(result->weights + slot * sk, sk, row->poisoned ? 0.0 : value);
    if (result->weights && row->poisoned)
        for (int64_t t = 0; t < row->softmax.n; t++)
            result->weights[slot * sk + row->scratch->key[t]] = value;
    if (result->weights_bound)
        fill(result->weights_bound + slot * sk, sk, 0.0);
}

static void store_weights(const struct row *row)
{
    const struct ref_row_results *result = &job_of(row)->rows;
    int64_t sk = problem_of(row)->sk;

    if (result->weights)
        fill(result->weights + row->slot * sk, sk, 0.0);
    for (int64_t t = 0; result->weights && t < row->softmax.n; t++)
        result->weights[row->slot * sk + row->scratch->key[t]] = row->scratch->p[t];
}

/* ds of every allowed key, and whether a score of theirs may overflow. */
static void bound_scores(struct row *row, const double *q, const double *q_error,
                         const double *q_spread)
{
    struct ref_scratch *scratch = row->scratch;
    const struct ref_arithmetic *a = &job_of(row)->arithmetic;
    int64_t n = row->softmax.n, begin, end;
    const int64_t from = n > 0 ? scratch->key[0] : 0, to = n > 0 ? scratch->key[n - 1] + 1 : 0;

    scratch->offset = 0.0;
    for (int64_t at = from; at < to && next_span(row, at, &begin, &end) && begin < to; at = end)
        ref_score_errors(row->block, row->i, q, q_error, q_spread, begin, end < to ? end : to,
                         scratch);
    row->overflow = n > 0 && ref_scores_overflow(row->block, q, scratch, n);
    for (int64_t t = 0; t < n; t++)
        scratch->wrong[t] = scratch->ds[scratch->key[t]];
    for (int64_t t = 0; row->block->times && t < n; t++)
        scratch->wrong[t] += a->three * fabs(scratch->bias[scratch->key[t]]);
    row->softmax.offset = scratch->offset;
    /* A sink may raise the maximum once more; that of the first key rescales nothing. */
    row->softmax.rises = a->on_rise ? ref_bound_rises(scratch, n) : 0.0;
}

/* Where scores may overflow: a cell that ends at -inf takes no part, and its weight is 0 even in a
 * row of NaN. Cells that are not allowed are 0 all the same. */
static void store_unknown_weights(const struct row *row)
{
    const struct ref_row_results *result = &job_of(row)->rows;
    int64_t sk = problem_of(row)->sk;

    if (!result->weights_bound)
        return;
    fill(result->weights_bound + row->slot * sk, sk, 0.0);
    for (int64_t t = 0; t < row->softmax.n; t++)
        result->weights_bound[row->slot * sk + row->scratch->key[t]] = INFINITY;
}

/* Bounds of a row of which nothing is known. */
static void store_unknown(const struct row *row, double *error)
{
    const struct ref_row_results *result = &job_of(row)->rows;

    fill(error, problem_of(row)->dv, INFINITY);
    if (result->lse_bound)
        result->lse_bound[row->slot] = row->uniform ? 0.0 : INFINITY;
    store_unknown_weights(row);
}

/* The errors of a row of which W_o makes out, part by part. Where keys are few they stay together.
 */
static void store_joined(const struct row *row, const struct ref_row_bound *bound,
                         const double *out, const double *error)
{
    const struct ref_block *block = row->block;
    const struct ref_joined *joined = block->joined;
    const int64_t at = error - block->error, dv = block->keys->dv;

    if (!ref_bound_joins(&job_of(row)->arithmetic, &row->softmax, bound))
        return;
    for (int64_t c = 0; c < dv; c++) {
        if (!isfinite(error[c]))
            return;
    }
    memcpy(joined->rest + at, row->scratch->column[5], (size_t)dv * sizeof(double));
    memcpy(joined->own + at, row->scratch->column[6], (size_t)dv * sizeof(double));
    ref_bound_join(&row->softmax, bound, block->keys, row->scratch, out, joined,
                   at / block->out_stride);
}

/* The bounds of a row whose weights nothing divides. */
static void store_weighed(const struct row *row, const double *out, double *error)
{
    const struct ref_row_results *result = &job_of(row)->rows;
    const struct ref_arithmetic *a = &job_of(row)->arithmetic;
    const struct attn_tensor *weights = job_of(row)->operands.by_role[ATTN_WEIGHTS];
    const uint32_t dtype = weights ? weights->dtype : problem_of(row)->dtype;
    const int64_t sk = problem_of(row)->sk;
    struct ref_scratch *x = row->scratch;
    struct ref_row_bound bound = {.overflows = row->overflow};

    if (!row->overflow)
        ref_bound_weights(a, &row->softmax, job_of(row)->weight, x, &bound);
    if (bound.overflows) {
        store_unknown(row, error);
        return;
    }
    if (error)
        ref_bound_weighed(a, &row->softmax, &bound, row->block->keys, x, out, error);
    if (result->weights_bound)
        fill(result->weights_bound + row->slot * sk, sk, 0.0);
    for (int64_t t = 0; result->weights_bound && t < row->softmax.n; t++)
        result->weights_bound[row->slot * sk + x->key[t]] =
            ref_bound_final(a, dtype, x->p[t], x->growth[t] + x->store[t] + a->omega);
}

static void store_bounds(const struct row *row, const double *out, double *error)
{
    const struct ref_job *job = job_of(row);
    const struct ref_row_results *result = &job->rows;
    const struct ref_arithmetic *a = &job->arithmetic;
    const struct attn_tensor *weights = job->operands.by_role[ATTN_WEIGHTS];
    struct ref_scratch *scratch = row->scratch;
    int64_t sk = problem_of(row)->sk, n = row->softmax.n;
    struct ref_row_bound bound;

    if (!row->overflow)
        ref_bound_row(a, &row->softmax, scratch, &bound);
    if (row->overflow || bound.overflows) {
        store_unknown(row, error);
        return;
    }
    if (error)
        ref_bound_out(a, &row->softmax, &bound, row->block->keys, scratch, out, error);
    if (error && row->block->joined)
        store_joined(row, &bound, out, error);
    if (result->lse_bound)
        result->lse_bound[row->slot] =
            row->uniform ? 0.0
                         : ref_bound_final(a, lse_dtype(row), row->softmax.lse, bound.lse_error);
    if (!result->weights_bound)
        return;
    fill(result->weights_bound + row->slot * sk, sk, 0.0);
    for (int64_t t = 0; t < n; t++)
        result->weights_bound[row->slot * sk + scratch->key[t]] =
            ref_bound_final(a, weights ? weights->dtype : problem_of(row)->dtype, scratch->p[t],
                            ref_bound_weight(a, &bound, scratch, t));
}

/* A row that takes no softmax: empty by a rule, or poisoned. False: an ordinary row. */
static bool settle_by_rule(struct row *row, double *out, double *error)
{
    const struct ref_softmax *x = &row->softmax;
    uint32_t rule = job_of(row)->empty_row;

    if (row->poisoned) {
        store_rule(row, out, error, NAN, NAN);
        if (row->overflow)
            store_unknown_weights(row);
        return true;
    }
    if (x->n > 0)
        return false;
    if (job_of(row)->weight) { /* an empty sum, whatever is declared for a softmax */
        store_rule(row, out, error, 0.0, -INFINITY);
        return true;
    }
    if (rule == ATTN_EMPTY_UNIFORM && problem_of(row)->sk > 0) {
        allow_all(row);
        return false;
    }
    if (rule != ATTN_EMPTY_NAN && x->sink) /* a softmax of the sink alone */
        return false;
    if (rule == ATTN_EMPTY_NAN)
        store_rule(row, out, error, NAN, NAN);
    else
        store_rule(row, out, error, 0.0, rule == ATTN_EMPTY_INF ? INFINITY : -INFINITY);
    return true;
}

static void compute_row(struct row *row, const double *q, const double *q_error,
                        const double *q_spread, double *out, double *error)
{
    const struct ref_job *job = job_of(row);
    const struct attn_problem *problem = problem_of(row);
    const struct attn_tensor *sink = job->operands.by_role[ATTN_SINK];

    if (sink) {
        row->softmax.sink_logit = ref_load(sink, &row->block->h);
        row->softmax.sink = row->softmax.sink_logit != -INFINITY;
        row->poisoned = isnan(row->softmax.sink_logit) || row->softmax.sink_logit == INFINITY;
    }
    row->softmax.dropout = problem->flags & ATTN_FLAG_DROPOUT;
    row->softmax.dropout_p = problem->dropout_p;
    row->softmax.copies = row->block->copies;
    ref_sight_of(&job->operands, row->block->b, row->block->h, row->i, &row->sight);
    compute_scores(row, q, q_error);
    if (row->block->times)
        collect_seen(row);
    else
        collect_allowed(row);
    if (job->rows.allowed)
        job->rows.allowed[row->slot] = row->softmax.n;
    if (job->bounds)
        bound_scores(row, q, q_error, q_spread);
    if (settle_by_rule(row, out, error))
        return;
    if (job->weight)
        weigh(row);
    else
        softmax(row);
    dropout(row);
    weigh_values(row, out);
    /* The rule "uniform" declares weights, but no lse of their own. */
    if (job->rows.lse)
        job->rows.lse[row->slot] = row->uniform ? -INFINITY : row->softmax.lse;
    store_weights(row);
    if (job->bounds && job->weight)
        store_weighed(row, out, error);
    else if (job->bounds)
        store_bounds(row, out, error);
}

/* At most `threads` chunks run at a time, so one of as many scratches is always free. */
static struct ref_scratch *scratch_take(const struct ref_job *job)
{
    for (int t = 0;; t = (t + 1) % job->threads)
        if (!atomic_flag_test_and_set(&job->scratch[t].busy))
            return &job->scratch[t];
}

static void compute_rows(void *context, int64_t begin, int64_t end)
{
    const struct ref_block *block = context;
    const struct ref_job *job = block->job;
    const struct attn_problem *problem = job->operands.problem;
    struct ref_scratch *scratch = scratch_take(job);
    struct ref_block of_global = *block; /* the same for rows with keys of their own */

    of_global.keys = block->global;
    for (int64_t r = begin; r < end; r++) {
        double *out = block->out ? block->out + r * block->out_stride : scratch->out;
        double *error = block->error ? block->error + r * block->out_stride : NULL;
        struct row row = {.block = block,
                          .scratch = scratch,
                          .i = ref_row_index(job, block->first + r) % problem->sq,
                          .slot = (block->first + r) * job->rows.heads + block->result_head};
        if (block->global && ref_is_global(&job->operands, block->b, row.i))
            row.block = &of_global;
        compute_row(&row, block->q + r * problem->dq,
                    block->q_error ? block->q_error + r * problem->dq : NULL,
                    block->q_spread ? block->q_spread + r * problem->dq : NULL, out, error);
        if (job->operands.by_role[ATTN_GATE])
            ref_gate_row(block, row.i, out, error);
    }
    atomic_flag_clear(&scratch->busy);
}

void ref_block_compute(const struct ref_block *block)
{
    attn_parallel_for(block->job->threads, block->count, 4, compute_rows, (void *)block);
}
