/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - what the parts of a report hand to each other: results, pictures, heat-maps. */
#ifndef ATTN_REPORT_TYPES_H
#define ATTN_REPORT_TYPES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "report/report.h"
#include "results/status.h"

struct attn_view_backend {
    char label[576];    /* name, or name:options; each set of options counts as a backend */
    const char *name;   /* as in the records */
    const json_t *info; /* its entry in machine.json, or NULL */
    bool counted;       /* false for exactness none: left out of counts, plots, comparisons */
    size_t counts[ATTN_STATUS_COUNT]; /* of distinct cases, by verdict */
    size_t cases;                     /* their sum; 0: in machine.json, but not in this run */
    double slack; /* of its cases, the median of the declared bound over that of the best
                   * arithmetic of the type; NAN if there is none */
};

/* One result: a case on a backend, timed in one cache state or not timed. */
struct attn_view_row {
    size_t backend;               /* index into backends */
    const json_t *verify, *bench; /* the newest records of this key, or NULL; never both NULL */
    const json_t *sizes;          /* of the case, from any record that has them, or NULL */
    const char *id, *line, *name, *options, *cache, *reason, *repro;
    const char *held; /* the line; of a pack the line of what it holds */
    /* "name: line", as in a case file; cases of one line share its name. For a pack, the name of
     * the file and the first digits of its hash. Owned. */
    char *label;
    double threads; /* NAN where not recorded */
    enum attn_status status;
    bool first; /* the first row of its case and backend; count these to count cases */
    /* In ns, 1e9/s and bytes. NAN means that there is no figure; 0 is a figure. A backend that
     * computes nothing has no rate. `lo` is the end of the interval, but not below the best sample
     * nor below the time that the machine allows. An interval that says nothing (view.c) is left
     * out. */
    double median, lo, hi, gflops, gbs, peak;
    size_t rounds;          /* of the timing; 0: not known */
    double least, greatest; /* medians of rounds; NAN: not known */
    double share;           /* of the rate that the machine allows; see report/limit.h */
    const char *limit;      /* the limit: "FMA", or the level that is read, as "L2"; or "" */
    bool marked;            /* the cost of the harness is over 1 % of the median */
    const char *untimed;    /* why it was verified and not timed, where the run says so; or "" */
};

struct attn_view {
    struct attn_view_backend *backends; /* in the order of machine.json, then of the records */
    size_t n_backends;
    struct attn_view_row *rows; /* in the order of the verify records */
    size_t n_rows;
};

struct attn_plot {
    char name[48]; /* plots/NAME.svg, .png, .dat, .def.gp under the report */
    char title[192];
    char caption[1280]; /* the constants, and the meaning of the marks */
    bool folded;        /* of interest to few: the page folds it away, report.md links to it */
    bool drawn;
};

#define ATTN_HEATMAP_SIDES  8
#define ATTN_HEATMAP_TOKENS 16 /* queries and keys of a picture; more are illegible */
#define ATTN_HEATMAP_HEADS  16

/* Compares the weights of one backend with those of the reference. */
struct attn_heatmap_side {
    const struct attn_view_row *row;
    double largest; /* |backend - reference| over all cells finite in both */
    double shown;   /* the same over the cells that are drawn */
    size_t wrong;   /* cells where one is not finite and the other differs */
    char note[256]; /* both in words, and the place of the second */
};

/* plots/NAME_0 shows the weights of the reference, plots/NAME_s those of side s-1, as .svg and
 * .png. They are drawn from NAME.dat and NAME.def.gp. */
struct attn_heatmap {
    char name[48];
    const struct attn_view_row *row; /* names the case */
    char source[256], shown[128];    /* of the pack; the part of it that is drawn */
    bool labelled;                   /* with tokens; else with numbers */
    bool drawn;
    size_t n_sides;
    struct attn_heatmap_side sides[ATTN_HEATMAP_SIDES];
};

#endif
