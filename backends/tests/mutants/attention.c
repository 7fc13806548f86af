/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - the two phases: partial results by threads, then outputs. */
#include <math.h>
#include <pthread.h>

#include "mutant.h"

struct share {
    struct mutant_job *job;
    int number;
};

static int64_t query_tiles(const struct attn_problem *p)
{
    return (p->sq + QUERY_TILE - 1) / QUERY_TILE;
}

static int64_t rows_of(const struct attn_problem *p, int64_t i)
{
    return mutant_least(QUERY_TILE, p->sq - i);
}

static bool tail_skipped(const struct attn_problem *p, int64_t i)
{
    return bug(query_tail_skipped) && rows_of(p, i - i % QUERY_TILE) < QUERY_TILE;
}

/* Item n: one tile of queries against the keys of one split. */
static void compute_item(struct mutant_job *job, struct mutant_scratch *scratch, int64_t n)
{
    const struct attn_problem *p = job->p;
    const int64_t split = n % job->splits, tile = n / job->splits % query_tiles(p);
    const int64_t head = n / job->splits / query_tiles(p), b = head / p->hq, h = head % p->hq;
    const int64_t i = tile * QUERY_TILE, rows = rows_of(p, i);
    const int64_t length = (p->sk + job->splits - 1) / job->splits;
    const int64_t end = mutant_least((split + 1) * length, p->sk);
    float *partial[QUERY_TILE];
    for (int64_t r = 0; r < rows; r++) {
        partial[r] = mutant_partial(job, b, h, i + r) + split * (p->dv + PARTIAL_OUT);
        mutant_partial_begin(job, partial[r]);
    }
    mutant_load_queries(job, scratch, b, h, i, rows);
    for (int64_t j = split * length; j < end; j += KEY_TILE) {
        if (mutant_tile_masked(job, b, i, j))
            continue;
        mutant_score_tile(job, scratch, b, h, i, rows, j, mutant_least(KEY_TILE, end - j));
        for (int64_t r = 0; r < rows; r++)
            mutant_partial_add(job, scratch, b, h, i, r, j, partial[r]);
    }
}

static void *compute_share(void *context)
{
    const struct share *share = context;
    struct mutant_job *job = share->job;
    const int64_t items = job->p->b * job->p->hq * query_tiles(job->p) * job->splits;
    /* The caller will merge as well, and so takes a quarter. */
    const int64_t own = job->threads > 1 ? items / 4 : items;
    const int64_t begin = share->number == 0 ? 0 : own, end = share->number == 0 ? own : items;
    struct mutant_scratch *scratch = &job->scratch[bug(scratch_shared) ? 0 : share->number];
    for (int64_t n = begin; n < end; n++)
        compute_item(job, scratch, n);
    return NULL;
}

static float scaled_out(const struct mutant_job *job, float value)
{
    if ((job->p->flags & ATTN_FLAG_DROPOUT) && !bug(dropout_unscaled))
        value /= (float)(1 - job->p->dropout_p);
    return bug(out_zero)        ? 0
           : bug(out_doubled)   ? 2 * value
           : bug(out_5_percent) ? 1.05f * value
                                : value;
}

static void store_out(const struct mutant_job *job, int64_t b, int64_t h, int64_t i,
                      const float *partial)
{
    const struct attn_problem *p = job->p;
    const bool broken = isnan(partial[PARTIAL_MAXIMUM]);
    bool empty = partial[PARTIAL_SUM] == 0;
    if (empty && bug(empty_row_stale))
        return;
    if (empty && bug(empty_row_garbage)) {
        partial = mutant_partial(job, b, h, p->sq - 1);
        empty = false;
    }
    for (int64_t c = 0; c < p->dv; c++) {
        float value = partial[PARTIAL_OUT + c] / partial[PARTIAL_SUM];
        if (empty)
            value = bug(empty_row_nan) || (bug(bias_all_infinite) && mutant_has(job, ATTN_BIAS))
                        ? NAN
                        : 0;
        if (broken)
            value = NAN;
        if (bug(tall_rows_zero) && i >= p->sk)
            value = 0;
        mutant_put(job, ATTN_OUT, mutant_at(job, ATTN_OUT, b, h, i, c), scaled_out(job, value));
    }
    if (bug(gaps_written) && job->operands.view[ATTN_OUT].stride[2] > p->dv)
        mutant_put(job, ATTN_OUT, mutant_at(job, ATTN_OUT, b, h, i, p->dv), 0);
}

