/* SPDX-License-Identifier: Apache-2.0 */
/* growth.h - how the peak memory of a backend grows with the sequence length. */
#ifndef ATTN_REPORT_GROWTH_H
#define ATTN_REPORT_GROWTH_H

#include "report/view.h"

/* Below it all lengths are short, and a peak is that of a worker, not of an algorithm. */
#define ATTN_GROWTH_LONGEST 1024

enum { ATTN_GROWTH_CASES = 160 };

/* A backend on cases that differ in S = sq = sk alone, at ATTN_SERIES_LEAST lengths or more. */
struct attn_growth {
    const struct attn_view_row *longest;
    char cases[ATTN_GROWTH_CASES]; /* their name in a case file, and their line without S */
    double from, peak;             /* the shortest S; bytes of the longest */
    double order; /* slope of log peak over log S; a peak below ATTN_PEAK_FLOOR counts as that */
};

/* All of a run whose longest S is ATTN_GROWTH_LONGEST or more, by case and by order; *count of
 * them, to be freed. Only right numbers count. NULL: no memory. */
struct attn_growth *attn_growth_find(const struct attn_view *view, size_t *count);

#endif
