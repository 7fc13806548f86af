/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - chooses the rows of a problem to check if all of them would cost too much. */
#ifndef ATTN_ROWS_H
#define ATTN_ROWS_H

#include "reference/reference.h"

/* Chooses units of an output that leads others. Takes all units if their ref_output_cost, for the
 * keys that they go through, is within `budget` together; else a sample. Units that differ only in
 * their last index are a group: the queries of one batch and head. A sample has the first and the
 * last unit of every group, rows of global tokens and beside them, and the rows with the most and
 * the fewest keys, whatever they cost; then
 * one unit of every 64 in a row of every group, then random ones, until the budget is used. If it
 * does not last for one of every 64, the groups take turns. If groups cost something besides
 * (ref_op.group_cost), and that is far beyond the budget, only some of them have units. Half of the
 * random ones are next to the edges of usual tiles. `seed` decides the random ones. units->index is
 * allocated (free it), or NULL for all. Returns 0, or -1: no memory. */
int attn_rows_choose(const struct attn_problem *problem, int output, double budget, uint64_t seed,
                     struct ref_units *units);

#endif
