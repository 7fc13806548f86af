/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - who has a turn in which cycle, and the figures of each side. */
#include "live/group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/figures.h"
#include "results/paired.h"
#include "results/statistics.h"

/* What a group needs while it runs. */
struct group {
    size_t *order;  /* [n] sides of a cycle */
    size_t *wanted; /* [n] batches of each side */
    struct attn_side_times *times;
    double *sorted; /* [ATTN_CYCLES_MOST] */
};

static void group_free(struct group *g)
{
    free(g->order);
    free(g->wanted);
    free(g->times);
    free(g->sorted);
}

static int group_create(struct group *g, size_t n)
{
    *g = (struct group){.order = calloc(n, sizeof *g->order),
                        .wanted = calloc(n, sizeof *g->wanted),
                        .times = calloc(n, sizeof *g->times),
                        .sorted = calloc(ATTN_CYCLES_MOST, sizeof *g->sorted)};
    if (g->order && g->wanted && g->times && g->sorted)
        return 0;
    group_free(g);
    return -1;
}

/* The batches that fit into a side's time. */
static size_t batches_of(const struct attn_live_sample *first, const struct attn_group_plan *plan)
{
    const double run = 1e-9 * first->wall_ns, batch = run * (double)first->iterations;
    if (run > plan->long_s)
        return 1;
    const double fit = batch > 0 ? plan->seconds / batch : 0;
    const size_t least = plan->least > 0 ? plan->least : 1;
    return fit >= ATTN_CYCLES_MOST ? ATTN_CYCLES_MOST : fit > (double)least ? (size_t)fit : least;
}

/* Has a side its turn in this cycle? `wanted` turns spread over `cycles`. */
static bool takes_part(size_t wanted, size_t cycle, size_t cycles)
{
    return (cycle + 1) * wanted / cycles > cycle * wanted / cycles;
}

static int run_cycles(const struct attn_side *sides, size_t n, size_t anchor, size_t cycles,
                      uint64_t random, const struct attn_turns_world *world, struct group *g,
                      struct attn_side_figures *figures, struct attn_group_side *out)
{
    for (size_t cycle = 0; cycle < cycles; cycle++) {
        size_t count = 0, failed;
        for (size_t s = 0; s < n; s++)
            if (!out[s].failed && (s == anchor || takes_part(g->wanted[s], cycle, cycles)))
                g->order[count++] = s;
        if (attn_turns_cycle(sides, g->order, count, cycle, &random, world, g->times, figures,
                             &failed) == 0)
            continue;
        if (failed == SIZE_MAX)
            return -1;
        out[failed].failed = true;
    }
    return 0;
}

/* Sorts the values. */
static double low_of(double *values, size_t n)
{
    attn_sort_doubles(values, n);
    return n > 0 ? attn_quantile_sorted(values, n, ATTN_LOW_QUANTILE) : NAN;
}

/* The batches of a side, each with that of the anchor in the same cycle. */
static int put_batches(const struct group *g, size_t anchor, size_t s, size_t cycles, bool paired,
                       struct attn_group_side *side)
{
    const struct attn_side_times *times = &g->times[s];
    const double *own = attn_side_by(times, side->figures.clock);
    const double *of = attn_side_by(times, side->ratio_clock);
    const double *to = attn_side_by(&g->times[anchor], side->ratio_clock);
    size_t n = 0;
    side->batches = calloc(side->figures.batches + 1, sizeof *side->batches);
    for (size_t i = 0; i < cycles && side->batches; i++)
        if (times->wall[i] > 0 && n < side->figures.batches)
            side->batches[n++] =
                (struct attn_group_batch){own[i], times->wall[i], times->switches[i], of[i],
                                          paired && to[i] > 0 ? to[i] : (double)NAN};
    return side->batches ? 0 : -1;
}

static int summarise(struct group *g, size_t n, size_t anchor, size_t cycles,
                     struct attn_group_side *out)
{
    for (size_t s = 0; s < n; s++) {
        struct attn_group_side *side = &out[s];
        const uint32_t clock = side->figures.clock;
        if (side->failed)
            continue;
        side->ratio_clock = attn_pair_clock(clock, out[anchor].figures.clock);
        if (attn_side_summarise(&g->times[s], cycles, clock, &side->figures) ||
            put_batches(g, anchor, s, cycles, !out[anchor].failed, side))
            return -1;
        for (size_t i = 0; i < side->figures.batches; i++)
            g->sorted[i] = side->batches[i].own;
        side->low = low_of(g->sorted, side->figures.batches);
    }
    return 0;
}

