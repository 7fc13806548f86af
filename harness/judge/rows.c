/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - chooses the rows that a verdict is based on. */
#include "judge/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/operands.h"
#include "reference/philox.h"

/* Queries next to which tiled kernels go wrong: multiples of these, one before and one after. */
static const int64_t tiles[] = {16, 64, 96, 128};
/* The cost of a row without its keys, as a share of the cost of all keys. */
static const double least_share = 0.01;
enum { MAX_ROWS = 1 << 22 };

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
 * the rest off. Estimated from some rows, because it only makes a sample larger. */
static double share_of_keys(const struct attn_problem *p)
{
    const int64_t step = p->sq > 1024 ? p->sq / 1024 : 1;
    struct ref_operands operands;
    double keys = 0, rows = 0;
    ref_operands_init(&operands, p);
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = step / 2; i < p->sq; i += step, rows++) {
            int64_t begin, end;
            ref_key_range(&operands, b, i, &begin, &end);
            keys += (double)(end - begin);
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

/* An output whose units are sampled. */
struct sampled {
    const struct attn_problem *problem;
    const struct ref_output *output;
    struct ref_shape shape;
    bool sees_keys;
    int64_t total, last, groups; /* units; the extent of their last index; all others together */
    int64_t wanted;
};

/* Of every group the first and the last unit, and the rows with the most and the fewest keys. */
static int add_groups(const struct sampled *s, struct row_set *set)
{
    for (int64_t g = 0; g < s->groups; g++) {
        const int64_t b = ref_unit_index(s->output, &s->shape, g * s->last, 'b');
        if (row_add(set, g * s->last) || row_add(set, (g + 1) * s->last - 1))
            return -1;
        if (s->sees_keys && set->count < s->wanted &&
            add_extremes(s->problem, set, g, b < 0 ? 0 : b))
            return -1;
    }
    return 0;
}

static int add_tiles(const struct sampled *s, struct row_set *set)
{
    for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++)
        for (int64_t i = tiles[t]; i < s->last && set->count < s->wanted / 2; i += tiles[t]) {
            int64_t g = (i / tiles[t]) % s->groups;
            for (int64_t k = i - 1; k <= i + 1 && k < s->last; k++)
                if (row_add(set, g * s->last + k))
                    return -1;
        }
    sort_unique(set);
    return 0;
}

static int add_random(const struct sampled *s, struct row_set *set)
{
    uint32_t draw = 0;
    for (int pass = 0; pass < 4 && set->count < s->wanted; pass++) { /* some are drawn twice */
        for (int64_t missing = s->wanted - set->count; missing > 0; missing--, draw++) {
            uint32_t counter[4] = {draw, 0, 0, 0}, key[2] = {0x726f7773u, 0}, word[4];
            attn_philox4x32(counter, key, word);
            uint64_t wide = (uint64_t)word[0] << 32 | word[1];
            if (row_add(set, (int64_t)(wide % (uint64_t)s->total)))
                return -1;
        }
        sort_unique(set);
    }
    return 0;
}

int attn_rows_choose(const struct attn_problem *p, int output, double budget,
                     struct ref_units *units)
{
    const struct ref_op *op = ref_op_find(p->op);
    struct sampled s = {.problem = p, .output = &op->outputs[output]};
    ref_shape_of_problem(op, p, &s.shape);
    s.total = ref_unit_count(s.output, &s.shape);
    s.sees_keys = sees_keys(op, output);
    const double cost = ref_output_cost(p, output) * (s.sees_keys ? share_of_keys(p) : 1);
    *units = (struct ref_units){.count = s.total};
    if ((double)s.total * cost <= budget && s.total <= MAX_ROWS)
        return 0;

    struct row_set set = {0};
    const size_t letters = strlen(s.output->unit);
    s.last = letters ? ref_extent(&s.shape, s.output->unit[letters - 1]) : 1;
    s.groups = s.total / s.last;
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
