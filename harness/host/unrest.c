/* SPDX-License-Identifier: Apache-2.0 */
/* unrest.c - busy for a few milliseconds, then idle for some more. */
#include "host/unrest.h"

#include <time.h>

#include "host/clock.h"

/* About what a scheduler gives a thread in one go, and what it leaves to others: with every fourth
 * spell taken, thousands of checks cost little. */
#define SPELL_S 0.004
#define REST_S  (3 * SPELL_S)

static void *be_restless(void *argument)
{
    struct attn_unrest *unrest = argument;
    while (!atomic_load(&unrest->stop)) {
        const double until = attn_now() + SPELL_S;
        while (attn_now() < until && !atomic_load(&unrest->stop))
            continue;
        nanosleep(&(struct timespec){.tv_nsec = (long)(REST_S * 1e9)}, NULL);
    }
    return NULL;
}

void attn_unrest_begin(struct attn_unrest *unrest)
{
    atomic_init(&unrest->stop, false);
    unrest->running = pthread_create(&unrest->thread, NULL, be_restless, unrest) == 0;
}

void attn_unrest_end(struct attn_unrest *unrest)
{
    atomic_store(&unrest->stop, true);
    if (unrest->running)
        pthread_join(unrest->thread, NULL);
}
