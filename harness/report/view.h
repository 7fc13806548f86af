/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - joins the records of a run into one row per result. Every writer of the report and the
 * comparison read it. Rows and strings point into the run's JSON, which must outlive the view. */
#ifndef ATTN_REPORT_VIEW_H
#define ATTN_REPORT_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "report/report.h"
#include "results/status.h"

struct attn_view_backend {
    char label[128];    /* name, or name:options; each set of options counts as a backend */
    const char *name;   /* as in the records */
    const json_t *info; /* its entry in machine.json, or NULL */
    bool counted;       /* false for exactness none: left out of counts, plots, comparisons */
    size_t counts[ATTN_STATUS_COUNT]; /* of distinct cases, by verdict */
    size_t cases;                     /* their sum; 0: in machine.json, but not in this run */
};

/* One result: a case on a backend, timed in one cache state or not timed. */
struct attn_view_row {
    size_t backend;               /* index into backends */
    const json_t *verify, *bench; /* the newest records of this key, or NULL; never both NULL */
    const json_t *sizes;          /* of the case, from any record that has them, or NULL */
    const char *id, *line, *name, *options, *cache, *reason, *repro;
    /* "name: line", as in a case file; cases of one line share its name. For a pack, the name of
     * the file and the first digits of its hash. Owned. */
    char *label;
    double threads; /* NAN where not recorded */
    enum attn_status status;
    bool first; /* the first row of its case and backend; count these to count cases */
    /* In ns, 1e9/s and bytes. NAN means that there is no figure; 0 is a figure. A backend that
     * computes nothing has no rate. */
    double median, lo, hi, gflops, gbs, peak;
    double share;      /* of the rate that the machine allows; see report/limit.h */
    const char *limit; /* the limit: "FMA", or the level that is read, as "L2"; or "" */
    bool marked;       /* the cost of the harness is over 1 % of the median */
};

struct attn_view {
    struct attn_view_backend *backends; /* in the order of machine.json, then of the records */
    size_t n_backends;
    struct attn_view_row *rows; /* in the order of the verify records */
    size_t n_rows;
};

/* The word in place of a missing figure: "FAIL", "n/a" (the backend refused), "budget", "memory",
 * "crash", "timeout", "oom", "error", "untimed"; "not run" for NULL. */
const char *attn_row_mark(const struct attn_view_row *row);
/* A skip because time or memory was missing, which is no refusal: its reason begins "budget" or
 * "needs". */
bool attn_row_lacks_means(const struct attn_view_row *row);

/* Uses verify and bench records and ignores other types. Returns 0, or -1 with the reason: a record
 * is no object, or has no id, backend or known status. */
int attn_view_create(const json_t *records, const json_t *machine, struct attn_view *view,
                     char *why, size_t size);
void attn_view_free(struct attn_view *view);

/* Allocates the median of each round in a bench record's samples_ns and returns their number.
 * Returns 0 and allocates nothing if there are none, or if any sample is not a positive number. */
size_t attn_view_round_medians(const json_t *bench, double **medians);

#endif
