/* SPDX-License-Identifier: Apache-2.0 */
/* mask.c - see mask.h */
#include "mask.h"

int64_t attn_mask_offset(const struct attn_flash *job, int64_t b)
{
    if (!(job->flags & ATTN_FLAG_OFF_BR))
        return job->off;
    if (job->len_rank == 1)
        return ((const int32_t *)job->len.data)[b * job->len.stride[0]] - job->sq;
    return job->sk - job->sq;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

void attn_mask_interval(const struct attn_flash *job, int64_t b, int64_t i, int64_t *lo,
                        int64_t *hi)
{
    int64_t first = 0, end = job->sk;
    if (job->len_rank) {
        int64_t at = b * job->len.stride[0] + (job->len_rank == 2 ? i * job->len.stride[1] : 0);
        end = clamp(((const int32_t *)job->len.data)[at], 0, job->sk);
    }
    int64_t diagonal = i + attn_mask_offset(job, b);
    if (job->flags & ATTN_FLAG_CAUSAL)
        end = clamp(diagonal + 1, 0, end);
    if (job->flags & ATTN_FLAG_WINDOW) {
        if (job->window_left >= 0)
            first = clamp(diagonal - job->window_left, 0, end);
        if (job->window_right >= 0)
            end = clamp(diagonal + job->window_right + 1, 0, end);
    }
    *lo = first < end ? first : 0;
    *hi = first < end ? end : 0;
}

void attn_mask_tighten(const struct attn_flash *job, int64_t b, int64_t h, int64_t i, int64_t *lo,
                       int64_t *hi)
{
    const uint8_t *row = (const uint8_t *)job->mask.data + attn_row_index(&job->mask, b, h, i);
    int64_t step = job->mask.stride[3], first = *lo, end = *hi;
    while (first < end && !row[first * step])
        first++;
    while (first < end && !row[(end - 1) * step])
        end--;
    *lo = first;
    *hi = end;
}

/* Word 0 of Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) for counter {index, 0, 0}. */
static uint32_t philox_word0(uint64_t seed, uint64_t index)
{
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c0;
}

void attn_dropout_row(const struct attn_flash *job, int64_t b, int64_t h, int64_t i, int64_t j0,
                      int64_t j1, float *p)
{
    const uint8_t *keep = job->keep.data;
    uint64_t row =
        ((uint64_t)(b * job->groups * job->group + h) * (uint64_t)job->sq + (uint64_t)i) *
        (uint64_t)job->sk;
    if (keep)
        keep += attn_row_index(&job->keep, b, h, i);
    for (int64_t j = j0; j < j1; j++) {
        bool kept = keep ? keep[j * job->keep.stride[3]] != 0
                         : philox_word0(job->seed, row + (uint64_t)j) >> 8 >= job->keep_from;
        p[j - j0] = kept ? p[j - j0] * job->keep_by : -0.0f;
    }
}
