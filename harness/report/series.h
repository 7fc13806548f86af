/* SPDX-License-Identifier: Apache-2.0 */
/* series.h - sweeps found in the results: families of cases that share everything but one size. */
#ifndef ATTN_REPORT_SERIES_H
#define ATTN_REPORT_SERIES_H

#include "report/view.h"

enum attn_sweep { ATTN_SWEEP_S, ATTN_SWEEP_H, ATTN_SWEEP_D, ATTN_SWEEP_COUNT };

/* More would not be legible side by side: the sweeps of cases/ have half as many, and all backends
 * here that have figures in one type are a dozen. */
#define ATTN_SERIES_POINTS   16
#define ATTN_SERIES_BACKENDS 16
/* Two sizes show a difference, not a course. */
#define ATTN_SERIES_LEAST 3

struct attn_series {
    enum attn_sweep axis;
    bool causal;
    size_t n_points, n_backends;
    size_t left_out; /* points beyond ATTN_SERIES_POINTS and backends beyond their limit */
    double x[ATTN_SERIES_POINTS];          /* the swept size, rising */
    size_t backends[ATTN_SERIES_BACKENDS]; /* indices into the view, its order */
    /* The result of each backend at each size; NULL: not run. */
    const struct attn_view_row *cells[ATTN_SERIES_BACKENDS][ATTN_SERIES_POINTS];
    char constants[256]; /* "b=1, h=8, d=64, f32, causal, 2 threads" */
};

/* The most telling sweep over `axis` of scaled-dot-product attention in f32, hot cache: of all
 * families that share everything but that size and have figures at ATTN_SERIES_LEAST sizes or more,
 * the one with the most work (FLOPs over its sizes), then the most sizes, then the plainest case
 * line. `causal` asks for mask=causal, else for no mask. S: sq = sk, both swept; H: hq, with hq/hkv
 * constant; D: dq = dk = dv. Returns 0, or -1 where there is no such family or no memory. */
int attn_series_find(const struct attn_view *view, enum attn_sweep axis, bool causal,
                     struct attn_series *series);

const char *attn_sweep_title(enum attn_sweep axis); /* "sequence length S" */
const char *attn_sweep_key(enum attn_sweep axis);   /* "S", "heads", "d" */

#endif
