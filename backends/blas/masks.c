/* SPDX-License-Identifier: Apache-2.0 */
/* masks.c - which keys a query may see by position, and which weights dropout keeps. */
#include "blas.h"

/* Any offset or window beyond this reaches past every key there can be; clamping to it keeps the
 * sums below from overflowing. */
#define FAR ((int64_t)1 << 60)

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static int64_t valid_keys(const struct attn_problem *problem, const struct attn_blas_view *len,
                          int64_t b, int64_t i)
{
    if (!len->dtype)
        return problem->sk;
    int64_t at = b * len->stride[0] + (len->rank == 2 ? i * len->stride[1] : 0);
    return clamp(((const int32_t *)len->data)[at], 0, problem->sk);
}

int64_t attn_blas_offset(const struct attn_problem *problem,
                         const struct attn_blas_operands *operands, int64_t b)
{
    if (problem->flags & ATTN_FLAG_OFF_BR) /* never with lengths per query: see supports */
        return valid_keys(problem, &operands->view[ATTN_LEN], b, 0) - problem->sq;
    return clamp(problem->off, -FAR, FAR);
}

struct attn_blas_range attn_blas_keys(const struct attn_problem *problem,
                                      const struct attn_blas_operands *operands, int64_t b,
                                      int64_t i)
{
    int64_t first = 0, last = valid_keys(problem, &operands->view[ATTN_LEN], b, i);
    int64_t diagonal = i + attn_blas_offset(problem, operands, b);
    if (problem->flags & ATTN_FLAG_CAUSAL)
        last = clamp(diagonal + 1, 0, last);
    if (problem->flags & ATTN_FLAG_WINDOW) {
        if (problem->window_right >= 0)
            last = clamp(diagonal + clamp(problem->window_right, 0, FAR) + 1, 0, last);
        if (problem->window_left >= 0)
            first = clamp(diagonal - clamp(problem->window_left, 0, FAR), 0, last);
    }
    return (struct attn_blas_range){first, last};
}

/* Word 0 of Philox4x32-10 for counter {low, high, 0, 0} and key {low, high}. */
static uint32_t philox_word0(uint64_t counter, uint64_t seed)
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53u * c[0], p1 = (uint64_t)0xcd9e8d57u * c[2];
        c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ key0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ key1;
        c[3] = (uint32_t)p0;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return c[0];
}

int attn_blas_kept(const struct attn_problem *problem, const struct attn_blas_operands *operands,
                   int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_blas_view *keep = &operands->view[ATTN_KEEP];
    if (keep->dtype)
        return keep->data[b * keep->stride[0] + h * keep->stride[1] + i * keep->stride[2] +
                          j * keep->stride[3]] != 0;
    uint64_t index = (uint64_t)(((b * problem->hq + h) * problem->sq + i) * problem->sk + j);
    return (philox_word0(index, problem->dropout_seed) >> 8) * 0x1p-24 >= problem->dropout_p;
}
