/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - what kernels have in common: element types, the keys that a query sees, and dropout.
 *
 * The part of problem.h that `run` needs, with the same promises. It calls nothing of the C library
 * except memcpy. */
#ifndef ATTNBENCH_ROWS_H
#define ATTNBENCH_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "attnbench/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Functions that code on a CUDA device may also call. */
#if defined(__CUDACC__)
#define ATTN_ANYWHERE static inline __host__ __device__
#else
#define ATTN_ANYWHERE static inline
#endif

/* ---- Elements ---- */

/* Bytes of an element; 0 if the type is reserved or not known. */
ATTN_ANYWHERE int64_t attn_element_bytes(uint32_t dtype)
{
    switch (dtype) {
    case ATTN_F64:
    case ATTN_I64:
        return 8;
    case ATTN_F32:
    case ATTN_I32:
        return 4;
    case ATTN_F16:
    case ATTN_BF16:
        return 2;
    case ATTN_BOOL:
        return 1;
    default:
        return 0;
    }
}

ATTN_ANYWHERE uint32_t attn_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

ATTN_ANYWHERE float attn_f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* f16 and bf16 to f32 and back, in integer code that a compiler can vectorise. Widening is exact.
 * Narrowing rounds to nearest, ties to even; overflow gives infinity, and NaN stays a quiet NaN. */
ATTN_ANYWHERE float attn_f32_of_bf16(uint16_t half)
{
    return attn_f32_of_bits((uint32_t)half << 16);
}

ATTN_ANYWHERE uint16_t attn_bf16_of_f32(float value)
{
    uint32_t bits = attn_f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u); /* NaN: the payload must not round up to infinity */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

ATTN_ANYWHERE float attn_f32_of_f16(uint16_t half)
{
    /* The exponent field, moved into place, is too small by 127 - 15 = 112. A product by 2^112
     * corrects it, also for subnormals. Only infinity and NaN remain to be marked. */
    uint32_t magnitude = (half & 0x7fffu) << 13, sign = (half & 0x8000u) << 16;
    uint32_t bits = attn_f32_bits(attn_f32_of_bits(magnitude) * 0x1p112f);
    bits |= magnitude >= 0x7c00u << 13 ? 0x7f800000u : 0u;
    return attn_f32_of_bits(sign | bits);
}

ATTN_ANYWHERE uint16_t attn_f16_of_f32(float value)
{
    uint32_t bits = attn_f32_bits(value), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (bits >> 13 & 0x3ffu));
    if (bits >= 0x47800000u) /* 2^16 and above, infinity included */
        return (uint16_t)(sign | 0x7c00u);
    if (bits < 0x38800000u) { /* below 2^-14: one ulp of a sum with 0.5 is 2^-24, as needed */
        float sum = attn_f32_of_bits(bits) + 0.5f;
        return (uint16_t)(sign | (attn_f32_bits(sum) - 0x3f000000u));
    }
    bits += 0xfffu + (bits >> 13 & 1u); /* a carry out of the mantissa is correct, up to infinity */
    return (uint16_t)(sign | (bits - (112u << 23)) >> 13);
}

/* Element `index` of an array of f64, f32, f16 or bf16, rounded to f32. */
ATTN_ANYWHERE float attn_element_read(uint32_t dtype, const void *data, int64_t index)
{
    if (dtype == ATTN_F32)
        return ((const float *)data)[index];
    if (dtype == ATTN_F64)
        return (float)((const double *)data)[index];
    return dtype == ATTN_F16 ? attn_f32_of_f16(((const uint16_t *)data)[index])
                             : attn_f32_of_bf16(((const uint16_t *)data)[index]);
}

ATTN_ANYWHERE void attn_element_write(uint32_t dtype, void *data, int64_t index, float value)
{
    if (dtype == ATTN_F32)
        ((float *)data)[index] = value;
    else if (dtype == ATTN_F64)
        ((double *)data)[index] = (double)value;
    else
        ((uint16_t *)data)[index] =
            dtype == ATTN_F16 ? attn_f16_of_f32(value) : attn_bf16_of_f32(value);
}

/* ---- Masks ---- */

/* Keys first <= j < end; both are 0 if there are none. */
struct attn_keys {
    int64_t first, end;
};

ATTN_ANYWHERE int64_t attn_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Offsets and windows beyond this reach past every key. Limited to it, their sums do not overflow.
 */
#define ATTN_FAR ((int64_t)1 << 60)

/* How many keys len leaves to query i of batch b. Here and below, len and the other operands may be
 * operands of attn_operands that are not given. */
