/* SPDX-License-Identifier: Apache-2.0 */
/* paired.h - decides from paired measurements whether B is slower than A.
 *
 * A pair is one fresh worker of A and one of B, timed in alternating cycles. It gives one number:
 * the median over its cycles of ln(time of B / time of A). The pairs are the units of replication.
 *
 * The rule looks at the pairs after 6, 8, .. 16 of them. With the interval [lo, hi] of the look and
 * the margin m, all in logarithms:
 *   slower   lo > m                  measured again with fresh pairs before it counts
 *   faster   hi < -m
 *   same     lo >= -m and hi <= m
 *   go on    anything else, below 16 pairs
 *   unclear  anything else, at 16 pairs
 * The intervals of all looks together hold the true value with 99 %, so the choice of when to stop
 * costs no error. */
#ifndef ATTN_PAIRED_H
#define ATTN_PAIRED_H

#include <stddef.h>

enum { ATTN_PAIRS_LEAST = 6, ATTN_PAIRS_STEP = 2, ATTN_PAIRS_MOST = 16 };

#define ATTN_PAIRED_MARGIN 0.029558802241544403 /* ln 1.03 */

enum attn_paired_verdict {
    ATTN_PAIRED_GO_ON, /* measure another pair */
    ATTN_PAIRED_SAME,
    ATTN_PAIRED_FASTER,
    ATTN_PAIRED_SLOWER,
    ATTN_PAIRED_UNCLEAR
};

/* "go on" "same" "faster" "slower" "unclear" */
const char *attn_paired_name(enum attn_paired_verdict verdict);

/* What the pairs say. Logarithms: exp() of each is a ratio B over A, above 1 is slower. */
struct attn_paired_look {
    enum attn_paired_verdict verdict;
    double estimate; /* trimmed mean of the pairs */
    double lo, hi;   /* 99 %, true at whichever look one stops; -INFINITY, INFINITY below 6 pairs */
    /* An effect of this size would have been found, with its confirmation, in 95 % (normal pairs;
     * 90 % if their tails are heavy). INFINITY below 6 pairs. */
    double least;
    size_t pairs;
};

/* One look at n ratios, in any order. GO_ON where n is below 6 or is no look (odd, below 16). Above
 * 16 only the first 16 count. A ratio that is not finite gives UNCLEAR with an infinite interval.
 * margin >= 0. */
struct attn_paired_look attn_paired_judge(const double *ratios, size_t n, double margin);

/* The whole sequence with its confirmation. Use:
 *     attn_paired_begin(&p, ATTN_PAIRED_MARGIN);
 *     while (p.verdict == ATTN_PAIRED_GO_ON)
 *         attn_paired_add(&p, ratio of a fresh pair);
 * If the first series ends in `slower`, a second one of fresh pairs begins: p.again tells. The
 * verdict is `slower` only if both series say so; else it is `unclear`. */
struct attn_paired {
    double margin;
    enum attn_paired_verdict verdict;
    int again;                         /* 1: the second series has begun */
    size_t n[2];                       /* pairs in each series */
    double ratios[2][ATTN_PAIRS_MOST]; /* for the record */
    struct attn_paired_look look[2];   /* the newest look of each series */
};
void attn_paired_begin(struct attn_paired *p, double margin);
enum attn_paired_verdict attn_paired_add(struct attn_paired *p, double ratio);
/* What to print at the end: the look of the first series, with the final verdict. After a
 * confirmation the estimate and the interval are those of the second series: the first was chosen
 * for being large. */
struct attn_paired_look attn_paired_result(const struct attn_paired *p);

/* The logarithms ln(b[i] / a[i]), sorted, of the cycles in which both times are finite and above 0.
 * `logs` has room for all cycles. Returns how many there are. */
size_t attn_paired_logs(const double *a, const double *b, size_t cycles, double *logs);

/* The number of one pair: the median over cycles of ln(b[i] / a[i]). Cycles in which a time is not
 * finite and above 0 are left out. NAN if these are more than a tenth, without cycles, or without
 * memory. */
double attn_paired_ratio(const double *a, const double *b, size_t cycles);

#endif
