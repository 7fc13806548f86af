/* SPDX-License-Identifier: Apache-2.0 */
/* mask.c - which keys a query may see: len, causal and window give one range, a dilation steps
 * through it, global tokens add keys, and a boolean tensor picks among all of these. */
#include <string.h>

#include "reference/dtype.h"
#include "reference/operands.h"
#include "reference/reference.h"

/* Beyond every key. Sums of two of these do not overflow. */
#define FAR (INT64_C(1) << 60)

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Valid keys of query i: all of them without lengths. */
static int64_t valid_keys(const struct ref_operands *operands, int64_t b, int64_t i)
{
    const struct attn_tensor *len = operands->by_role[ATTN_LEN];

    if (!len)
        return operands->problem->sk;
    return (int64_t)ref_load(len, (const int64_t[]){b, i});
}

int64_t ref_offset(const struct ref_operands *operands, int64_t b)
{
    const struct attn_problem *problem = operands->problem;

    if (!(problem->flags & ATTN_FLAG_OFF_BR))
        return problem->off;
    return valid_keys(operands, b, 0) - problem->sq;
}

void ref_key_range(const struct ref_operands *operands, int64_t b, int64_t i, int64_t *begin,
                   int64_t *end)
{
    const struct attn_problem *problem = operands->problem;
    int64_t diagonal = i + ref_offset(operands, b), lo = 0;
    int64_t hi = smaller(problem->sk, valid_keys(operands, b, i));

    if (problem->flags & ATTN_FLAG_CAUSAL)
        hi = smaller(hi, diagonal + 1);
    if (problem->flags & ATTN_FLAG_WINDOW) {
        if (problem->window_left >= 0)
            lo = larger(lo, diagonal - problem->window_left);
        if (problem->window_right >= 0)
            hi = smaller(hi, diagonal + problem->window_right + 1);
    }
    *begin = smaller(lo, problem->sk);
    *end = larger(hi, *begin);
}

bool ref_is_global(const struct ref_operands *operands, int64_t b, int64_t i)
{
    const struct attn_tensor *global = operands->by_role[ATTN_GLOBAL];

    return global && ref_load(global, (const int64_t[]){b, i}) != 0.0;
}

/* How far a side of a window reaches, in keys. */
static int64_t reach(int64_t side, int64_t dilation)
{
    return side > FAR / dilation ? FAR : side * dilation;
}

/* The keys of a window whose steps are `dilation` keys, within [begin, end) of the sight. */
static struct ref_run window_of(const struct attn_problem *problem, const struct ref_sight *sight,
                                int64_t diagonal, int64_t dilation)
{
    struct ref_run run = {sight->begin, sight->end, dilation};
    int64_t odd;

    if (problem->window_left >= 0)
        run.begin = larger(run.begin, diagonal - reach(problem->window_left, dilation));
    if (problem->window_right >= 0)
        run.end = smaller(run.end, diagonal + reach(problem->window_right, dilation) + 1);
    odd = (diagonal - run.begin) % dilation;
    run.begin += odd < 0 ? odd + dilation : odd;
    run.begin = smaller(run.begin, sight->end);
    run.end = larger(run.end, run.begin);
    return run;
}

void ref_sight_of(const struct ref_operands *operands, int64_t b, int64_t h, int64_t i,
                  struct ref_sight *sight)
{
    const struct attn_problem *problem = operands->problem;
    const struct attn_tensor *dilation = operands->by_role[ATTN_DILATION];
    const struct attn_tensor *global = operands->by_role[ATTN_GLOBAL];
    const int64_t diagonal = i + ref_offset(operands, b);
    const bool window = (problem->flags & ATTN_FLAG_WINDOW) && !ref_is_global(operands, b, i);

    *sight = (struct ref_sight){.end = smaller(problem->sk, valid_keys(operands, b, i))};
    if (problem->flags & ATTN_FLAG_CAUSAL)
        sight->end = larger(smaller(sight->end, diagonal + 1), 0);
    sight->near = (struct ref_run){0, sight->end, 1};
    if (!window)
        return;
    sight->near =
        window_of(problem, sight, diagonal, dilation ? (int64_t)ref_load(dilation, &h) : 1);
    if (global) {
        sight->global = (const uint8_t *)global->data + b * global->stride[0];
        sight->stride = global->stride[1];
    }
}

/* The first global key from `from` on; sight->end: there is none. Eight at a time where they lie
 * side by side, so that few global keys among many cost little. */
static int64_t next_global(const struct ref_sight *sight, int64_t from)
{
    uint64_t eight = 0;

    while (sight->stride == 1 && from + 8 <= sight->end) {
        memcpy(&eight, sight->global + from, 8);
        if (eight != 0)
            break;
        from += 8;
    }
    while (from < sight->end && sight->global[from * sight->stride] == 0)
        from++;
    return from;
}

