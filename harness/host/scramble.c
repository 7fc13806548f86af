/* SPDX-License-Identifier: Apache-2.0 */
/* scramble.c - bits of mantissas, turned by a generator. */
#include "host/scramble.h"

#include <string.h>

#include "host/splitmix.h"
#include "host/walk.h"
#include "reference/dtype.h"

/* Bits are drawn by so many generators side by side, as many as a vector register has room for: an
 * exchange of inputs must be short, or the caches lose meanwhile what timed runs find there. */
enum { LANES = 16, BLOCK = LANES * sizeof(uint32_t), TURNED = 63 };

/* Xorshift (Marsaglia 2003); a state is never 0. */
static void draw(uint32_t lanes[LANES])
{
    for (int i = 0; i < LANES; i++) {
        uint32_t x = lanes[i];
        x ^= x << 13;
        x ^= x >> 17;
        lanes[i] = x ^ x << 5;
    }
}

/* Defines NAME, which scrambles a run of elements. EXPONENT: its bits; LOWEST: the place of the
 * lowest of the bits that are turned, six of the mantissa. */
#define SCRAMBLE(NAME, TYPE, EXPONENT, LOWEST)                                                     \
    static inline void NAME##_some(unsigned char *at, size_t n, const uint32_t lanes[LANES])       \
    {                                                                                              \
        TYPE drawn[BLOCK / sizeof(TYPE)], bits;                                                    \
        memcpy(drawn, lanes, BLOCK);                                                               \
        for (size_t i = 0; i < n; i++, at += sizeof(bits)) {                                       \
            memcpy(&bits, at, sizeof(bits));                                                       \
            const TYPE exponent = (TYPE)(bits & (EXPONENT));                                       \
            const TYPE turned = (TYPE)(drawn[i] & ((TYPE)TURNED << (LOWEST)));                     \
            bits ^= exponent != (EXPONENT) && exponent != 0 ? turned : 0;                          \
            memcpy(at, &bits, sizeof(bits));                                                       \
        }                                                                                          \
    }                                                                                              \
    static void NAME(unsigned char *run, size_t bytes, uint32_t lanes[LANES])                      \
    {                                                                                              \
        for (; bytes >= BLOCK; bytes -= BLOCK, run += BLOCK) {                                     \
            draw(lanes);                                                                           \
            NAME##_some(run, BLOCK / sizeof(TYPE), lanes);                                         \
        }                                                                                          \
        if (bytes > 0) {                                                                           \
            draw(lanes);                                                                           \
            NAME##_some(run, bytes / sizeof(TYPE), lanes);                                         \
        }                                                                                          \
    }

SCRAMBLE(scramble_f64, uint64_t, UINT64_C(0x7FF) << 52, 46)
SCRAMBLE(scramble_f32, uint32_t, UINT32_C(0xFF) << 23, 17)
SCRAMBLE(scramble_f16, uint16_t, 0x1F << 10, 4)
SCRAMBLE(scramble_bf16, uint16_t, 0xFF << 7, 1)

static const struct {
    void (*scramble)(unsigned char *run, size_t bytes, uint32_t lanes[LANES]);
    size_t bytes; /* of an element */
} types[] = {[ATTN_F64] = {scramble_f64, 8},
             [ATTN_F32] = {scramble_f32, 4},
             [ATTN_F16] = {scramble_f16, 2},
             [ATTN_BF16] = {scramble_bf16, 2}};

void attn_scramble(const struct attn_tensor *tensor, uint32_t index, uint64_t seed)
{
    if (!attn_dtype_is_float(tensor->dtype))
        return;
    uint64_t random = seed + index;
    uint32_t lanes[LANES];
    struct attn_walk walk;
    size_t offset;
    random = attn_splitmix(&random);
    for (int i = 0; i < LANES; i++)
        lanes[i] = (uint32_t)(attn_splitmix(&random) >> 32) | 1;
    attn_walk_begin(&walk, tensor, types[tensor->dtype].bytes);
    while (attn_walk_next(&walk, &offset))
        types[tensor->dtype].scramble((unsigned char *)tensor->data + offset, walk.run, lanes);
}
