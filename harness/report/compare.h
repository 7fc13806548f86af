/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h - two runs, or two backends of one, held against each other case by case. */
#ifndef ATTN_COMPARE_H
#define ATTN_COMPARE_H

#include <stdio.h>

#include "report/report.h"
#include "results/status.h"

enum attn_verdict {
    ATTN_SAME,    /* interval of the ratio inside the margin */
    ATTN_FASTER,  /* whole interval below 1 / (1 + margin): slower, with the sides swapped */
    ATTN_SLOWER,  /* whole interval above 1 + margin: a regression */
    ATTN_UNCLEAR, /* interval too wide to say */
    ATTN_BROKE,   /* base was timed, new failed, ended badly or refused the case */
    ATTN_ONLY_BASE,
    ATTN_ONLY_NEW
};

struct attn_compare_options {
    double margin;           /* 0.03 */
    const char *backends[2]; /* --backends A,B within one run; NULL: by backend name across runs */
    const char *map[16][2];  /* --map A=B: A of base or of new against B of the other */
    int n_map;
    int strict; /* unclear counts as inconclusive */
};

/* Writes a table (or JSON) to `out` and the verdicts' exit code to *code: 4 where anything is
 * slower or broke, 5 under strict where anything is unclear, 8 where the two runs can not be
 * compared (other CPU model, threads, build), 7 where no result is in both. With 7 and 8 the output
 * says why in one sentence, which is left in (why, size) too. `next` may equal `base`. Returns 0,
 * or -1 with the reason. */
int attn_compare(const struct attn_run_data *base, const struct attn_run_data *next,
                 const struct attn_compare_options *options, int as_json, FILE *out,
                 enum attn_exit *code, char *why, size_t size);

#endif
