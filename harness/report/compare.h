/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h - compares two runs, or two backends of one run, case by case. */
#ifndef ATTN_COMPARE_H
#define ATTN_COMPARE_H

#include <stdio.h>

#include "report/report.h"
#include "results/status.h"

enum attn_verdict {
    ATTN_SAME,    /* interval of the ratio inside the margin */
    ATTN_FASTER,  /* whole interval below 1 / (1 + margin): slower with sides swapped */
    ATTN_SLOWER,  /* whole interval above 1 + margin: a regression */
    ATTN_UNCLEAR, /* the interval is too wide for a verdict */
    ATTN_BROKE,   /* base was timed; new failed, crashed or refused the case */
    ATTN_ONLY_BASE,
    ATTN_ONLY_NEW
};

struct attn_compare_options {
    double margin;           /* 0.03 */
    const char *backends[2]; /* --backends A,B within one run; NULL: by backend name across runs */
    const char *map[16][2];  /* --map A=B: compares A of base or new with B of the other */
    int n_map;
    int strict; /* ATTN_UNCLEAR gives exit code 5 */
};

/* Writes a table (or JSON) to `out` and the exit code to *code: 4 if anything is slower or broke, 5
 * if `strict` is set and anything is unclear, 8 if the runs cannot be compared (another CPU model,
 * number of threads or build), 7 if no result is in both. For 7 and 8 the output gives the reason
 * in one sentence, and so does (why, size). `next` may equal `base`. Returns 0, or -1 with the
 * reason.
 */
int attn_compare(const struct attn_run_data *base, const struct attn_run_data *next,
                 const struct attn_compare_options *options, int as_json, FILE *out,
                 enum attn_exit *code, char *why, size_t size);

#endif
