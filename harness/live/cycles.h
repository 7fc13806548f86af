/* SPDX-License-Identifier: Apache-2.0 */
/* cycles.h - a pair: two live plans take turns until the median of their ratio is known. */
#ifndef ATTN_LIVE_CYCLES_H
#define ATTN_LIVE_CYCLES_H

#include "live/turns.h"

/* A pair ends after so many cycles and so many seconds (which --pair-time changes). If its median
 * is not yet known to ATTN_PAIR_ERROR, it goes on for up to ATTN_PAIR_STRETCH times as long. One
 * with long runs ends with fewer cycles after ATTN_PAIR_LONG_S of them: of time by the clock of the
 * pair, because waiting for a processor tells nothing. */
enum { ATTN_CYCLES_LEAST = 60, ATTN_CYCLES_LONG = 10 };
#define ATTN_PAIR_LEAST_S 0.3
#define ATTN_PAIR_ERROR   0.005 /* standard error, of a logarithm */
#define ATTN_PAIR_STRETCH 5
#define ATTN_PAIR_LONG_S  4.0

struct attn_cycles_world {
    struct attn_turns_world turns;
    uint64_t random;       /* seeds the order */
    const uint32_t *clock; /* enum attn_clock of an earlier pair; NULL: as the sides say */
    double least_s;        /* ATTN_PAIR_LEAST_S, or what the user asks for */
};

struct attn_pair_figures {
    uint32_t clock; /* enum attn_clock that the ratio is made of */
    double ratio;   /* median over cycles of ln(B / A), by that clock; NAN: none */
    double wall_ratio, processor_ratio; /* the same by these clocks; NAN: none */
    double error;                       /* standard error of the ratio within the pair */
    size_t cycles;
    double seconds;
    enum attn_noise noise; /* unknown unless the clock is processor time */
    struct attn_side_figures sides[2];
};

/* Runs a pair to its end. first[]: what each side has said before its first batch. Returns 0, or
 * -1: a side has failed, the work was stopped, or there is no memory. */
int attn_cycles_run(const struct attn_side sides[2], const struct attn_live_sample first[2],
                    const struct attn_cycles_world *world, struct attn_pair_figures *pair);

#endif
