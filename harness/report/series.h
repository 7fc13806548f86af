/* SPDX-License-Identifier: Apache-2.0 */
/* series.h - finds sweeps in the results: families of cases that differ in one size only. */
#ifndef ATTN_REPORT_SERIES_H
#define ATTN_REPORT_SERIES_H

#include "report/view.h"

enum attn_sweep { ATTN_SWEEP_S, ATTN_SWEEP_H, ATTN_SWEEP_D, ATTN_SWEEP_COUNT };

/* More would be illegible side by side. The sweeps of cases/ have half as many sizes, and about a
 * dozen backends have figures in one type. */
#define ATTN_SERIES_POINTS   16
#define ATTN_SERIES_BACKENDS 16
/* Two sizes show a difference and no course. */
#define ATTN_SERIES_LEAST 3

/* Which sweep: the size that varies, mask=causal or none, and forward or backward pass. */
struct attn_series_kind {
    enum attn_sweep axis;
    bool causal, backward;
};
#define ATTN_SERIES_KINDS (4 * (size_t)ATTN_SWEEP_COUNT)

/* Kind 0 to ATTN_SERIES_KINDS - 1, in the order of a report: forward passes first. */
struct attn_series_kind attn_series_kind(size_t number);

struct attn_series {
    struct attn_series_kind kind;
    size_t n_points, n_backends;
    size_t left_out; /* points beyond ATTN_SERIES_POINTS, backends beyond ATTN_SERIES_BACKENDS */
    double x[ATTN_SERIES_POINTS];          /* the swept size, ascending */
    size_t backends[ATTN_SERIES_BACKENDS]; /* indices into the view, in its order */
    /* The result of each backend at each size; NULL: not run. */
    const struct attn_view_row *cells[ATTN_SERIES_BACKENDS][ATTN_SERIES_POINTS];
    char constants[256]; /* "b=1, h=8, d=64, f32, causal, 2 threads" */
    /* Of a series of single cases: their names in place of sizes. Empty: it is a sweep. */
    char names[ATTN_SERIES_POINTS][48];
};

/* Finds the sweep over kind.axis of scaled-dot-product attention in f32 with hot caches;
 * `backward`: of its gradients, which are in no other series. Candidates are the families that
 * differ only in that size and have figures at ATTN_SERIES_LEAST sizes or more. The one with the
 * most work (FLOPs over its sizes) wins, then the one with the most sizes, then the one with the
 * shortest case line. `causal`: only mask=causal; else only cases without a mask. S sweeps sq = sk;
 * H sweeps hq with constant hq/hkv; D sweeps dq = dk = dv. Returns 0, or -1: there is no such
 * family, or no memory. */
int attn_series_find(const struct attn_view *view, struct attn_series_kind kind,
                     struct attn_series *series);

/* A backend's name in a legend: "mine (slope 2.01)", the slope of log y over log x where there are
 * ATTN_SERIES_LEAST points or more. */
void attn_series_legend(const char *label, const double *x, const double *y, size_t n, char *name,
                        size_t size);

/* The words of a case line that are in none of `count` words, each after a blank, into `out`;
 * returns their number. A word ends at '='. */
size_t attn_series_words(const char *line, const char *const *words, size_t count, char *out,
                         size_t size);

/* A case line without what follows S: what cases share that differ in S = sq = sk alone. Owned by
 * the caller; NULL: no memory. */
char *attn_series_of_lengths(const char *line);

/* "throughput_S_causal" of KIND "throughput"; "throughput_S_causal_backward". And "Throughput over
 * sequence length S", "Throughput of the backward pass over ..." of "Throughput". */
void attn_series_name(const struct attn_series *series, const char *kind, char *name, size_t size);
void attn_series_title(const struct attn_series *series, const char *what, char *title,
                       size_t size);

/* The place of a backend in a list that has room for ATTN_SERIES_BACKENDS, added if it is new;
 * *count: there is no room. */
size_t attn_series_place(size_t *backends, size_t *count, size_t backend);

const char *attn_sweep_title(enum attn_sweep axis); /* "sequence length S" */
const char *attn_sweep_key(enum attn_sweep axis);   /* "S", "heads", "d" */

#endif
