/* SPDX-License-Identifier: Apache-2.0 */
/* turns.h - live plans that take turns: one batch of each, in random order, again and again.
 *
 * What is timed, and the clock, are behind function pointers, so that tests can put models in their
 * place. */
#ifndef ATTN_LIVE_TURNS_H
#define ATTN_LIVE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/types.h"

enum { ATTN_CYCLES_MOST = 4096 };

/* Between two batches: a worker that has slept is given the processor at once. */
#define ATTN_PAUSE_S 2e-4

/* All inputs of a side are exchanged before its batch 0, before this one, and whenever the number
 * of its batches has doubled: copies of large inputs take longer than batches. */
enum { ATTN_EXCHANGE_CYCLE = 16 };

/* One contestant. Returns 0, or -1: it has failed. */
struct attn_side {
    int (*batch)(void *context, bool exchange, struct attn_live_sample *sample);
    void *context;
};

struct attn_turns_world {
    double (*now)(void *context);
    void (*pause)(void *context, double seconds);
    bool (*stopped)(void *context); /* is the work to end at once */
    void *context;
};

/* The times of one side, in ns of one run: one number a cycle; 0 where it had no batch. */
struct attn_side_times {
    double wall[ATTN_CYCLES_MOST], processor[ATTN_CYCLES_MOST], device[ATTN_CYCLES_MOST];
    uint64_t switches[ATTN_CYCLES_MOST]; /* involuntary, of the batch */
};

/* What is known of one side. Times are of one run, in ns. */
struct attn_side_figures {
    int64_t iterations;
    uint32_t clock; /* enum attn_clock that it asks for */
    size_t batches;
    double wall, processor, device; /* medians over its batches */
    double least;                   /* by the clock that attn_side_summarise was given */
    double wall_all, processor_all; /* sums over all batches, for the class of noise */
    uint64_t switches;              /* involuntary, in all batches */
    uint64_t bytes, huge_bytes;     /* of operands, and of these in pages of 2 MiB */
};

enum attn_noise { ATTN_NOISE_UNKNOWN, ATTN_NOISE_QUIET, ATTN_NOISE_SHARED, ATTN_NOISE_CONTENDED };

/* "unknown" "quiet" "shared" "contended" */
const char *attn_noise_name(enum attn_noise noise);

/* The class of time on the wall over processor time of one thread. */
enum attn_noise attn_noise_of(double wall, double processor);

/* "thread" "process" "wall" "device" */
const char *attn_clock_name(uint32_t clock);

/* The clock that both can be compared by. */
uint32_t attn_pair_clock(uint32_t a, uint32_t b);

/* [cycles] of one side, by this clock. */
const double *attn_side_by(const struct attn_side_times *times, uint32_t clock);

/* What a side has said before its first batch. */
void attn_side_begin(const struct attn_live_sample *first, struct attn_side_figures *figures);

/* Medians and the least of `cycles` cycles, in which the side had at least one batch. Returns 0, or
 * -1: no memory. */
int attn_side_summarise(const struct attn_side_times *times, size_t cycles, uint32_t clock,
                        struct attn_side_figures *figures);

/* One batch of each of the sides order[0..n), in random order; order[] is shuffled. There is a
 * pause before each. Adds to times[side] at `cycle` and to figures[side]. Returns 0. Or -1 with the
 * side that has failed in *failed: the others have had no turn after it. Or -1 with *failed =
 * SIZE_MAX: the work was stopped. */
int attn_turns_cycle(const struct attn_side *sides, size_t *order, size_t n, size_t cycle,
                     uint64_t *random, const struct attn_turns_world *world,
                     struct attn_side_times *times, struct attn_side_figures *figures,
                     size_t *failed);

#endif
