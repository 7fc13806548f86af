/* SPDX-License-Identifier: Apache-2.0 */
/* philox.c - Philox4x32-10, written from the paper's definition (see philox.h). */
#include "reference/philox.h"

void attn_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    attn_philox4x32_inline(counter, key, out);
}

int attn_dropout_keep(uint64_t seed, uint64_t index, double p)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    uint32_t words[4];
    attn_philox4x32(counter, key, words);
    return (double)(words[0] >> 8) * 0x1p-24 >= p;
}
