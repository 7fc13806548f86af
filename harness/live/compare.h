/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h - is backend B slower than backend A on this case, now, on this machine?
 *
 * The session has two contestants: A and B. Both are verified first. Then pairs are measured until
 * the rule of results/paired.h decides. In each pair both have fresh workers on the same
 * processors; the results of its timed runs are judged as those of a bench. */
#ifndef ATTN_LIVE_COMPARE_H
#define ATTN_LIVE_COMPARE_H

#include <jansson.h>
#include <stdio.h>

#include "host/confine.h"
#include "live/cycles.h"
#include "live/processors.h"
#include "results/paired.h"
#include "run/session.h"

struct attn_live_pair {
    struct attn_pair_figures figures;
    uint32_t n_processors, processors[ATTN_CLAIM_MAX];
    bool alone;   /* no other attnbench has claimed these processors */
    double steal; /* share of their time that the host of the virtual machine took away */
    double load;  /* runnable threads of the machine, mean of a minute, at the end; -1: unknown */
};

struct attn_live_result {
    const struct attn_case *c;
    char id[ATTN_CASE_ID_LEN + 1];
    const struct attn_contestant *sides[2]; /* A, B */
    bool compared;                          /* a verdict was reached; else `reason` says why not */
    bool out_of_time;                       /* unclear because the budget is spent */
    char reason[640];
    struct attn_paired paired;
    struct attn_live_pair pairs[2 * ATTN_PAIRS_MOST]; /* in the order of their measurement */
    size_t n_pairs;
    double seconds; /* of all pairs */
};

struct attn_live_options {
    double margin;                /* a ratio: 0.03 */
    double pair_s;                /* least time of a pair: ATTN_PAIR_LEAST_S */
    enum attn_confine confine[2]; /* of the workers of A and B, if the second is not AUTO */
};

/* Compares the two contestants of the session on a case. Verdicts on numbers become records of the
 * session. Returns 0, or -1 with the reason if the harness itself failed. */
int attn_live_compare(struct attn_session *session, const struct attn_case *c,
                      const struct attn_live_options *options, struct attn_live_result *result,
                      char *why, size_t size);

/* The exit code of one result: regression, inconclusive, or ok. What was not compared gives ok: the
 * session's own code says what went wrong. */
enum attn_exit attn_live_exit(const struct attn_live_result *result);

/* A table: its head, and a line for each result. */
void attn_live_print_head(const struct attn_session *session, FILE *out);
void attn_live_print(const struct attn_live_result *result, FILE *out);

/* Everything that is known, as an object; NULL: no memory. README.md lists the fields. */
json_t *attn_live_json(const struct attn_live_result *result);

/* "avx2:opt=1": a contestant as -b names it. */
const char *attn_live_name(const struct attn_contestant *contestant, char *text, size_t size);

#endif