/* The first global key from `from` on that is not in the window; sight->end: there is none. */
static int64_t next_far(const struct ref_sight *sight, int64_t from)
{
    const struct ref_run *near = &sight->near;

    while (sight->global && (from = next_global(sight, from)) < sight->end) {
        const bool between = from >= near->begin && from < near->end;
        if (!between || (from - near->begin) % near->step != 0)
            return from;
        from = near->step == 1 ? near->end : from + 1;
    }
    return sight->end;
}

bool ref_sight_next(const struct ref_sight *sight, int64_t from, struct ref_run *run)
{
    const struct ref_run *near = &sight->near;
    int64_t next = near->begin, far = next_far(sight, from);

    if (from > next)
        next += (from - next + near->step - 1) / near->step * near->step;
    if (next >= near->end)
        next = sight->end;
    if (next < far) {
        *run = (struct ref_run){next, smaller(near->end, far), near->step};
        return true;
    }
    if (far >= sight->end)
        return false;
    *run = (struct ref_run){far, far + 1, 1};
    while (run->end < next && sight->global[run->end * sight->stride] != 0)
        run->end++;
    return true;
}

/* The operands on which sight rests, and the mask. Others ask cell by cell, so this is short. */
static const struct attn_tensor *find_masks(const struct attn_problem *problem,
                                            struct ref_operands *operands)
{
    const struct attn_tensor *mask = NULL;

    operands->problem = problem;
    operands->by_role[ATTN_LEN] = operands->by_role[ATTN_GLOBAL] =
        operands->by_role[ATTN_DILATION] = NULL;
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        const struct attn_tensor *tensor = &problem->tensors[t];
        if (tensor->role == ATTN_MASK)
            mask = tensor;
        else if (tensor->role == ATTN_LEN || tensor->role == ATTN_GLOBAL ||
                 tensor->role == ATTN_DILATION)
            operands->by_role[tensor->role] = tensor;
    }
    return mask;
}

int ref_allowed(const struct attn_problem *problem, int64_t b, int64_t h, int64_t i, int64_t j)
{
    struct ref_operands operands; /* only what find_masks sets */
    const struct attn_tensor *mask = find_masks(problem, &operands);
    struct ref_sight sight;
    bool seen;

    ref_sight_of(&operands, b, h, i, &sight);
    if (j < sight.begin || j >= sight.end)
        return 0;
    seen = j >= sight.near.begin && j < sight.near.end &&
           (j - sight.near.begin) % sight.near.step == 0;
    if (!seen && (!sight.global || sight.global[j * sight.stride] == 0))
        return 0;
    return !mask || ref_load(mask, (const int64_t[]){b, h, i, j}) != 0.0;
}

/* Keys of a run that the mask allows. */
static int64_t count_true(const struct attn_tensor *mask, int64_t b, int64_t h, int64_t i,
                          const struct ref_run *run)
{
    int64_t count = 0, step;
    const uint8_t *row = ref_mask_row(mask, b, h, i, &step);

    if (step == 1 && run->step == 1)
        for (int64_t j = run->begin; j < run->end; j++)
            count += row[j] != 0;
    else
        for (int64_t j = run->begin; j < run->end; j += run->step)
            count += row[j * step] != 0;
    return count;
}

int64_t ref_count_row(const struct ref_operands *operands, int64_t b, int64_t h, int64_t i)
{
    const struct attn_tensor *mask = operands->by_role[ATTN_MASK];
    struct ref_sight sight;
    struct ref_run run;
    int64_t count = 0;

    ref_sight_of(operands, b, h, i, &sight);
    for (int64_t from = 0; ref_sight_next(&sight, from, &run); from = run.end)
        count += mask ? count_true(mask, b, h, i, &run) : ref_run_count(&run);
    return count;
}

int64_t ref_count_allowed(const struct attn_problem *problem)
{
    struct ref_operands operands;
    const struct attn_tensor *mask, *dilation;
    int64_t count = 0, heads = 1, repeat = problem->hq;

    ref_operands_init(&operands, problem);
    mask = operands.by_role[ATTN_MASK];
    dilation = operands.by_role[ATTN_DILATION];
    /* Only a mask and dilations can tell heads apart; if broadcast over them they do not. */
    if ((mask && mask->stride[1] != 0) || (dilation && dilation->stride[0] != 0)) {
        heads = problem->hq;
        repeat = 1;
    }
    for (int64_t b = 0; b < problem->b; b++)
        for (int64_t i = 0; i < problem->sq; i++)
            for (int64_t h = 0; h < heads; h++)
                count += ref_count_row(&operands, b, h, i);
    return count * repeat;
}
