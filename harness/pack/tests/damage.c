/* SPDX-License-Identifier: Apache-2.0 */
/* damage.c - damages a file as accidents and attackers do. */
#include "damage.h"

#include <string.h>

#include "reference/philox.h"

static uint32_t draw(uint32_t *at)
{
    const uint32_t key[2] = {2024, 0}, counter[4] = {(*at)++, 0, 0, 0};
    uint32_t words[4];
    attn_philox4x32(counter, key, words);
    return words[0];
}

size_t damage(unsigned char *bytes, size_t length, size_t reach, uint32_t *seed)
{
    for (uint32_t times = 1 + draw(seed) % 4; times > 0 && length > 16; times--) {
        const size_t header = 8 + (length - 8 < reach ? length - 8 : reach);
        const size_t at = draw(seed) % header, other = draw(seed) % header;
        switch (draw(seed) % 6) {
        case 0:
            bytes[at] = (unsigned char)draw(seed);
            break;
        case 1:
            bytes[at] = (unsigned char)('0' + draw(seed) % 10);
            break;
        case 2:
            bytes[at] ^= (unsigned char)(1u << draw(seed) % 8);
            break;
        case 3:
            memmove(bytes + at, bytes + other, (header - (at > other ? at : other)) / 2);
            break;
        case 4:
            bytes[at] = (unsigned char)"{}[],:\"\\-e. "[draw(seed) % 12];
            break;
        default:
            length -= draw(seed) % 8;
        }
    }
    return length;
}
