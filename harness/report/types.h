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

struct attn_plot {
    char name[48]; /* plots/NAME.svg, .png, .dat, .def.gp under the report */
    char title[192];
    char caption[704]; /* what is constant, and what the marks mean */
    bool drawn;
};

#define ATTN_HEATMAP_SIDES  8
#define ATTN_HEATMAP_TOKENS 16 /* queries and keys that a picture shows; more can not be read */
#define ATTN_HEATMAP_HEADS  16

/* One backend's weights against the reference's. */
struct attn_heatmap_side {
    const struct attn_view_row *row;
    double largest; /* |backend - reference| over all cells that are finite in both */
    double shown;   /* the same over those that are drawn */
    size_t wrong;   /* cells where one of the two is not finite, and the other not the same */
    char note[256]; /* the two in words, and where the latter is */
};

/* Pictures plots/NAME_0 of the reference's weights and plots/NAME_s of side s-1, as .svg and .png,
 * drawn from NAME.dat and NAME.def.gp. */
struct attn_heatmap {
    char name[48];
    const struct attn_view_row *row; /* names the case */
    char source[256], shown[128];    /* of the pack; which part of it the pictures show */
    bool labelled;                   /* with tokens, not numbers */
    bool drawn;
    size_t n_sides;
    struct attn_heatmap_side sides[ATTN_HEATMAP_SIDES];
};

#endif
