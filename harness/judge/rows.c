/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - chooses the rows that a verdict is based on. */
#include "judge/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/operands.h"
#include "reference/philox.h"

/* Tiled kernels go wrong next to multiples of this, one before and one after. */
enum { EDGE = 16 };
/* Of so many units in a row, the tile of a usual kernel, at least one is taken. */
enum { TILE = 64 };
/* The cost of a row without its keys, as a share of the cost of all keys. */
static const double least_share = 0.01;
enum { MAX_ROWS = 1 << 22 };
/* What groups cost besides their units may be so many times the budget: units of one group alone
 * say nothing of an index of heads. */
static const double group_share = 16;
enum { LEAST_GROUPS = 2 };

struct row_set {
    int64_t *index;
    int64_t count, capacity;
};

static int row_add(struct row_set *set, int64_t row)
{
    if (set->count == set->capacity) {
        int64_t capacity = set->capacity ? set->capacity * 2 : 256;
        int64_t *grown = realloc(set->index, (size_t)capacity * sizeof *grown);
        if (!grown)
            return -1;
        set->index = grown;
        set->capacity = capacity;
    }
    set->index[set->count++] = row;
    return 0;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void sort_unique(struct row_set *set)
{
    qsort(set->index, (size_t)set->count, sizeof *set->index, ascending);
    int64_t kept = 0;
    for (int64_t r = 0; r < set->count; r++)
        if (r == 0 || set->index[r] != set->index[kept - 1])
            set->index[kept++] = set->index[r];
    set->count = kept;
}

/* Does a unit cost less if keys are masked? It does if its last index is that of a query. */
static bool sees_keys(const struct ref_op *op, int output)
{
    const char *unit = op->outputs[output].unit;
    return (op->traits & REF_SOFTMAX) && *unit && unit[strlen(unit) - 1] == 'i';
}

/* The part of the keys that the rows of a problem go through on average: len, causal and window cut
 * the rest off. Estimated from some rows of head 0, because it only makes a sample larger. */
static double share_of_keys(const struct attn_problem *p)
{
    const int64_t step = p->sq > 1024 ? p->sq / 1024 : 1;
    struct ref_operands operands;
    double keys = 0, rows = 0;
    ref_operands_init(&operands, p);
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = step / 2; i < p->sq; i += step, rows++) {
            struct ref_sight sight;
            struct ref_run run;
            ref_sight_of(&operands, b, 0, i, &sight);
            for (int64_t from = 0; ref_sight_next(&sight, from, &run); from = run.end)
                keys += (double)ref_run_count(&run);
        }
    return p->sk > 0 ? fmax(keys / rows / (double)p->sk, least_share) : 1;
}

/* Keys that query i of (b, head 0) may look at. Estimated, because it only ranks rows. */
static int64_t keys_about(const struct attn_problem *p, int64_t b, int64_t i)
{
    int64_t step = p->sk > 64 ? p->sk / 64 : 1, n = 0;
    for (int64_t j = 0; j < p->sk; j += step)
        n += ref_allowed(p, b, 0, i, j);
    return n;
}

static int add_extremes(const struct attn_problem *p, struct row_set *set, int64_t group, int64_t b)
{
    int64_t most = -1, fewest = INT64_MAX, at_most = 0, at_fewest = 0;
    int64_t step = p->sq > 128 ? p->sq / 128 : 1;
    for (int64_t i = 0; i < p->sq; i += step) {
        int64_t n = keys_about(p, b, i);
        if (n > most)
            most = n, at_most = i;
        if (n < fewest)
            fewest = n, at_fewest = i;
    }
    return row_add(set, group * p->sq + at_most) || row_add(set, group * p->sq + at_fewest) ? -1
                                                                                            : 0;
}

/* The first and the last row of a global token in a group, and the row before and after each. */
static int add_global(const struct attn_problem *p, struct row_set *set, int64_t group, int64_t b)
{
    struct ref_operands operands;
    int64_t first = 0, last = p->sq - 1;
    ref_operands_init(&operands, p);
    while (first < p->sq && !ref_is_global(&operands, b, first))
        first++;
    while (last > first && !ref_is_global(&operands, b, last))
        last--;
    for (int64_t near = -1; near <= 1 && first < p->sq; near++)
        for (int n = 0; n < 2; n++) {
            const int64_t i = (n ? last : first) + near;
            if (i >= 0 && i < p->sq && row_add(set, group * p->sq + i))
                return -1;
        }
    return 0;
}

/* An output whose units are sampled. */
struct sampled {
    const struct attn_problem *problem;
    const struct ref_output *output;
    struct ref_shape shape;
    bool sees_keys;
    int64_t total, last, groups; /* units; the extent of their last index; all others together */
    int64_t used, first;         /* groups of which there are any, from this one on */
    int64_t wanted;
    uint64_t seed;
    uint32_t draws;
};

