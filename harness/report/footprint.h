/* SPDX-License-Identifier: Apache-2.0 */
/* footprint.h - whether results need more memory than in an earlier run. */
#ifndef ATTN_REPORT_FOOTPRINT_H
#define ATTN_REPORT_FOOTPRINT_H

#include <stdio.h>

#include "report/pairs.h"

/* A peak may grow by this factor, and by this many bytes: a page more or less of an allocator is no
 * growth. */
#define ATTN_PEAK_FACTOR 1.25
#define ATTN_PEAK_FLOOR  262144

/* The exponent of a peak over S may grow by this much. */
#define ATTN_ORDER_MARGIN 0.3

struct attn_footprint {
    size_t compared, grew;  /* results with a peak on both sides */
    size_t orders, steeper; /* sweeps over S with ATTN_SERIES_LEAST sizes or more on both sides */
    json_t *list; /* {kind, backend, case, base, new} of each that grew: bytes, or exponents */
};

/* Compares the measured peaks of paired results, one for each case and backend, and the orders that
 * fit them over S = sq = sk: the slope of log peak over log S, with peaks below ATTN_PEAK_FLOOR
 * taken as that. Returns 0, or -1: no memory. */
int attn_footprint_judge(const struct attn_pairs *pairs, struct attn_footprint *out);

/* The slope of log peak over log S; `s` ascends. Peaks below ATTN_PEAK_FLOOR become that. NAN:
 * fewer than ATTN_SERIES_LEAST lengths. */
double attn_footprint_order(const double *s, double *peaks, size_t n);

/* One line for the counts, one for each that grew. */
void attn_footprint_put(const struct attn_footprint *footprint, FILE *out);
void attn_footprint_free(struct attn_footprint *footprint);

#endif
