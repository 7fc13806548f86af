/* SPDX-License-Identifier: Apache-2.0 */
/* cycles.c - when a pair ends, and what it says. */
#include "live/cycles.h"

#include <math.h>
#include <stdlib.h>

#include "results/paired.h"
#include "results/statistics.h"

/* Standard error of the median over the cycles so far, from their quartiles: a normal distribution
 * has 1.349 standard deviations between them, and its median an error of 1.2533 / sqrt(n). */
static double error_of(const struct attn_side_times *times, const struct attn_pair_figures *pair)
{
    double *logs = pair->cycles > 0 ? malloc(pair->cycles * sizeof *logs) : NULL;
    if (!logs)
        return 0;
    const size_t n = attn_paired_logs(attn_side_by(&times[0], pair->clock),
                                      attn_side_by(&times[1], pair->clock), pair->cycles, logs);
    double error = 0;
    if (n > 0) {
        const double low = attn_quantile_sorted(logs, n, 0.25),
                     high = attn_quantile_sorted(logs, n, 0.75);
        error = 1.2533 / 1.349 * (high - low) / sqrt((double)n);
    }
    free(logs);
    return error;
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
static bool ends(const struct attn_side_times *times, double least,
                 const struct attn_pair_figures *pair)
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

static int run_cycles(const struct attn_side sides[2], const struct attn_cycles_world *world,
                      struct attn_side_times *times, struct attn_pair_figures *pair)
{
    const struct attn_turns_world *turns = &world->turns;
    const double began = turns->now(turns->context);
    uint64_t random = world->random;
    size_t order[2] = {0, 1}, failed;
    while (!ends(times, world->least_s, pair)) {
        if (attn_turns_cycle(sides, order, 2, pair->cycles, &random, turns, times, pair->sides,
                             &failed))
            return -1;
        pair->cycles++;
        pair->seconds = turns->now(turns->context) - began;
    }
    return 0;
}

static int summarise(const struct attn_side_times *times, struct attn_pair_figures *pair)
{
    const size_t n = pair->cycles;
    pair->ratio = attn_paired_ratio(attn_side_by(&times[0], pair->clock),
                                    attn_side_by(&times[1], pair->clock), n);
    pair->error = error_of(times, pair);
    pair->wall_ratio = attn_paired_ratio(times[0].wall, times[1].wall, n);
    pair->processor_ratio = attn_paired_ratio(times[0].processor, times[1].processor, n);
    double wall = 0, processor = 0;
    for (int s = 0; s < 2; s++) {
        if (attn_side_summarise(&times[s], n, pair->clock, &pair->sides[s]))
            return -1;
        wall += pair->sides[s].wall_all;
        processor += pair->sides[s].processor_all;
    }
    if (pair->clock <= ATTN_CLOCK_PROCESS)
        pair->noise = attn_noise_of(wall, processor);
    return 0;
}

int attn_cycles_run(const struct attn_side sides[2], const struct attn_live_sample first[2],
                    const struct attn_cycles_world *world, struct attn_pair_figures *pair)
{
    const uint32_t clock =
        world->clock ? *world->clock : attn_pair_clock(first[0].clock, first[1].clock);
    *pair = (struct attn_pair_figures){.clock = clock, .ratio = NAN};
    for (int s = 0; s < 2; s++)
        attn_side_begin(&first[s], &pair->sides[s]);
    struct attn_side_times *times = calloc(2, sizeof *times);
    int result = times ? run_cycles(sides, world, times, pair) : -1;
    if (result == 0)
        result = summarise(times, pair);
    free(times);
    return result;
}
