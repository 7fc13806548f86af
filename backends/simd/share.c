/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - see share.h */
#include "share.h"

/* What a row costs in addition to its keys, counted in keys: scaling, storing, starting. So a unit
 * of empty rows, which still writes zeros, costs something. */
#define ROW_COST 16

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t attn_share_units(const struct attn_flash *job, int mr)
{
    int64_t total = job->sq * job->group;
    if (total == 0)
        return 0;
    return job->splits > 1 ? job->splits : (total + mr - 1) / mr;
}

/* Does this pass leave out all rows of a unit? */
static bool waits(const struct attn_flash *job, int64_t b, int64_t row0, int64_t rows)
{
    const bool global = job->rows == ATTN_ROWS_GLOBAL;
    if (job->rows == ATTN_ROWS_ALL)
        return false;
    for (int64_t r = row0; r < row0 + rows; r++)
        if (attn_token_is_global(&job->operands.global, b, r / job->group) == global)
            return false;
    return true;
}

/* Estimated from the first and the last row, which see about the same keys. */
static double unit_cost(const struct attn_flash *job, int mr, int64_t b, int64_t unit)
{
    int64_t total = job->sq * job->group;
    bool split = job->splits > 1;
    int64_t row0 = split ? 0 : unit * mr, rows = split ? total : least(mr, total - row0);
    int64_t first = split ? unit * job->part_keys : 0;
    int64_t end = split ? first + job->part_keys : job->sk;
    double keys = 0.0;
    if (waits(job, b, row0, rows))
        return (double)rows;
    for (int n = 0; n < 2; n++) {
        const struct attn_keys seen = attn_keys_seen(job->problem, &job->operands.len, b,
                                                     (row0 + n * (rows - 1)) / job->group);
        keys += 0.5 * (double)most(0, least(seen.end, end) - most(seen.first, first));
    }
    return (double)rows * (keys + ROW_COST);
}

/* The heads of a batch entry cost the same. */
static double head_cost(const struct attn_flash *job, int mr, int64_t b)
{
    int64_t units = attn_share_units(job, mr);
    double cost = 0.0;
    for (int64_t u = 0; u < units; u++)
        cost += unit_cost(job, mr, b, u);
    return cost;
}

/* The unit boundary nearest to `cost` from the start of batch entry b. */
static struct attn_share find_boundary(const struct attn_flash *job, int mr, int64_t b,
                                       double one_head, double cost)
{
    struct attn_share at = {.head = least((int64_t)(cost / one_head), job->groups - 1)};
    int64_t units = attn_share_units(job, mr);
    cost -= (double)at.head * one_head;
    for (; at.unit < units; at.unit++) {
        double step = unit_cost(job, mr, b, at.unit);
        if (cost < 0.5 * step)
            break;
        cost -= step;
    }
    at.head += b * job->groups + at.unit / units;
    at.unit %= units;
    return at;
}

void attn_share_cut(const struct attn_flash *job, int mr, int threads, struct attn_share *share)
{
    const struct attn_share end = {.head = job->b * job->groups};
    double whole = 0.0, before = 0.0;
    int t = 1;
    share[0] = (struct attn_share){0};
    for (int64_t b = 0; threads > 1 && b < job->b; b++)
        whole += (double)job->groups * head_cost(job, mr, b);
    for (int64_t b = 0; whole > 0.0 && t < threads && b < job->b; b++) {
        double one_head = head_cost(job, mr, b), batch = (double)job->groups * one_head;
        for (; t < threads && whole * t / threads < before + batch; t++)
            share[t] = find_boundary(job, mr, b, one_head, whole * t / threads - before);
        before += batch;
    }
    for (; t <= threads; t++)
        share[t] = end;
}

bool attn_share_next(const struct attn_flash *job, int mr, const struct attn_share *end,
                     struct attn_share *at, struct attn_flash_item *item)
{
    int64_t units = attn_share_units(job, mr), total = job->sq * job->group;
    if (units == 0 || at->head > end->head || (at->head == end->head && at->unit >= end->unit))
        return false;
    int64_t take = 1;
    *item = (struct attn_flash_item){.head = at->head, .rows = total, .part = at->unit};
    if (job->splits == 1) {
        int64_t left = (at->head == end->head ? end->unit : units) - at->unit;
        int64_t most_units = job->item_rows / mr, items = (left + most_units - 1) / most_units;
        take = (left + items - 1) / items;
        item->part = 0;
        item->row0 = at->unit * mr;
        item->rows = least(take * mr, total - item->row0);
    }
    at->unit += take;
    at->head += at->unit / units;
    at->unit %= units;
    return true;
}