/* A random number in 0 .. count-1. */
static int64_t below(struct sampled *s, int64_t count)
{
    const uint32_t counter[4] = {s->draws++, (uint32_t)(s->seed >> 32), 0, 0};
    const uint32_t key[2] = {0x726f7773u, (uint32_t)s->seed};
    uint32_t word[4];
    attn_philox4x32(counter, key, word);
    return (int64_t)(((uint64_t)word[0] << 31 ^ word[1]) % (uint64_t)count);
}

/* Group n of those that are used: all, or some in even steps. */
static int64_t group_at(const struct sampled *s, int64_t n)
{
    return s->used == s->groups ? n : (s->first + n * s->groups / s->used) % s->groups;
}

/* Of every group the first and the last unit, rows at global tokens, and the rows with the most and
 * the fewest keys. */
static int add_groups(const struct sampled *s, struct row_set *set)
{
    for (int64_t n = 0; n < s->used; n++) {
        const int64_t g = group_at(s, n);
        const int64_t b = ref_unit_index(s->output, &s->shape, g * s->last, 'b');
        if (row_add(set, g * s->last) || row_add(set, (g + 1) * s->last - 1))
            return -1;
        if (s->sees_keys && attn_tensor_find(s->problem, ATTN_GLOBAL) &&
            add_global(s->problem, set, g, b < 0 ? 0 : b))
            return -1;
        if (s->sees_keys && set->count < s->wanted &&
            add_extremes(s->problem, set, g, b < 0 ? 0 : b))
            return -1;
    }
    return 0;
}

/* A random unit among [from, end) of a group; every other one is next to an edge, if one is there.
 */
static int add_one(struct sampled *s, struct row_set *set, int64_t group, int64_t from, int64_t end)
{
    int64_t unit = from + below(s, end - from);
    if (below(s, 2) == 0) {
        const int64_t edge = (unit + EDGE / 2) / EDGE * EDGE + below(s, 3) - 1;
        unit = edge >= from && edge < end ? edge : unit;
    }
    return row_add(set, group * s->last + unit);
}

/* One unit of every tile of every group. If there are more of these than wanted, the tiles are cut
 * into as many runs, and the groups take turns. */
static int add_tiles(struct sampled *s, struct row_set *set)
{
    const int64_t tiles = (s->last + TILE - 1) / TILE, room = s->wanted - set->count;
    const int64_t all = tiles * s->used, count = room < all ? room : all;
    const int64_t first = below(s, s->used);
    for (int64_t n = 0; n < count; n++) {
        const int64_t from = n * tiles / count, end = (n + 1) * tiles / count;
        const int64_t tile = end > from ? from + below(s, end - from) : from;
        const int64_t unit = tile * TILE, left = s->last - unit;
        if (add_one(s, set, group_at(s, (first + n) % s->used), unit,
                    unit + (left < TILE ? left : TILE)))
            return -1;
    }
    sort_unique(set);
    return 0;
}

static int add_random(struct sampled *s, struct row_set *set)
{
    for (int pass = 0; pass < 4 && set->count < s->wanted; pass++) { /* some are drawn twice */
        for (int64_t missing = s->wanted - set->count; missing > 0; missing--)
            if (add_one(s, set, group_at(s, below(s, s->used)), 0, s->last))
                return -1;
        sort_unique(set);
    }
    return 0;
}

/* Groups that may be used within the budget. */
static int64_t groups_within(const struct sampled *s, const struct ref_op *op, int output,
                             double budget)
{
    const double each = op->group_cost ? op->group_cost(s->problem, output) : 0;
    const double most = each > 0 ? group_share * budget / each : INFINITY;
    if (most >= (double)s->groups)
        return s->groups;
    return most > LEAST_GROUPS ? (int64_t)most
                               : (s->groups < LEAST_GROUPS ? s->groups : LEAST_GROUPS);
}

int attn_rows_choose(const struct attn_problem *p, int output, double budget, uint64_t seed,
                     struct ref_units *units)
{
    const struct ref_op *op = ref_op_find(p->op);
    struct sampled s = {.problem = p, .output = &op->outputs[output], .seed = seed};
    ref_shape_of_problem(op, p, &s.shape);
    s.total = ref_unit_count(s.output, &s.shape);
    s.sees_keys = sees_keys(op, output);
    const double cost = ref_output_cost(p, output) * (s.sees_keys ? share_of_keys(p) : 1);
    *units = (struct ref_units){.count = s.total};
    if (s.total == 0)
        return 0;
    const size_t letters = strlen(s.output->unit);
    s.last = letters ? ref_extent(&s.shape, s.output->unit[letters - 1]) : 1;
    s.groups = s.total / s.last;
    s.used = groups_within(&s, op, output, budget);
    if ((double)s.total * cost <= budget && s.total <= MAX_ROWS && s.used == s.groups)
        return 0;

    struct row_set set = {0};
    s.first = s.used < s.groups ? below(&s, s.groups) : 0;
    s.wanted = (int64_t)(budget / cost);
    if (s.wanted > MAX_ROWS)
        s.wanted = MAX_ROWS;
    if (add_groups(&s, &set) || add_tiles(&s, &set) || add_random(&s, &set)) {
        free(set.index);
        return -1;
    }
    *units = (struct ref_units){.count = set.count, .index = set.index};
    return 0;
}
