/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.h - finds the base result for each result of a new run. */
#ifndef ATTN_REPORT_PAIRS_H
#define ATTN_REPORT_PAIRS_H

#include "report/view.h"
#include "results/statistics.h"

/* What the comparison of one result says. */
enum attn_comparison {
    ATTN_SAME,    /* interval of the ratio inside the margin */
    ATTN_FASTER,  /* whole interval below 1 / (1 + margin): slower with sides swapped */
    ATTN_SLOWER,  /* whole interval above 1 + margin: a regression */
    ATTN_UNCLEAR, /* the interval is too wide for a verdict */
    ATTN_BROKE,   /* base was timed; new failed, crashed or refused the case */
    ATTN_ONLY_BASE,
    ATTN_ONLY_NEW
};

enum { ATTN_MAP_MAX = 16 };

/* What a comparison of the errors of two runs has found (run/drift.h). */
struct attn_accuracy {
    int compared, unmatched, drifted;
    const char *lines; /* one for each that drifted */
};

struct attn_compare_options {
    double margin; /* 0.03 */
    bool margin_given;
    const char *backends[2]; /* --backends A,B within one run; NULL: by backend name across runs */
    const char *map[ATTN_MAP_MAX][2]; /* --map A=B: compares A of base or new with B of the other */
    int n_map;
    double discoveries; /* share of false ones allowed among slower and faster; 0: each by itself */
    const char *anchor; /* a backend of both runs, to which times are relative; NULL: none */
    bool gate;          /* judge peaks of memory (footprint.h) and accuracy, too */
    const struct attn_accuracy *accuracy; /* with gate */
    bool cross;                           /* compares runs that are not comparable (comparable.h) */
    bool strict;                          /* ATTN_UNCLEAR gives exit code 5 */
    bool json;                            /* JSON in place of a table */
    bool markdown;                        /* the table as Markdown */
};

struct attn_pair {
    const struct attn_view_row *base, *next; /* NULL: that side has none */
    const struct attn_view_row *row;         /* one of the two: it names the case */
    const char *base_label, *next_label;     /* the backends, never NULL */
    const char *reason;                      /* why a side was not timed, or "" */
    enum attn_comparison verdict;
    bool by_turns;           /* the ratio is of turns (paired.h), not of the medians of rounds */
    struct attn_ratio ratio; /* NAN, 0, INFINITY until judged */
    double p;                /* of the ratio against the margin; adjusted for the number of results
                                where options->discoveries; NAN until judged */
};

struct attn_pairs {
    struct attn_pair *items;
    size_t count;
    struct attn_view base, next; /* what the items point into */
};

/* Pairs results by id, threads, cache and backend with its options, or by the backends that the
 * options name. A pair timed on both sides gets ATTN_SAME and is still to be judged; the others
 * have their verdict. Results timed on neither side are left out. So are backends that only measure
 * the harness. A skipped new result is ATTN_BROKE, with its reason, and so is one that was not timed
 * because its run took too long and over twice the base's time. It is ATTN_ONLY_BASE if time or
 * memory was missing, or between two backends that the options name. Returns 0, or -1 with the
 * reason. */
int attn_pairs_create(const struct attn_run_data *base, const struct attn_run_data *next,
                      const struct attn_compare_options *options, struct attn_pairs *pairs,
                      char *why, size_t size);
/* Says in one sentence why nothing was timed on both sides. If the options name a backend that the
 * run does not have, the sentence names the nearest one that it has. */
void attn_pairs_explain_none(const struct attn_pairs *pairs,
                             const struct attn_compare_options *options, char *why, size_t size);
void attn_pairs_free(struct attn_pairs *pairs);

#endif
