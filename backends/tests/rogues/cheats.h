/* SPDX-License-Identifier: Apache-2.0 */
/* cheats.h - where the backend asks if it should cheat: about its time, its memory, its numerics.
 */
#ifndef ATTN_ROGUE_CHEATS_H
#define ATTN_ROGUE_CHEATS_H

#include "rogue.h"

/* The state of a cheat; false if there is no memory for it. */
bool rogue_cheat_open(struct rogue_job *job);
void rogue_cheat_close(struct rogue_cheat *cheat);

void rogue_cheat_bind(struct rogue_job *job);
void rogue_cheat_release(struct rogue_job *job);
/* Replaces operands by copies of earlier ones. */
void rogue_cheat_operands(struct rogue_job *job);
/* The same for the operands of mha. */
void rogue_cheat_weights(struct rogue_job *job, struct attn_operands *given);
/* False: nothing is to be computed. */
bool rogue_cheat_before(struct rogue_job *job);
void rogue_cheat_after(struct rogue_job *job);

void rogue_declare_falsely(struct attn_numerics *numerics, const struct attn_problem *p);

#endif
