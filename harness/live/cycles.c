/* SPDX-License-Identifier: Apache-2.0 */
/* cycles.c - the inner loop of a comparison. */
#include "live/cycles.h"

#include <math.h>
#include <stdlib.h>

#include "host/splitmix.h"
#include "results/paired.h"
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

uint32_t attn_pair_clock(uint32_t a, uint32_t b)
{
    if (a == b)
        return a;
    const bool processor = a <= ATTN_CLOCK_PROCESS && b <= ATTN_CLOCK_PROCESS;
    return processor ? ATTN_CLOCK_PROCESS : ATTN_CLOCK_WALL;
}

/* The times of one side, in ns of one run: one number a cycle. */
struct times {
    double wall[ATTN_CYCLES_MOST], processor[ATTN_CYCLES_MOST], device[ATTN_CYCLES_MOST];
};

static const double *by_clock(const struct times *times, uint32_t clock)
{
    return clock == ATTN_CLOCK_WALL     ? times->wall
           : clock == ATTN_CLOCK_DEVICE ? times->device
                                        : times->processor;
}

/* Standard error of the median over the cycles so far, from their quartiles: a normal distribution
 * has 1.349 standard deviations between them, and its median an error of 1.2533 / sqrt(n). */
static double error_of(const struct times *times, const struct attn_pair_figures *pair)
{
    const double *a = by_clock(&times[0], pair->clock), *b = by_clock(&times[1], pair->clock);
    const size_t n = pair->cycles;
    double *logs = n > 0 ? malloc(n * sizeof *logs) : NULL;
    if (!logs)
        return 0;
    for (size_t i = 0; i < n; i++)
        logs[i] = a[i] > 0 && b[i] > 0 ? log(b[i] / a[i]) : 0;
    attn_sort_doubles(logs, n);
    const double width = attn_quantile_sorted(logs, n, 0.75) - attn_quantile_sorted(logs, n, 0.25);
    free(logs);
    return 1.2533 / 1.349 * width / sqrt((double)n);
}

/* Seconds of all batches so far, by the clock of the pair. */
static double worked(const struct attn_pair_figures *pair)
{
    double ns = 0;
    for (int s = 0; s < 2; s++)
        ns += pair->clock <= ATTN_CLOCK_PROCESS ? pair->sides[s].processor_all
                                                : pair->sides[s].wall_all;
    return 1e-9 * ns;
}

/* Is the pair over? Its error is looked at now and then. */
static bool ends(const struct times *times, double least, const struct attn_pair_figures *pair)
{
    enum { LOOK_CYCLES = 10 };
    const double most = least > ATTN_PAIR_LONG_S ? least : ATTN_PAIR_LONG_S;
    if (pair->cycles == ATTN_CYCLES_MOST ||
        (pair->cycles >= ATTN_CYCLES_LONG && worked(pair) >= most))
        return true;
    if (pair->cycles < ATTN_CYCLES_LEAST || pair->seconds < least)
        return false;
    return pair->seconds >= ATTN_PAIR_STRETCH * least ||
           (pair->cycles % LOOK_CYCLES == 0 && error_of(times, pair) <= ATTN_PAIR_ERROR);
}

static bool exchanges(size_t cycle)
{
    return cycle == 0 || (cycle >= ATTN_EXCHANGE_CYCLE && (cycle & (cycle - 1)) == 0);
}

/* One batch of one side, as the next cycle's. */
static int take_batch(const struct attn_side *side, bool exchange, size_t cycle,
                      struct times *times, struct attn_side_figures *figures)
{
    struct attn_live_sample sample;
    if (side->batch(side->context, exchange, &sample))
        return -1;
    const double runs = (double)sample.iterations;
    times->wall[cycle] = sample.wall_ns / runs;
    times->processor[cycle] = sample.processor_ns / runs;
    times->device[cycle] = sample.device_ns / runs;
    figures->wall_all += sample.wall_ns;
    figures->processor_all += sample.processor_ns;
    figures->switches += sample.switches;
    return 0;
}

static int run_cycles(const struct attn_side sides[2], const struct attn_cycles_world *world,
                      struct times *times, struct attn_pair_figures *pair)
{
    const double began = world->now(world->context);
    uint64_t random = world->random;
    while (!ends(times, world->least_s, pair)) {
        const int first = (int)(attn_splitmix(&random) >> 63);
        const bool exchange = exchanges(pair->cycles);
        for (int turn = 0; turn < 2; turn++) {
            const int s = first ^ turn;
            world->pause(world->context, ATTN_PAUSE_S);
            if (world->stopped(world->context) ||
                take_batch(&sides[s], exchange, pair->cycles, &times[s], &pair->sides[s]))
                return -1;
        }
        pair->cycles++;
        pair->seconds = world->now(world->context) - began;
    }
    return 0;
}

static void summarise(struct times *times, struct attn_pair_figures *pair)
{
    const size_t n = pair->cycles;
    pair->ratio =
        attn_paired_ratio(by_clock(&times[0], pair->clock), by_clock(&times[1], pair->clock), n);
    pair->error = error_of(times, pair);
    pair->wall_ratio = attn_paired_ratio(times[0].wall, times[1].wall, n);
    pair->processor_ratio = attn_paired_ratio(times[0].processor, times[1].processor, n);
    double wall = 0, processor = 0;
    for (int s = 0; s < 2; s++) {
        struct attn_side_figures *side = &pair->sides[s];
        const double *own = by_clock(&times[s], pair->clock);
        side->least = own[0];
        for (size_t i = 1; i < n; i++)
            side->least = own[i] < side->least ? own[i] : side->least;
        side->wall = attn_median(times[s].wall, n);
        side->processor = attn_median(times[s].processor, n);
        side->device = attn_median(times[s].device, n);
        wall += side->wall_all;
        processor += side->processor_all;
    }
    if (pair->clock <= ATTN_CLOCK_PROCESS)
        pair->noise = attn_noise_of(wall, processor);
}

int attn_cycles_run(const struct attn_side sides[2], const struct attn_live_sample first[2],
                    const struct attn_cycles_world *world, struct attn_pair_figures *pair)
{
    const uint32_t clock =
        world->clock ? *world->clock : attn_pair_clock(first[0].clock, first[1].clock);
    *pair = (struct attn_pair_figures){.clock = clock, .ratio = NAN};
    for (int s = 0; s < 2; s++) {
        pair->sides[s].iterations = first[s].iterations;
        pair->sides[s].clock = first[s].clock;
        pair->sides[s].bytes = first[s].bytes;
        pair->sides[s].huge_bytes = first[s].huge_bytes;
    }
    struct times *times = calloc(2, sizeof *times);
    const int result = times ? run_cycles(sides, world, times, pair) : -1;
    if (result == 0)
        summarise(times, pair);
    free(times);
    return result;
}
