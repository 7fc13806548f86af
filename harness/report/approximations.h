/* SPDX-License-Identifier: Apache-2.0 */
/* approximations.h - operators that approximate softmax attention: their distance from it, and
 * their time and memory beside those of exact attention of the same sizes. */
#ifndef ATTN_REPORT_APPROXIMATIONS_H
#define ATTN_REPORT_APPROXIMATIONS_H

#include "report/view.h"

/* A case of such an operator. */
struct attn_approximation {
    char variant[128];   /* "linformer landmarks=256": operator, and words that are no size */
    char input[128];     /* "smooth", "normal"; of a pack its name up to the first dot */
    double s;            /* keys */
    const json_t *error; /* field `approximation` of a verify record */
    /* The fastest timed result with right numbers, and the fastest of exact attention with the same
     * sizes, type, threads and causal mask; NULL: none. */
    const struct attn_view_row *row, *exact;
    double ratio; /* time of exact attention over its own; NAN */
};

/* The cases of one variant and input. */
struct attn_approximation_family {
    const struct attn_approximation *cases; /* ascending in s */
    size_t count;
    double order;     /* slope of log peak memory over log s; NAN: fewer than ATTN_SERIES_LEAST */
    double crossover; /* the least s from which on it is faster than exact attention, at all sizes
                         that were timed; INFINITY: at none; NAN: nothing to compare */
};

struct attn_approximations {
    struct attn_approximation *cases; /* by input, variant and s */
    size_t n_cases;
    struct attn_approximation_family *families; /* that with the longest case first */
    size_t n_families;
};

/* Have two results the same sizes, type, threads and causal mask? */
bool attn_approximation_sizes(const struct attn_view_row *x, const struct attn_view_row *y);

/* Is a result's time one of these: hot, with right numbers, of a backend that computes? */
bool attn_approximation_times(const struct attn_view *view, const struct attn_view_row *row);

/* Returns 0, or -1: no memory. */
int attn_approximations_create(const struct attn_view *view, struct attn_approximations *out);
void attn_approximations_free(struct attn_approximations *approximations);

#endif
