/* SPDX-License-Identifier: Apache-2.0 */
/* cycles.h - two live plans that take turns: one batch each, in random order, again and again.
 *
 * What is timed, and the clock, are behind function pointers, so that tests can put models in their
 * place. */
#ifndef ATTN_LIVE_CYCLES_H
#define ATTN_LIVE_CYCLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/types.h"

/* A pair ends after so many cycles and so many seconds (which --pair-time changes). If its median
 * is not yet known to ATTN_PAIR_ERROR, it goes on for up to ATTN_PAIR_STRETCH times as long. One
 * with long runs ends with fewer cycles after ATTN_PAIR_LONG_S of them: of time by the clock of the
 * pair, because waiting for a processor tells nothing. */
enum { ATTN_CYCLES_LEAST = 60, ATTN_CYCLES_LONG = 10, ATTN_CYCLES_MOST = 4096 };
#define ATTN_PAIR_LEAST_S 0.3
#define ATTN_PAIR_ERROR   0.005 /* standard error, of a logarithm */
#define ATTN_PAIR_STRETCH 5
#define ATTN_PAIR_LONG_S  4.0

/* Between two batches: a worker that has slept is given the processor at once. */
#define ATTN_PAUSE_S 2e-4

/* All inputs are exchanged before cycle 0, before this one, and whenever the number of cycles has
 * doubled: copies of large inputs take longer than batches. */
enum { ATTN_EXCHANGE_CYCLE = 16 };

/* One contestant. Returns 0, or -1: it has failed, and the cycles end. */
struct attn_side {
    int (*batch)(void *context, bool exchange, struct attn_live_sample *sample);
    void *context;
};

struct attn_cycles_world {
    double (*now)(void *context);
    void (*pause)(void *context, double seconds);
    bool (*stopped)(void *context); /* is the work to end at once */
    void *context;
    uint64_t random;       /* seeds the order */
    const uint32_t *clock; /* enum attn_clock of an earlier pair; NULL: as the sides say */
    double least_s;        /* ATTN_PAIR_LEAST_S, or what the user asks for */
};

enum attn_noise { ATTN_NOISE_UNKNOWN, ATTN_NOISE_QUIET, ATTN_NOISE_SHARED, ATTN_NOISE_CONTENDED };

/* "unknown" "quiet" "shared" "contended" */
const char *attn_noise_name(enum attn_noise noise);

/* The class of time on the wall over processor time of one thread. */
enum attn_noise attn_noise_of(double wall, double processor);

/* What is known of one contestant of a pair. Times are of one run, in ns. */
struct attn_side_figures {
    int64_t iterations;
    uint32_t clock;                 /* enum attn_clock that it asks for */
    double wall, processor, device; /* medians over the cycles */
    double least;                   /* by the clock of the pair */
    double wall_all, processor_all; /* sums over all batches, for the class of noise */
    uint64_t switches;              /* involuntary, in all batches */
    uint64_t bytes, huge_bytes;     /* of operands, and of these in pages of 2 MiB */
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

/* The clock that both can be compared by. */
uint32_t attn_pair_clock(uint32_t a, uint32_t b);

/* Runs a pair to its end. first[]: what each side has said before its first batch. Returns 0, or
 * -1: a side has failed, the work was stopped, or there is no memory. */
int attn_cycles_run(const struct attn_side sides[2], const struct attn_live_sample first[2],
                    const struct attn_cycles_world *world, struct attn_pair_figures *pair);

#endif
