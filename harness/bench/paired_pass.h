/* SPDX-License-Identifier: Apache-2.0 */
/* paired_pass.h - what paired.c, which chooses the rounds of turns, and paired_round.c, which plays
 * one, share. i is the index of a case in the block, b that of a backend in the roster. */
#ifndef ATTN_PAIRED_PASS_H
#define ATTN_PAIRED_PASS_H

#include "bench/block.h"
#include "bench/choose.h"
#include "live/player.h"

/* One round of a block. */
struct attn_pass {
    int round;
    bool wanting;      /* cases want some of those planned, which have them alone */
    double starting_s; /* what the workers of the last round took to start */
    struct attn_session *session;
    struct attn_block *block;
    struct attn_seat *seats; /* [backends] */
    struct attn_claim claim; /* n 0: none */
    struct attn_choice choices[ATTN_BLOCK_CASES];
    struct attn_group_plan plan; /* batches of a round */
    char *why;                   /* receives what went wrong */
    size_t size;
};

static inline struct attn_entry *attn_pass_entry(const struct attn_pass *pass, size_t i, size_t b)
{
    return attn_block_entry(pass->block, pass->session->roster.count, i, b);
}

static inline struct attn_paired_rounds *attn_pass_rounds(const struct attn_pass *pass, size_t i,
                                                          size_t b)
{
    return &pass->block->paired[i * pass->session->roster.count + b];
}

/* Most rounds of a case. */
int attn_pass_rounds_most(const struct attn_settings *s);

/* So many rounds of a case the budget is planned for. */
int attn_pass_rounds_planned(const struct attn_pass *pass);

/* Can a backend have turns of a case? */
bool attn_pass_can_play(const struct attn_pass *pass, size_t i, size_t b);

/* Is it to have more of them? */
bool attn_pass_takes_part(const struct attn_pass *pass, size_t i, size_t b);

/* Adds a round of a backend to those there are, whose number is below attn_pass_rounds_most. NULL:
 * no memory. */
struct attn_paired_round *attn_pass_add(const struct attn_pass *pass, size_t i, size_t anchor,
                                        size_t b, const struct attn_paired_round *made);

/* Plays a round of a case with all its backends, in groups that share the anchor where memory is
 * short, and records it. Returns 0, or -1 with the reason in pass->why. */
int attn_pass_time_case(struct attn_pass *pass, size_t i);

/* What a side is expected to take in a round with a budget, in seconds. */
double attn_pass_side_cost(const struct attn_entry *entry);

#endif
