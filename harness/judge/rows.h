/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - which rows of a problem are checked where all of them would cost too much. */
#ifndef ATTN_ROWS_H
#define ATTN_ROWS_H

#include "reference/reference.h"

/* Of an output that leads others: all units where their ref_output_cost, for the keys that they go
 * through, stays within `budget` all together; else a sample. Units that differ in their last index
 * alone are a group: the queries of one batch and head. A sample has of every group the first and
 * the last, those around multiples of usual tile sizes, the rows with the most and the fewest keys,
 * and random ones from a fixed seed, until the budget is used (but never fewer than the first two
 * kinds). units->index is allocated (free it), or NULL for all. Returns 0, or -1: no memory. */
int attn_rows_choose(const struct attn_problem *problem, int output, double budget,
                     struct ref_units *units);

#endif
