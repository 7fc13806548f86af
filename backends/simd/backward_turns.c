/* SPDX-License-Identifier: Apache-2.0 */
/* backward_turns.c - the order in which units add to what several of them share: see backward.h. A
 * unit waits for units that were taken before it, so a wait is short. */
#include <sched.h>

#include "backward.h"

#ifdef __x86_64__
#define RELAX() __builtin_ia32_pause()
#else
#define RELAX() ((void)0)
#endif

/* Looks at a turn before the processor is offered to others: some 10 us. */
#define LOOKS 256

/* Waits until *at, which only rises, is at least `least`. */
static void await(const atomic_llong *at, long long least)
{
    for (int looks = 0; atomic_load_explicit(at, memory_order_acquire) < least; looks++)
        if (looks < LOOKS)
            RELAX();
        else
            sched_yield();
}

static atomic_llong *turn_of(const struct attn_backward *x, int64_t unit, int64_t place,
                             int64_t tile)
{
    const int64_t slot = unit / x->key_tiles % x->slots;
    return &x->turn[(slot * x->flash.group + place) * x->query_tiles + tile];
}

void attn_backward_await(struct attn_backward *job, int64_t unit, int64_t place, int64_t tile)
{
    await(turn_of(job, unit, place, tile), unit);
}

void attn_backward_pass(struct attn_backward *job, int64_t unit, int64_t place, int64_t tile)
{
    atomic_store_explicit(turn_of(job, unit, place, tile), unit + 1, memory_order_release);
}

/* Visits of query tiles by one unit. */
static int64_t visits_of(const struct attn_backward *x)
{
    return x->flash.group * x->query_tiles;
}

void attn_backward_follow(struct attn_backward *job, int64_t unit, int64_t visit)
{
    const int64_t before = unit - job->problem->hkv * job->key_tiles; /* of the previous batch */
    if (job->follows && before >= 0)
        await(&job->visits[before], job->follows_all ? visits_of(job) : visit + 1);
}

void attn_backward_lead(struct attn_backward *job, int64_t unit, int64_t visit)
{
    if (job->follows)
        atomic_store_explicit(&job->visits[unit], visit + 1, memory_order_release);
}

void attn_backward_await_slot(const struct attn_backward *job, int64_t slot, int64_t head)
{
    await(&job->done[slot], head / job->slots * job->key_tiles);
}
