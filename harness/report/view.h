/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - the records of a run, joined into one row a result: what every writer of the report and
 * the comparison read. Rows and strings point into the run's JSON, which must outlive the view. */
#ifndef ATTN_REPORT_VIEW_H
#define ATTN_REPORT_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "report/report.h"
#include "results/status.h"

struct attn_view_backend {
    char label[128];    /* name, or name:options: one set of options is one backend here */
    const char *name;   /* as in the records */
    const json_t *info; /* its entry in machine.json, or NULL */
    bool counted;       /* false for exactness none: in no count of verdicts, plot or comparison */
    size_t counts[ATTN_STATUS_COUNT]; /* of distinct cases, by verdict */
    size_t cases;                     /* their sum; 0: listed by the machine, but not in this run */
};

/* One result: a case on a backend, timed in one cache state or not timed at all. */
struct attn_view_row {
    size_t backend;               /* index into backends */
    const json_t *verify, *bench; /* the newest records of this key, or NULL; never both NULL */
    const json_t *sizes;          /* of the case, from any record that has them, or NULL */
    const char *id, *line, *name, *options, *cache, *reason, *repro;
    /* "name: line", as in a case file: cases of one line share its name. Of a pack, its file's name
     * and the first digits of its hash. Owned. */
    char *label;
    double threads; /* NAN where not recorded */
    enum attn_status status;
    bool first; /* the first row of its case and backend: count these for cases */
    /* Nanoseconds, per second, bytes (0 is a figure). NAN where there is none, as in all figures
     * here. A backend that computes nothing has no rate. */
    double median, lo, hi, gflops, gbs, peak;
    double share;      /* of the rate that the machine allows (report/limit.h) */
    const char *limit; /* what that is: "FMA", or the level that memory is read from, "L2"; or "" */
    bool marked;       /* the harness's own cost is over 1 % of the median */
};

struct attn_view {
    struct attn_view_backend *backends; /* order of machine.json, then of the records */
    size_t n_backends;
    struct attn_view_row *rows; /* file order of the verifications */
    size_t n_rows;
};

/* What stands in the place of a figure that is not there: "FAIL", "n/a" (refused by the backend),
 * "budget", "memory", "crash", "timeout", "oom", "error", "untimed"; "not run" for NULL. */
const char *attn_row_mark(const struct attn_view_row *row);
/* A skip for want of time or memory, which is no refusal: its reason begins "budget" or "needs". */
bool attn_row_lacks_means(const struct attn_view_row *row);

/* Returns 0, or -1 with the reason: a record that is no object, or without id, backend or a known
 * status (records of other types than verify and bench are passed over). */
int attn_view_create(const json_t *records, const json_t *machine, struct attn_view *view,
                     char *why, size_t size);
void attn_view_free(struct attn_view *view);

/* The finite positive median of each round in a bench record's samples_ns, newly allocated. Returns
 * their number; 0, with nothing allocated, where there are none or any sample is no positive
 * number. */
size_t attn_view_round_medians(const json_t *bench, double **medians);

#endif
