/* SPDX-License-Identifier: Apache-2.0 */
/* compare_put.h - what a comparison has found, and how it is written. */
#ifndef ATTN_REPORT_COMPARE_PUT_H
#define ATTN_REPORT_COMPARE_PUT_H

#include <stdio.h>

#include "report/comparable.h"
#include "report/footprint.h"
#include "report/instructions.h"
#include "report/pairs.h"

/* How many results got each verdict, and the mean of their ratios. */
struct attn_compare_tally {
    size_t of[ATTN_ONLY_NEW + 1];
    size_t rated;    /* results that have a ratio */
    size_t by_turns; /* of these, the ones whose backends took turns in one run */
    double geomean;  /* of the ratios; NAN: there are none */
};

/* All that a comparison has found. */
struct attn_compare_findings {
    struct attn_pairs pairs;
    struct attn_differences differences;
    struct attn_footprint footprint;       /* empty without the gate */
    struct attn_instructions instructions; /* likewise */
    struct attn_compare_tally tally;
    bool stored;         /* two runs, not two backends of one */
    enum attn_exit code; /* of what was found */
    enum attn_exit exit; /* of the program, which says what a run that is not whole lacks */
    char reason[768];
};

/* Writes a table, or JSON, with what the gate judged and the differences of the two runs. Returns
 * 0, or -1: no memory, or JSON that could not be written. */
int attn_compare_put(FILE *out, const struct attn_compare_findings *f,
                     const struct attn_compare_options *options);

#endif
