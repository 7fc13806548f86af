/* SPDX-License-Identifier: Apache-2.0 */
/* vary.h - inputs that change during a timing, so that no earlier result is right for a later run.
 *
 * Between two samples all inputs change: the two sets that the host sent alternate in one place.
 * Between two runs one element changes: the spots go away from their home values one after the
 * other, and then back in the same order. When all of them are home, or all away, the host has a
 * reference for the result; one such run is drawn at random, and its outputs are kept. The host has
 * a reference for one of the states between as well, and does not say to plugins which. Otherwise
 * two of three runs could be left out. In some timings the run that is kept is one of those that
 * find all inputs exchanged: their time tells what a result costs, so they may not be left out. */
#ifndef ATTN_WORKER_VARY_H
#define ATTN_WORKER_VARY_H

#include <stdbool.h>
#include <string.h>

#include "worker/memory.h"
#include "worker/signs.h"

struct attn_vary_spot {
    unsigned char *at;
    uint64_t away; /* bits of the element */
    uint64_t flip; /* the bits in which home and away differ, in the set in place */
    uint32_t size; /* of the element */
};

struct attn_vary {
    const struct attn_message_request *request;
    struct attn_owned *owned;
    uint32_t n_spots, turn; /* the spot that changes next */
    uint32_t away;          /* 1: when turn is 0, all spots are away */
    uint32_t set;           /* 0 or 1: the set in place */
    struct attn_vary_spot spots[ATTN_SPOTS_MAX];
    uint64_t random;         /* state of the generator */
    double runs;             /* timed so far */
    int64_t countdown;       /* runs until the outputs are kept; negative: they are not */
    bool mixed;              /* they will be those of a state in which only some spots are away */
    bool keeps_found;        /* they will be those of a run that found all inputs exchanged */
    double found;            /* such runs so far */
    bool ends;               /* inputs are as the host sent them from now on */
    struct attn_signs signs; /* as they are turned now */
    uint64_t seed;           /* by which they are scrambled now; 0: they are not */
    bool scrambled;          /* those of the last timed run were */
    uint32_t drawn;          /* as in the reply, like the next */
    uint64_t drawn_seed;
};

/* Owned operands of the first set, all spots at home. */
void attn_vary_begin(struct attn_vary *vary, const struct attn_message_request *request,
                     struct attn_owned *owned);

/* Reads all inputs, so that they are in the caches as those of a timed run are. */
void attn_vary_warm(const struct attn_vary *vary);

/* Changes one element. Part of the time of a run: a few instructions, which a backend that computes
 * nothing has in its time, too. */
static inline void attn_vary_step(struct attn_vary *vary)
{
    if (vary->n_spots == 0)
        return;
    const struct attn_vary_spot *spot = &vary->spots[vary->turn];
    uint16_t half;
    uint32_t single;
    uint64_t twice;
    switch (spot->size) {
    case sizeof(half):
        memcpy(&half, spot->at, sizeof(half));
        half ^= (uint16_t)spot->flip;
        memcpy(spot->at, &half, sizeof(half));
        break;
    case sizeof(single):
        memcpy(&single, spot->at, sizeof(single));
        single ^= (uint32_t)spot->flip;
        memcpy(spot->at, &single, sizeof(single));
        break;
    case sizeof(twice):
        memcpy(&twice, spot->at, sizeof(twice));
        twice ^= spot->flip;
        memcpy(spot->at, &twice, sizeof(twice));
        break;
    default:
        break;
    }
    if (++vary->turn == vary->n_spots) {
        vary->turn = 0;
        vary->away ^= 1;
    }
}

/* Does the host have a reference for what a run computes now. */
static inline bool attn_vary_known(const struct attn_vary *vary)
{
    return vary->turn == 0;
}

/* enum attn_state of the inputs; attn_vary_known holds. */
uint32_t attn_vary_state(const struct attn_vary *vary);

/* Puts all spots back home. */
void attn_vary_home(struct attn_vary *vary);

/* Exchanges the inputs for those of the other set, if there are two; spots are at home then. They
 * are new each time: all that are not packed are scrambled by a seed (host/scramble.h) or, where
 * the request does not allow it, signs are turned (signs.h). */
void attn_vary_exchange(struct attn_vary *vary);

/* The same, but for the set, which stays. */
void attn_vary_renew(struct attn_vary *vary);

/* Makes the inputs new where they lie, without a call of the system; spots are at home. Returns
 * false if they stay as they are. */
bool attn_vary_refresh(struct attn_vary *vary);

/* After the last timed run: the inputs are as the host sent them, for good, and so is the result,
 * unless its inputs were scrambled (vary->scrambled). */
void attn_vary_end(struct attn_vary *vary);

/* Allows and forbids the backend to write to the inputs. */
void attn_vary_protect(const struct attn_vary *vary, bool protect);

/* After a run that found all inputs exchanged; spots are at home. Its result may be the one that is
 * kept: then no timed run is drawn any more. */
void attn_vary_found(struct attn_vary *vary);

/* Before `n` timed runs: draws whether one of them is to be kept, and which. In the end every timed
 * run so far whose inputs the host knows is as likely to be the one. */
void attn_vary_draw(struct attn_vary *vary, int64_t n);

/* Keeps the outputs as they are now for the host. */
void attn_vary_keep(struct attn_vary *vary);

#endif