static inline int64_t attn_keys_valid(const struct attn_problem *p, const struct attn_tensor *len,
                                      int64_t b, int64_t i)
{
    if (!len->dtype)
        return p->sk;
    const int64_t at = b * len->stride[0] + (len->rank == 2 ? i * len->stride[1] : 0);
    return attn_clamp(((const int32_t *)len->data)[at], 0, p->sk);
}

/* off of causal, window and alibi in batch b. The diagonal of query i is key i + off. */
static inline int64_t attn_keys_offset(const struct attn_problem *p, const struct attn_tensor *len,
                                       int64_t b)
{
    if (p->flags & ATTN_FLAG_OFF_BR) /* never with a length per query: attn_problem_check */
        return attn_keys_valid(p, len, b, 0) - p->sq;
    return attn_clamp(p->off, -ATTN_FAR, ATTN_FAR);
}

/* Keys that len, causal and window leave to query i of batch b. */
static inline struct attn_keys attn_keys_seen(const struct attn_problem *p,
                                              const struct attn_tensor *len, int64_t b, int64_t i)
{
    struct attn_keys keys = {0, attn_keys_valid(p, len, b, i)};
    const int64_t diagonal = i + attn_keys_offset(p, len, b);
    if (p->flags & ATTN_FLAG_CAUSAL)
        keys.end = attn_clamp(diagonal + 1, 0, keys.end);
    if ((p->flags & ATTN_FLAG_WINDOW) && p->window_right >= 0)
        keys.end = attn_clamp(diagonal + attn_clamp(p->window_right, 0, ATTN_FAR) + 1, 0, keys.end);
    if ((p->flags & ATTN_FLAG_WINDOW) && p->window_left >= 0)
        keys.first = attn_clamp(diagonal - attn_clamp(p->window_left, 0, ATTN_FAR), 0, keys.end);
    if (keys.first == keys.end)
        keys.first = keys.end = 0;
    return keys;
}

/* chunked: the factor of the linear part. */
ATTN_ANYWHERE double attn_chunked_lin_scale(const struct attn_problem *p)
{
    if (p->lin_scale != 0)
        return p->lin_scale;
    return 1.0 / (double)(p->flags & ATTN_FLAG_CAUSAL ? p->chunk : p->sk);
}

/* The address of the element with this index. */
ATTN_ANYWHERE void *attn_element_at(const struct attn_tensor *tensor, int64_t index)
{
    return (char *)tensor->data + index * attn_element_bytes(tensor->dtype);
}

/* The index of the first element of row (b,h,i) of a tensor of rank 4. */
ATTN_ANYWHERE int64_t attn_row_start(const struct attn_tensor *tensor, int64_t b, int64_t h,
                                     int64_t i)
{
    return b * tensor->stride[0] + h * tensor->stride[1] + i * tensor->stride[2];
}

/* Row (b,h,i) of a boolean operand, mask or keep; key j is at [j * stride[3]]. NULL if not given.
 */
ATTN_ANYWHERE const uint8_t *attn_mask_row(const struct attn_tensor *mask, int64_t b, int64_t h,
                                           int64_t i)
{
    return mask->dtype ? (const uint8_t *)mask->data + attn_row_start(mask, b, h, i) : NULL;
}

/* Removes keys at both ends that the mask forbids to row (b,h,i). */
static inline struct attn_keys attn_keys_trim(struct attn_keys keys, const struct attn_tensor *mask,
                                              int64_t b, int64_t h, int64_t i)
{
    const uint8_t *row = attn_mask_row(mask, b, h, i);
    const int64_t step = mask->stride[3];
    while (row && keys.first < keys.end && !row[keys.first * step])
        keys.first++;
    while (row && keys.first < keys.end && !row[(keys.end - 1) * step])
        keys.end--;
    if (keys.first == keys.end)
        keys.first = keys.end = 0;
    return keys;
}

/* ---- Global tokens and dilated windows ---- */

/* Is token i of batch b global? `global` may be an operand that is not given. */
ATTN_ANYWHERE int attn_token_is_global(const struct attn_tensor *global, int64_t b, int64_t i)
{
    return global->dtype != 0 &&
           ((const uint8_t *)global->data)[b * global->stride[0] + i * global->stride[1]] != 0;
}

/* What query i of head h in batch b sees by len, causal, window, dilation and global tokens. Loop:
 *     for (j = attn_sight_next(&s, 0); j < s.all.end; j = attn_sight_next(&s, j + 1)) */
