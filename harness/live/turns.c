/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c - one batch of each side, and what is kept of it. */
#include "live/turns.h"

#include <stdlib.h>

#include "host/splitmix.h"
#include "results/statistics.h"

/* Time on the wall over processor time. Below the first, others hardly came in between; above the
 * second, they had about a fifth of the time or more. */
static const double quiet_most = 1.02, shared_most = 1.25;

const char *attn_noise_name(enum attn_noise noise)
{
    static const char *const names[] = {"unknown", "quiet", "shared", "contended"};
    return names[noise];
}

enum attn_noise attn_noise_of(double wall, double processor)
{
    if (!(wall > 0) || !(processor > 0))
        return ATTN_NOISE_UNKNOWN;
    const double ratio = wall / processor;
    return ratio <= quiet_most    ? ATTN_NOISE_QUIET
           : ratio <= shared_most ? ATTN_NOISE_SHARED
                                  : ATTN_NOISE_CONTENDED;
}

const char *attn_clock_name(uint32_t clock)
{
    static const char *const names[] = {"thread", "process", "wall", "device"};
    return clock < sizeof names / sizeof names[0] ? names[clock] : "?";
}

uint32_t attn_pair_clock(uint32_t a, uint32_t b)
{
    if (a == b)
        return a;
    const bool processor = a <= ATTN_CLOCK_PROCESS && b <= ATTN_CLOCK_PROCESS;
    return processor ? ATTN_CLOCK_PROCESS : ATTN_CLOCK_WALL;
}

const double *attn_side_by(const struct attn_side_times *times, uint32_t clock)
{
    return clock == ATTN_CLOCK_WALL     ? times->wall
           : clock == ATTN_CLOCK_DEVICE ? times->device
                                        : times->processor;
}

void attn_side_begin(const struct attn_live_sample *first, struct attn_side_figures *figures)
{
    *figures = (struct attn_side_figures){.iterations = first->iterations,
                                          .clock = first->clock,
                                          .bytes = first->bytes,
                                          .huge_bytes = first->huge_bytes};
}

/* The median of the cycles with a batch; 0 without any. `sorted` has room for all cycles. */
static double median_of(const double *values, const double *wall, size_t cycles, double *sorted)
{
    size_t n = 0;
    for (size_t i = 0; i < cycles; i++)
        if (wall[i] > 0)
            sorted[n++] = values[i];
    return n > 0 ? attn_median(sorted, n) : 0;
}

int attn_side_summarise(const struct attn_side_times *times, size_t cycles, uint32_t clock,
                        struct attn_side_figures *figures)
{
    const double *own = attn_side_by(times, clock);
    double *sorted = malloc((cycles ? cycles : 1) * sizeof *sorted);
    if (!sorted)
        return -1;
    figures->least = 0;
    for (size_t i = 0; i < cycles; i++)
        if (times->wall[i] > 0 && own[i] > 0 && (figures->least == 0 || own[i] < figures->least))
            figures->least = own[i];
    figures->wall = median_of(times->wall, times->wall, cycles, sorted);
    figures->processor = median_of(times->processor, times->wall, cycles, sorted);
    figures->device = median_of(times->device, times->wall, cycles, sorted);
    free(sorted);
    return 0;
}

static void shuffle(size_t *order, size_t n, uint64_t *random)
{
    for (size_t i = n; i > 1; i--) {
        const size_t k = (size_t)((attn_splitmix(random) >> 32) * i >> 32), kept = order[i - 1];
        order[i - 1] = order[k];
        order[k] = kept;
    }
}

static bool exchanges(size_t batch)
{
    return batch == 0 || (batch >= ATTN_EXCHANGE_CYCLE && (batch & (batch - 1)) == 0);
}

static int take_batch(const struct attn_side *side, size_t cycle, struct attn_side_times *times,
                      struct attn_side_figures *figures)
{
    struct attn_live_sample sample;
    if (side->batch(side->context, exchanges(figures->batches), &sample))
        return -1;
    const double runs = (double)sample.iterations;
    times->wall[cycle] = sample.wall_ns / runs;
    times->processor[cycle] = sample.processor_ns / runs;
    times->device[cycle] = sample.device_ns / runs;
    times->switches[cycle] = sample.switches;
    figures->wall_all += sample.wall_ns;
    figures->processor_all += sample.processor_ns;
    figures->switches += sample.switches;
    figures->batches++;
    return 0;
}

int attn_turns_cycle(const struct attn_side *sides, size_t *order, size_t n, size_t cycle,
                     uint64_t *random, const struct attn_turns_world *world,
                     struct attn_side_times *times, struct attn_side_figures *figures,
                     size_t *failed)
{
    shuffle(order, n, random);
    for (size_t turn = 0; turn < n; turn++) {
        const size_t s = order[turn];
        *failed = SIZE_MAX;
        world->pause(world->context, ATTN_PAUSE_S);
        if (world->stopped(world->context))
            return -1;
        if (take_batch(&sides[s], cycle, &times[s], &figures[s])) {
            *failed = s;
            return -1;
        }
    }
    return 0;
}
