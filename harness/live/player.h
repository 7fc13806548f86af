/* SPDX-License-Identifier: Apache-2.0 */
/* player.h - a backend whose plan stays live in its worker while others have their turns. */
#ifndef ATTN_LIVE_PLAYER_H
#define ATTN_LIVE_PLAYER_H

#include "host/live.h"
#include "live/turns.h"
#include "run/entry.h"
#include "run/seat.h"
#include "run/variants.h"

struct attn_player {
    struct attn_seat *seat; /* not owned */
    struct attn_live *live; /* NULL: it has no plan */
    bool parked; /* its threads would take the others' processors: they are stopped meanwhile */
    struct attn_outcome outcome; /* of the newest request; in the end, of the judgement, too */
};

/* Leaves a plan for these inputs ready in the worker of `seat`, which is started if need be.
 * *iterations: runs of a batch; 0: not known yet, and set. On failure `live` is NULL, and `outcome`
 * says why. attn_player_leave must follow. */
void attn_player_enter(struct attn_player *player, struct attn_seat *seat,
                       const struct attn_variants *variants, int64_t *iterations,
                       struct attn_live_sample *first);

/* Ends the timing, and judges what was computed in it. Takes the numerics of the plan into
 * entry->plan. `outcome` is that of the first of batches, checks and judgement that failed. */
void attn_player_leave(struct attn_player *player, struct attn_variants *variants,
                       struct attn_entry *entry);

/* A side of this player, and the world that it lives in. */
struct attn_side attn_player_side(struct attn_player *player);
struct attn_turns_world attn_player_world(void);

#endif
