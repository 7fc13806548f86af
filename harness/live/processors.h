/* SPDX-License-Identifier: Apache-2.0 */
/* processors.h - the idlest processors, for one program at a time.
 *
 * A claim is a name in the abstract namespace of Unix sockets, "attnbench-processor-N". The kernel
 * gives a name to one socket at a time, whoever the users are, and takes it back when the process
 * ends. So nothing is left behind, and no folder has to be writable. */
#ifndef ATTN_LIVE_PROCESSORS_H
#define ATTN_LIVE_PROCESSORS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ATTN_CLAIM_MAX = 64 };

/* What a processor has done so far, in ticks of /proc/stat. */
struct attn_ticks {
    uint64_t busy, steal, all;
};

struct attn_claim {
    uint32_t n;
    uint32_t processors[ATTN_CLAIM_MAX];
    int sockets[ATTN_CLAIM_MAX]; /* -1: not ours alone */
    struct attn_ticks began[ATTN_CLAIM_MAX];
    bool alone; /* no other attnbench has claimed one of them */
    bool entered;
    cpu_set_t outside; /* where the thread that has entered may run otherwise */
};

/* Claims the `threads` idlest of the processors that this process may use, over the next `look`
 * seconds; a sibling on the same core counts as half a load. Waits up to `patience` seconds for
 * other claims to end, and then takes the idlest without one. Returns 0, or -1 with the reason. */
int attn_claim_take(uint32_t threads, double look, double patience, struct attn_claim *claim,
                    char *why, size_t size);

/* Begins to count steal anew. */
void attn_claim_restart(struct attn_claim *claim);

/* Share of the time since the claim, or its restart, that the host of this virtual machine took
 * away; 0 to 1. */
double attn_claim_steal(const struct attn_claim *claim);

void attn_claim_give(struct attn_claim *claim);

/* Between these two, the calling thread runs on the claimed processors only. It waits while a batch
 * runs there. Elsewhere it would wake another processor each time: one that has nothing to do may
 * spin before it sleeps, and if it is half of the same core, it slows the batch. */
void attn_claim_enter(struct attn_claim *claim);
void attn_claim_leave(const struct attn_claim *claim);

/* order[] gets the indices of `count` processors, the idlest first; cores[i] is the core of
 * processor i. */
void attn_claim_order(const double *load, const uint32_t *cores, size_t count, size_t *order);

#endif