struct attn_sight {
    struct attn_keys all;  /* by len and causal: no key outside is seen */
    struct attn_keys near; /* by the window, too; within `all` */
    int64_t step;          /* of `near` the keys near.first, near.first + step, ... are seen */
    const uint8_t *global; /* of `all` the keys j with global[j * stride] != 0 are seen, too. NULL:
                              no more */
    int64_t stride;
};

/* With a dilated window all sums stay below 2^62. */
static inline int64_t attn_sight_reach(int64_t keys, int64_t dilation)
{
    return keys > ATTN_FAR / dilation ? ATTN_FAR : keys * dilation;
}

static inline struct attn_sight attn_sight_of(const struct attn_problem *p,
                                              const struct attn_tensor *len,
                                              const struct attn_tensor *dilation,
                                              const struct attn_tensor *global, int64_t b,
                                              int64_t h, int64_t i)
{
    struct attn_sight sight;
    struct attn_problem open = *p;
    const int64_t diagonal = i + attn_keys_offset(p, len, b);
    open.flags &= ~(uint64_t)ATTN_FLAG_WINDOW;
    sight.near = sight.all = attn_keys_seen(&open, len, b, i);
    sight.step = 1;
    sight.global = NULL;
    sight.stride = 0;
    if (!(p->flags & ATTN_FLAG_WINDOW) || attn_token_is_global(global, b, i))
        return sight;
    if (global->dtype) {
        sight.global = (const uint8_t *)global->data + b * global->stride[0];
        sight.stride = global->stride[1];
    }
    if (dilation->dtype)
        sight.step = ((const int32_t *)dilation->data)[h * dilation->stride[0]];
    if (sight.step < 1)
        sight.step = 1;
    if (p->window_right >= 0)
        sight.near.end = attn_clamp(diagonal + attn_sight_reach(p->window_right, sight.step) + 1,
                                    sight.all.first, sight.all.end);
    if (p->window_left >= 0)
        sight.near.first = attn_clamp(diagonal - attn_sight_reach(p->window_left, sight.step),
                                      sight.all.first, sight.near.end);
    /* The first key whose distance from the diagonal is a multiple of the step. */
    sight.near.first += ((diagonal - sight.near.first) % sight.step + sight.step) % sight.step;
    if (sight.near.first > sight.near.end)
        sight.near.first = sight.near.end;
    return sight;
}

/* The first key from j on that is seen; all.end if there is none. */
static inline int64_t attn_sight_next(const struct attn_sight *sight, int64_t j)
{
    int64_t near = sight->near.first;
    if (j < sight->all.first)
        j = sight->all.first;
    if (j > near && sight->step == 1) /* without a division for each key */
        near = j;
    else if (j > near)
        near += (j - near + sight->step - 1) / sight->step * sight->step;
    if (near >= sight->near.end)
        near = sight->all.end;
    while (sight->global && j < near && !sight->global[j * sight->stride])
        j++;
    return sight->global && j < near ? j : near;
}

/* ---- Dropout ---- */

/* Word 0 of Philox4x32-10 for counter {low, high, 0, 0} of the index and key {low, high} of the
 * seed. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
ATTN_ANYWHERE uint32_t attn_dropout_word(uint64_t seed, uint64_t index)
{
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return c0;
}

/* A cell is kept if attn_dropout_word >> 8 is at least this: the smallest n with n 2^-24 >= p. */
ATTN_ANYWHERE uint32_t attn_dropout_threshold(double p)
{
    const double scaled = p * 0x1p24; /* exact */
    const uint32_t below = (uint32_t)scaled;
    return below < scaled ? below + 1 : below;
}

/* The linear index of cell (b,h,i,0). Add j for key j. */
ATTN_ANYWHERE uint64_t attn_dropout_index(const struct attn_problem *p, int64_t b, int64_t h,
                                          int64_t i)
{
    const uint64_t row = ((uint64_t)b * (uint64_t)p->hq + (uint64_t)h) * (uint64_t)p->sq;
    return (row + (uint64_t)i) * (uint64_t)p->sk;
}

/* Does dropout keep the weight of cell (b,h,i,j). `keep` decides if it is given, else Philox. */
static inline int attn_dropout_keeps(const struct attn_problem *p, const struct attn_tensor *keep,
                                     int64_t b, int64_t h, int64_t i, int64_t j)
{
    const uint8_t *row = attn_mask_row(keep, b, h, i);
    if (row)
        return row[j * keep->stride[3]] != 0;
    return (attn_dropout_word(p->dropout_seed, attn_dropout_index(p, b, h, i) + (uint64_t)j) >> 8) *
               0x1p-24 >=
           p->dropout_p;
}

#ifdef __cplusplus
}
#endif

#endif
