/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - loops over many simulated data sets, for test_figures.py: a call for each of them would
 * take longer than the work. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "results/figures.h"
#include "results/paired.h"
#include "results/record.h"
#include "results/statistics.h"

void batch_paired(const double *rows, size_t n_rows, double truth, double margin, size_t *missed,
                  size_t verdicts[5], double *pairs);
void batch_quantile(double *rows, size_t n_rows, size_t n, double q, double truth, size_t out[2]);
void batch_low(const double *rows, size_t n_rows, size_t rounds, size_t n, double truth,
               size_t out[2]);
int attn_low_summarise(const double *const *samples, const size_t *counts, size_t rounds,
                       struct attn_interval *out);

/* There are no records here. */
void attn_note_refusal(void)
{
}

/* Each row has 2 * 16 ratios. Counts the rows of which any look of the first series misses `truth`,
 * and the verdicts of the whole sequence; *pairs is the mean number of pairs. */
void batch_paired(const double *rows, size_t n_rows, double truth, double margin, size_t *missed,
                  size_t verdicts[5], double *pairs)
{
    *missed = 0;
    *pairs = 0;
    for (size_t r = 0; r < n_rows; r++, rows += 2 * ATTN_PAIRS_MOST) {
        int misses = 0;
        for (size_t n = ATTN_PAIRS_LEAST; n <= ATTN_PAIRS_MOST; n += ATTN_PAIRS_STEP) {
            const struct attn_paired_look look = attn_paired_judge(rows, n, margin);
            misses |= look.lo > truth || look.hi < truth;
        }
        *missed += misses ? 1 : 0;
        struct attn_paired p;
        attn_paired_begin(&p, margin);
        while (p.verdict == ATTN_PAIRED_GO_ON)
            attn_paired_add(&p, rows[p.n[0] + p.n[1]]);
        verdicts[p.verdict]++;
        *pairs += (double)(p.n[0] + p.n[1]) / (double)n_rows;
    }
}

static void count(const struct attn_interval *interval, double truth, size_t out[2])
{
    out[0] += interval->lo > truth;
    out[1] += interval->hi < truth;
}

/* How many intervals of the q-quantile of n values lie above the truth, and below it. Sorts. */
void batch_quantile(double *rows, size_t n_rows, size_t n, double q, double truth, size_t out[2])
{
    for (size_t r = 0; r < n_rows; r++, rows += n) {
        attn_sort_doubles(rows, n);
        const struct attn_interval interval = attn_quantile_interval(rows, n, q);
        count(&interval, truth, out);
    }
}

/* The low quantile of a timing in rounds: samples[r][0..count[r]), rounds without samples ignored.
 * attn_rounds_summarise of each round's low quantile. Returns 0, or -1: no samples, or no memory.
 */
int attn_low_summarise(const double *const *samples, const size_t *counts, size_t rounds,
                       struct attn_interval *out)
{
    size_t most = 0, used = 0;
    for (size_t r = 0; r < rounds; r++) {
        most = counts[r] > most ? counts[r] : most;
        used += counts[r] > 0;
    }
    if (used == 0 || most > SIZE_MAX / sizeof(double) - rounds)
        return -1;
    double *lows = malloc((used + most) * sizeof *lows);
    if (!lows)
        return -1;
    double *sorted = lows + used;
    size_t n = 0;
    for (size_t r = 0; r < rounds; r++) {
        if (counts[r] == 0)
            continue;
        memcpy(sorted, samples[r], counts[r] * sizeof *sorted);
        attn_sort_doubles(sorted, counts[r]);
        lows[n++] = attn_quantile_sorted(sorted, counts[r], ATTN_LOW_QUANTILE);
    }
    attn_rounds_summarise(lows, n, out);
    free(lows);
    return 0;
}

/* The same of low quantiles of rounds with n samples each. */
void batch_low(const double *rows, size_t n_rows, size_t rounds, size_t n, double truth,
               size_t out[2])
{
    const double *samples[64];
    size_t counts[64];
    for (size_t r = 0; r < n_rows; r++) {
        for (size_t i = 0; i < rounds; i++, rows += n) {
            samples[i] = rows;
            counts[i] = n;
        }
        struct attn_interval interval;
        if (attn_low_summarise(samples, counts, rounds, &interval) != 0)
            abort();
        count(&interval, truth, out);
    }
}
