/* SPDX-License-Identifier: Apache-2.0 */
/* mask.c - which keys a query may see: len, causal and window give one range, a boolean tensor
 * picks within it. */
#include "reference/dtype.h"
#include "reference/operands.h"
#include "reference/reference.h"

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

int ref_allowed(const struct attn_problem *problem, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_tensor *mask;
    struct ref_operands operands; /* of which a range needs these two: others ask cell by cell */
    int64_t begin, end;

    operands.problem = problem;
    operands.by_role[ATTN_LEN] = attn_tensor_find(problem, ATTN_LEN);
    ref_key_range(&operands, b, i, &begin, &end);
    if (j < begin || j >= end)
        return 0;
    mask = attn_tensor_find(problem, ATTN_MASK);
    return !mask || ref_load(mask, (const int64_t[]){b, h, i, j}) != 0.0;
}

static int64_t count_true(const struct attn_tensor *mask, int64_t b, int64_t h, int64_t i,
                          int64_t begin, int64_t end)
{
    int64_t count = 0, step;
    const uint8_t *row = ref_mask_row(mask, b, h, i, &step);

    if (step == 1)
        for (int64_t j = begin; j < end; j++)
            count += row[j] != 0;
    else
        for (int64_t j = begin; j < end; j++)
            count += row[j * step] != 0;
    return count;
}

int64_t ref_count_allowed(const struct attn_problem *problem)
{
    struct ref_operands operands;
    const struct attn_tensor *mask;
    int64_t count = 0, heads = 1, repeat = problem->hq;

    ref_operands_init(&operands, problem);
    mask = operands.by_role[ATTN_MASK];
    /* Only a mask can tell heads apart; one that is broadcast over them does not. */
    if (mask && mask->stride[1] != 0) {
        heads = problem->hq;
        repeat = 1;
    }
    for (int64_t b = 0; b < problem->b; b++)
        for (int64_t i = 0; i < problem->sq; i++) {
            int64_t begin, end;
            ref_key_range(&operands, b, i, &begin, &end);
            for (int64_t h = 0; h < heads; h++)
                count += mask ? count_true(mask, b, h, i, begin, end) : end - begin;
        }
    return count * repeat;
}
