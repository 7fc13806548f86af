/* SPDX-License-Identifier: Apache-2.0 */
/* philox.c - Philox4x32-10, written from the paper's definition (see philox.h). */
#include "reference/philox.h"

/* The paper's multipliers and Weyl increments for four 32-bit words (its section 3 and table 2). */
static const uint32_t multiplier[2] = {0xd2511f53u, 0xcd9e8d57u};
static const uint32_t increment[2] = {0x9e3779b9u, 0xbb67ae85u}; /* golden ratio, sqrt(3) - 1 */

void attn_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)multiplier[0] * x0;
        const uint64_t b = (uint64_t)multiplier[1] * x2;
        x0 = (uint32_t)(b >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)b;
        x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)a;
        k0 += increment[0];
        k1 += increment[1];
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

int attn_dropout_keep(uint64_t seed, uint64_t index, double p)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    uint32_t words[4];
    attn_philox4x32(counter, key, words);
    return (double)(words[0] >> 8) * 0x1p-24 >= p;
}
