/* SPDX-License-Identifier: Apache-2.0 */
/* calibrate.h - how often is `compare --live` right on this machine, now?
 *
 * Two kinds of comparisons, of which the answer is known, are made by the same code: a backend with
 * itself (A/A), and the backend with a share of its work done twice (planted). Both go through the
 * plugin planted/slowed.c, so that they differ by that work alone. */
#ifndef ATTN_LIVE_CALIBRATE_H
#define ATTN_LIVE_CALIBRATE_H

#include <jansson.h>
#include <stdio.h>

#include "live/compare.h"
#include "run/findings.h"

#define ATTN_PLANTED_PERMILLE 50
#define ATTN_PLANTED_SHARE    (ATTN_PLANTED_PERMILLE / 1000.0)
#define ATTN_CALIBRATE_S      120.0 /* how long, unless the user says */

/* What the rule promises: wrong verdicts, and planted slowdowns found where runs are compute-bound.
 * A rate is refused if what was seen, or worse, has a probability below ATTN_CALIBRATION_DOUBT. */
#define ATTN_CALIBRATION_WRONG 0.01
#define ATTN_CALIBRATION_FOUND 0.95
#define ATTN_CALIBRATION_DOUBT 0.05

enum attn_calibration_kind { ATTN_CALIBRATE_AA, ATTN_CALIBRATE_PLANTED, ATTN_CALIBRATE_KINDS };

/* Comparisons of one kind. */
struct attn_calibration_tally {
    size_t done, of[ATTN_PAIRED_UNCLEAR + 1]; /* with a verdict; by verdict */
    size_t cut;                               /* ended by the time given: they count for nothing */
    double seconds, longest;                  /* all of `done` together; the longest of all */
    double logs;                              /* sum of the measured ratios' logarithms */
};

enum { ATTN_CALIBRATION_COMPUTE, ATTN_CALIBRATION_DECODE, ATTN_CALIBRATION_PARTS };

/* One case. */
struct attn_calibration_part {
    const char *what;
    struct attn_calibration_tally kinds[ATTN_CALIBRATE_KINDS];
    double *off; /* deviations of pairs from the mean of their series */
    size_t n_off;
};

struct attn_calibration {
    double margin, seconds;
    struct attn_calibration_part parts[ATTN_CALIBRATION_PARTS];
    char refused[640]; /* why a case could not be compared; "": it could */
};

/* The case lines, in the order of the parts. Their heads can be shared out by ATTN_PLANTED_SHARE.
 */
extern const char *const attn_calibration_cases[ATTN_CALIBRATION_PARTS];

/* Compares for `seconds`, or one pair longer. sessions: of A/A and of planted, both with the cases.
 * Returns 0, or -1 with the reason if the harness itself failed; attn_calibration_free in both
 * cases. */
int attn_calibrate(struct attn_session sessions[ATTN_CALIBRATE_KINDS],
                   const struct attn_live_options *options, double seconds,
                   struct attn_calibration *calibration, char *why, size_t size);
void attn_calibration_free(struct attn_calibration *calibration);

/* Enters a finished comparison. Returns 0, or -1: no memory. */
int attn_calibration_enter(struct attn_calibration *calibration, size_t part,
                           enum attn_calibration_kind kind, const struct attn_paired *paired,
                           double seconds);

/* Wrong verdicts: of A/A any difference, of planted that there is none, or the other one. */
size_t attn_calibration_wrong(const struct attn_calibration_tally *tally,
                              enum attn_calibration_kind kind);

/* The smallest slowdown, a ratio above 1, that would be found now; NAN: too few pairs. */
double attn_calibration_resolves(const struct attn_calibration *calibration, size_t part);

/* Are the rates as promised? OK, or FAIL with what to do. */
struct attn_finding attn_calibration_judge(const struct attn_calibration *calibration);

void attn_calibration_print(const struct attn_calibration *calibration, FILE *out);

/* README.md lists the fields. NULL: no memory. */
json_t *attn_calibration_json(const struct attn_calibration *calibration);

#endif
