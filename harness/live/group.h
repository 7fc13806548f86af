/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - any number of live plans take turns, and each is compared with one of them, the anchor.
 *
 * Sides differ in speed by orders of magnitude. So each has as many batches as fit into its time,
 * spread evenly over the cycles, and the anchor has one in every cycle: each batch has one of the
 * anchor beside it. */
#ifndef ATTN_LIVE_GROUP_H
#define ATTN_LIVE_GROUP_H

#include "live/turns.h"

/* A batch that takes longer than this times the low quantile of its side over all rounds was
 * disturbed: other work had part of the core (a processor may be half of one), or its clock was
 * slow. That slows kinds of code by different factors, so ratios change with it. (Measured: the
 * rounds of a case in which all cycles are undisturbed agree within 1 %.) */
#define ATTN_DISTURBED 1.05

/* A side that is undisturbed in less than this share of the cycles in which the other one is varies
 * by itself, and none of its batches counts as disturbed. */
#define ATTN_OWN_SHARE 0.25

/* The fewest undisturbed cycles that the ratio of a round is made of. A round with fewer, though it
 * had more cycles, was disturbed, and its ratio is made of all. */
enum { ATTN_UNDISTURBED_LEAST = 2 };

struct attn_group_plan {
    double seconds;  /* of batches of each side */
    size_t least;    /* batches of a side, at least */
    double long_s;   /* a side has one batch if its runs are longer than this */
    uint64_t random; /* seeds the order */
};

/* One batch: ns of a run by the clock that the side asks for, and on the wall. */
struct attn_group_batch {
    double own, wall;
    uint64_t switches;   /* involuntary */
    double side, anchor; /* by the clock of ratios: this, and the anchor's batch of the same cycle;
                            NAN if the anchor has failed */
};

/* One side of a round. */
struct attn_group_side {
    bool failed; /* its batch has failed; the others went on. No figure below is known */
    struct attn_side_figures figures; /* `least` is by the clock that the side asks for */
    double low;                       /* low quantile of its batches (results/figures.h), ns of a
                                         run, by the same clock */
    uint32_t ratio_clock;             /* enum attn_clock that ratios are made of */
    struct attn_group_batch *batches; /* [figures.batches] in order; NULL: none. Owned by the
                                         caller */
    /* From attn_group_ratios: */
    double ratio; /* median of ln(its time / the anchor's) over the undisturbed cycles; 0 for the
                     anchor, NAN if there is none */
    size_t cycles, undisturbed; /* with a batch of both; of these, undisturbed */
    bool disturbed;
};

/* Runs n sides to the end of the plan. first[]: what each has said before its first batch. Returns
 * 0, also if sides have failed; or -1: the work was stopped, or there is no memory; then out[] owns
 * nothing. */
int attn_group_run(const struct attn_side *sides, const struct attn_live_sample *first, size_t n,
                   size_t anchor, const struct attn_group_plan *plan,
                   const struct attn_turns_world *world, struct attn_group_side *out);

/* The ratios of n rounds of one side; sides[] are these rounds, with one anchor and one
 * ratio_clock. What is disturbed is told by all rounds together. Returns 0, or -1: no memory. */
int attn_group_ratios(struct attn_group_side *const *sides, size_t n);

#endif
