/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - loops over many simulated data sets, for test_figures.py: a call for each of them would
 * take longer than the work. */
#include "results/paired.h"

void batch_paired(const double *rows, size_t n_rows, double truth, double margin, size_t *missed,
                  size_t verdicts[5], double *pairs);

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
