/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - who has a turn in which cycle, and the figures of each side. */
#include "live/group.h"

#include <math.h>
#include <stdlib.h>

#include "results/figures.h"
#include "results/paired.h"
#include "results/statistics.h"

/* What a group needs while it runs. */
struct group {
    size_t *order;  /* [n] sides of a cycle */
    size_t *wanted; /* [n] batches of each side */
    struct attn_side_times *times;
    double *a, *b; /* [ATTN_CYCLES_MOST] */
};

static void group_free(struct group *g)
{
    free(g->order);
    free(g->wanted);
    free(g->times);
    free(g->a);
    free(g->b);
}

static int group_create(struct group *g, size_t n)
{
    *g = (struct group){.order = calloc(n, sizeof *g->order),
                        .wanted = calloc(n, sizeof *g->wanted),
                        .times = calloc(n, sizeof *g->times),
                        .a = calloc(ATTN_CYCLES_MOST, sizeof *g->a),
                        .b = calloc(ATTN_CYCLES_MOST, sizeof *g->b)};
    if (g->order && g->wanted && g->times && g->a && g->b)
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

/* The low quantile of a side's batches. `sorted` has room for all cycles. */
static double low_of(const struct attn_side_times *times, uint32_t clock, size_t cycles,
                     double *sorted)
{
    const double *own = attn_side_by(times, clock);
    size_t n = 0;
    for (size_t i = 0; i < cycles; i++)
        if (times->wall[i] > 0)
            sorted[n++] = own[i];
    attn_sort_doubles(sorted, n);
    return n > 0 ? attn_quantile_sorted(sorted, n, ATTN_LOW_QUANTILE) : NAN;
}

/* Gathers the cycles in which both had a batch, the undisturbed ones first. */
static void put_ratio(struct group *g, size_t anchor, size_t side, size_t cycles,
                      struct attn_group_side *out)
{
    const struct attn_side_times *to = &g->times[anchor], *of = &g->times[side];
    const double *a = attn_side_by(to, out->ratio_clock), *b = attn_side_by(of, out->ratio_clock);
    const double a_most = ATTN_DISTURBED * low_of(to, out->ratio_clock, cycles, g->a);
    const double b_most = ATTN_DISTURBED * low_of(of, out->ratio_clock, cycles, g->a);
    for (size_t i = 0; i < cycles; i++) {
        if (!(to->wall[i] > 0 && of->wall[i] > 0))
            continue;
        size_t at = out->cycles++;
        if (a[i] <= a_most && b[i] <= b_most) {
            g->a[at] = g->a[out->undisturbed];
            g->b[at] = g->b[out->undisturbed];
            at = out->undisturbed++;
        }
        g->a[at] = a[i];
        g->b[at] = b[i];
    }
    const bool calm = out->undisturbed >= ATTN_UNDISTURBED_LEAST;
    if (out->cycles > 0)
        out->ratio = attn_paired_ratio(g->a, g->b, calm ? out->undisturbed : out->cycles);
}

static int keep_batches(const struct attn_side_times *times, size_t cycles,
                        struct attn_group_side *side)
{
    const double *own = attn_side_by(times, side->figures.clock);
    size_t n = 0;
    side->batches = calloc(side->figures.batches + 1, sizeof *side->batches);
    for (size_t i = 0; i < cycles && side->batches; i++)
        if (times->wall[i] > 0 && n < side->figures.batches)
            side->batches[n++] =
                (struct attn_group_batch){own[i], times->wall[i], times->switches[i]};
    return side->batches ? 0 : -1;
}

static int summarise(struct group *g, size_t n, size_t anchor, size_t cycles, bool keep,
                     struct attn_group_side *out)
{
    for (size_t s = 0; s < n; s++) {
        struct attn_group_side *side = &out[s];
        const uint32_t clock = side->figures.clock;
        if (side->failed)
            continue;
        if (attn_side_summarise(&g->times[s], cycles, clock, &side->figures) ||
            (keep && keep_batches(&g->times[s], cycles, side)))
            return -1;
        side->low = low_of(&g->times[s], clock, cycles, g->a);
        side->ratio_clock = attn_pair_clock(clock, out[anchor].figures.clock);
        if (!out[anchor].failed)
            put_ratio(g, anchor, s, cycles, side);
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
        result = summarise(&g, n, anchor, cycles, plan->keep, out);
    for (size_t s = 0; s < n && result; s++) {
        free(out[s].batches);
        out[s].batches = NULL;
    }
    group_free(&g);
    free(figures);
    return result;
}
