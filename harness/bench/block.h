/* SPDX-License-Identifier: Apache-2.0 */
/* block.h - the cases that are timed together. */
#ifndef ATTN_BENCH_BLOCK_H
#define ATTN_BENCH_BLOCK_H

#include "bench/paired_record.h"
#include "run/entry.h"
#include "run/progress.h"
#include "run/roof.h"
#include "run/seat.h"
#include "run/variants.h"

/* Each round of a block starts every backend again, which takes PyTorch seconds. */
enum { ATTN_BLOCK_CASES = 64 };

/* So few small cases take no time that others would miss, though there is a budget. */
enum { ATTN_BLOCK_FEW_CASES = 8 };

/* A run longer than this has few samples in a round, and is not timed cold: it evicts its own first
 * operands. (Measured: cold over hot is 0.96 to 1.02 from 10 ms on.) */
#define ATTN_LONG_RUN_S 0.01

/* A budget is spent on the cases class by class. */
enum attn_block_class {
    ATTN_BLOCK_PLAIN, /* exact attention of random inputs, forward or backward; or no budget */
    ATTN_BLOCK_OTHER,
    ATTN_BLOCK_SMALL /* whose time is mostly that of a call */
};

struct attn_block {
    size_t first, count; /* of the session's cases */
    enum attn_block_class class;
    struct attn_progress *progress;
    struct attn_instance *instances[ATTN_BLOCK_CASES];
    struct attn_judge *judges[ATTN_BLOCK_CASES];
    struct attn_variants variants[ATTN_BLOCK_CASES]; /* made by attn_block_variants */
    struct attn_entry *entries;                      /* [count][backends] */
    struct attn_paired_rounds *paired; /* [count][backends]; NULL: there were no such rounds */
    size_t anchors[ATTN_BLOCK_CASES];  /* 1 + a backend of the roster; 0: not chosen yet */
    double round_s;                    /* seconds of one round of rounds.c */
};

/* Case i of the block on backend b of the roster. */
struct attn_entry *attn_block_entry(const struct attn_block *block, size_t backends, size_t i,
                                    size_t b);

/* The inputs of timings of case i, which has an instance. */
struct attn_variants *attn_block_variants(const struct attn_session *session,
                                          struct attn_block *block, size_t i);

/* Is the time of its runs mostly that of a call? */
bool attn_block_is_small(const struct attn_case *c);

/* Puts the cases into the order in which a budget is spent on them: by class, less work before
 * more. Returns 0, or -1: no memory. */
int attn_block_order(struct attn_case_list *cases);

/* The cases from `first` on that form a block. */
void attn_block_begin(const struct attn_session *session, size_t first, struct attn_block *block);
void attn_block_free(struct attn_block *block, size_t backends);

/* The functions below return 0, or -1 with the reason if the harness itself failed. */

/* Verifies the block and marks what passed for timing. A backend that computes nothing is timed
 * only on the first case: its cost does not depend on the case. */
int attn_block_verify(struct attn_session *session, struct attn_block *block,
                      struct attn_seat *seats, char *why, size_t size);

/* A timing that went wrong is a verdict of its own, and ends the timing of this entry. */
int attn_block_failed(struct attn_session *session, struct attn_entry *entry,
                      enum attn_status status, const char *reason, char *why, size_t size);

/* A case that was verified is not timed, or no more; the record says why. Returns 0, or -1 with the
 * reason. */
int attn_block_untimed(struct attn_session *session, struct attn_entry *entry, const char *reason,
                       char *why, size_t size);

/* Seconds kept for the verification of the small cases after a block. */
double attn_block_reserve(const struct attn_session *session, const struct attn_block *block);

/* The time at which all must end that begins before the next small cases: what is left is for
 * these, to be verified. INFINITY: there is no budget. */
double attn_block_end(const struct attn_session *session, const struct attn_block *block);

/* The time at which the rounds of a block should end. Cases have shares of what is left until then,
 * so that rounds are given up before cases, down to one. */
double attn_block_until(const struct attn_session *session, const struct attn_block *block);

/* After turns: rounds that are still owed, of the cases for which there is time until
 * `until`. */
int attn_block_spare(struct attn_session *session, struct attn_block *block, double until,
                     char *why, size_t size);

/* All rounds; fewer, but one, if they would end after `until`. Only as many cases begin as `pace`
 * allows: seconds that a round took for each case so far, 0: not known. */
int attn_block_rounds(struct attn_session *session, struct attn_block *block, double until,
                      double pace, char *why, size_t size);

/* Peak memory, and instructions if they are asked for, in fresh workers. Peaks for which there is
 * no time until `until` are not measured; backends that load much come last. */
int attn_block_measure(struct attn_session *session, struct attn_block *block, double until,
                       char *why, size_t size);

/* All rounds of turns (paired.c); fewer if they would end after `until`. If there is no time for
 * enough of them, some cases have none. */
int attn_block_paired(struct attn_session *session, struct attn_block *block, double until,
                      char *why, size_t size);

/* Suspects, and the records that complete the cases. *harness_ns: the harness's own cost, from this
 * block or an earlier one. */
int attn_block_finish(struct attn_session *session, struct attn_block *block,
                      struct attn_roof *roof, double *harness_ns, char *why, size_t size);

#endif
