/* SPDX-License-Identifier: Apache-2.0 */
/* entropy.c - asks the kernel. */
#include "host/entropy.h"

#include <sys/random.h>
#include <unistd.h>

#include "host/clock.h"

uint64_t attn_entropy(void)
{
    uint64_t word;
    if (getrandom(&word, sizeof(word), GRND_NONBLOCK) != sizeof(word))
        word = (uint64_t)(1e9 * attn_now()) ^ (uint64_t)getpid() << 32;
    return word;
}