static float lse_of(const struct mutant_job *job, const float *partial)
{
    const float maximum = bug(lazy_lse) ? partial[PARTIAL_TRUE_MAXIMUM] : partial[PARTIAL_MAXIMUM];
    const float log_sum = logf(bug(dropout_in_lse) ? partial[PARTIAL_KEPT] : partial[PARTIAL_SUM]);
    if (bug(lse_base_2))
        return (maximum + log_sum) * 1.44269504f;
    if (bug(lse_without_scale))
        return maximum / (float)job->p->scale + log_sum;
    if (bug(lse_without_maximum))
        return log_sum;
    return maximum + log_sum;
}

static void store_lse(const struct mutant_job *job, int64_t b, int64_t h, int64_t i,
                      const float *partial)
{
    const struct attn_problem *p = job->p;
    if (bug(lse_unwritten) && job->splits > 1)
        return;
    const int64_t *stride = job->operands.view[ATTN_LSE].stride;
    const int64_t at = bug(lse_wrong_slot) ? (b * p->sq + i) * p->hq + h
                                           : b * stride[0] + h * stride[1] + i * stride[2];
    mutant_put(job, ATTN_LSE, at, lse_of(job, partial));
}

/* The weights of a row, from its scores once more. */
static void store_weights(struct mutant_job *job, int64_t b, int64_t h, int64_t i,
                          const float *partial)
{
    const struct attn_problem *p = job->p;
    struct mutant_scratch *scratch = &job->scratch[0];
    const bool broken = isnan(partial[PARTIAL_MAXIMUM]);
    mutant_load_queries(job, scratch, b, h, i, 1);
    for (int64_t j = 0; j < p->sk; j += KEY_TILE) {
        const int64_t keys = mutant_least(KEY_TILE, p->sk - j);
        mutant_score_tile(job, scratch, b, h, i, 1, j, keys);
        for (int64_t t = 0; t < keys; t++) {
            const bool forbidden = scratch->s[t] == -INFINITY;
            float e = forbidden ? (bug(exp_of_minus_infinity) ? mutant_exp(-87) : 0)
                      : broken  ? NAN
                                : mutant_exp(scratch->s[t] - partial[PARTIAL_MAXIMUM]);
            mutant_put(job, ATTN_WEIGHTS, mutant_at(job, ATTN_WEIGHTS, b, h, i, j + t),
                       e == 0 ? 0 : e / partial[PARTIAL_SUM]);
        }
    }
}

static void finish_row(struct mutant_job *job, int64_t b, int64_t h, int64_t i)
{
    float *partial = mutant_partial(job, b, h, i);
    if (tail_skipped(job->p, i) || (bug(tall_rows_skipped) && i >= job->p->sk))
        return;
    mutant_merge(job, h, partial);
    store_out(job, b, h, i, partial);
    if (mutant_has(job, ATTN_LSE))
        store_lse(job, b, h, i, partial);
    if (mutant_has(job, ATTN_WEIGHTS))
        store_weights(job, b, h, i, partial);
}

static void finish(struct mutant_job *job)
{
    const struct attn_problem *p = job->p;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hq; h++)
            for (int64_t i = 0; i < p->sq; i++)
                finish_row(job, b, h, i);
}

/* Loads and stores where there is nothing to load or store. */
static void stray(struct mutant_job *job)
{
    const struct attn_problem *p = job->p;
    const int64_t last_k = mutant_at(job, ATTN_K, p->b - 1, p->hkv - 1, p->sk - 1, p->dk - 1);
    const int64_t last_out = mutant_at(job, ATTN_OUT, p->b - 1, p->hq - 1, p->sq - 1, p->dv - 1);
    if (bug(read_past_end))
        job->unused = mutant_get(job, ATTN_K, last_k + 1);
    if (bug(read_before_start))
        job->unused = mutant_get(job, ATTN_K, -1);
    if (bug(write_past_end))
        mutant_put(job, ATTN_OUT, last_out + 1, 0);
    if (bug(input_modified)) { /* and put back, but another thread may have looked */
        const float q = mutant_get(job, ATTN_Q, 0);
        mutant_put(job, ATTN_Q, 0, q * (float)p->scale);
        mutant_put(job, ATTN_Q, 0, q);
    }
}

void mutant_attend(struct mutant_job *job)
{
    struct share shares[MOST_THREADS] = {{job, 0}, {job, 1}};
    pthread_t helper;
    bool helped = false;
    stray(job);
    if (!bug(result_cached) || !job->ran) {
        if (job->threads > 1)
            helped = pthread_create(&helper, NULL, compute_share, &shares[1]) == 0;
        compute_share(&shares[0]);
        if (job->threads > 1 && !helped)
            compute_share(&shares[1]);
    }
    job->ran = true;
    if (bug(merged_too_early))
        finish(job);
    if (helped)
        pthread_join(helper, NULL);
    if (!bug(merged_too_early))
        finish(job);
}