int attn_group_run(const struct attn_side *sides, const struct attn_live_sample *first, size_t n,
                   size_t anchor, const struct attn_group_plan *plan,
                   const struct attn_turns_world *world, struct attn_group_side *out)
{
    struct group g;
    size_t cycles = 1;
    struct attn_side_figures *figures = calloc(n, sizeof *figures);
    if (!figures || group_create(&g, n)) {
        free(figures);
        return -1;
    }
    for (size_t s = 0; s < n; s++) {
        out[s] = (struct attn_group_side){.low = NAN, .ratio = NAN};
        attn_side_begin(&first[s], &figures[s]);
        g.wanted[s] = batches_of(&first[s], plan);
        cycles = g.wanted[s] > cycles ? g.wanted[s] : cycles;
    }
    int result = run_cycles(sides, n, anchor, cycles, plan->random, world, &g, figures, out);
    for (size_t s = 0; s < n; s++)
        out[s].figures = figures[s];
    if (result == 0)
        result = summarise(&g, n, anchor, cycles, out);
    for (size_t s = 0; s < n && result; s++) {
        free(out[s].batches);
        out[s].batches = NULL;
    }
    group_free(&g);
    free(figures);
    return result;
}

/* The pairs of all rounds, one after the other. */
struct pairs {
    double *side, *anchor;
    size_t n;
};

/* The longest batches that are not disturbed. */
static double undisturbed_most(const double *values, size_t n, double *sorted)
{
    memcpy(sorted, values, n * sizeof *sorted);
    return ATTN_DISTURBED * low_of(sorted, n);
}

static void put_pairs(const struct attn_group_side *side, struct pairs *pairs)
{
    for (size_t i = 0; i < side->figures.batches && side->batches; i++)
        if (isfinite(side->batches[i].anchor)) {
            pairs->side[pairs->n] = side->batches[i].side;
            pairs->anchor[pairs->n++] = side->batches[i].anchor;
        }
}

/* The pairs of one round; `all` has room for them twice. */
static void put_ratio(struct attn_group_side *side, double side_most, double anchor_most,
                      struct pairs *all)
{
    all->n = 0;
    put_pairs(side, all);
    const struct pairs calm = {all->side + all->n, all->anchor + all->n, 0};
    side->cycles = all->n;
    side->undisturbed = 0;
    for (size_t i = 0; i < all->n; i++)
        if (all->side[i] <= side_most && all->anchor[i] <= anchor_most) {
            calm.side[side->undisturbed] = all->side[i];
            calm.anchor[side->undisturbed++] = all->anchor[i];
        }
    side->disturbed = side->undisturbed < ATTN_UNDISTURBED_LEAST && side->undisturbed < all->n;
    side->ratio = side->disturbed ? attn_paired_ratio(all->anchor, all->side, all->n)
                                  : attn_paired_ratio(calm.anchor, calm.side, side->undisturbed);
}

/* Does it vary by itself? Whoever is slow in most of the cycles in which the other is not was not
 * disturbed: that is how fast it is. Then `own` has no limit. */
static double own_most(const double *own, double most, const double *other, double other_most,
                       size_t n)
{
    size_t calm = 0, both = 0;
    for (size_t i = 0; i < n; i++) {
        calm += other[i] <= other_most;
        both += other[i] <= other_most && own[i] <= most;
    }
    return (double)both < ATTN_OWN_SHARE * (double)calm ? INFINITY : most;
}

int attn_group_ratios(struct attn_group_side *const *sides, size_t n)
{
    size_t most = 1;
    for (size_t r = 0; r < n; r++)
        most += sides[r]->figures.batches;
    double *room = calloc(4 * most, sizeof *room);
    struct pairs pairs = {room, room ? room + 2 * most : NULL, 0};
    if (!room)
        return -1;
    for (size_t r = 0; r < n; r++)
        put_pairs(sides[r], &pairs);
    const double side = undisturbed_most(pairs.side, pairs.n, room + most);
    const double anchor = undisturbed_most(pairs.anchor, pairs.n, room + most);
    const double side_most = own_most(pairs.side, side, pairs.anchor, anchor, pairs.n);
    const double anchor_most = own_most(pairs.anchor, anchor, pairs.side, side, pairs.n);
    for (size_t r = 0; r < n; r++)
        put_ratio(sides[r], side_most, anchor_most, &pairs);
    free(room);
    return 0;
}
