/* SPDX-License-Identifier: Apache-2.0 */
/* every.h - every row at any length, where few queries are distinct.
 *
 * Attention: rows with the same query share their scores. If the keys of each row are few ranges
 * (no boolean mask, no bias, no ALiBi, no dropout) and every v is 1 or -1, a row needs only sums
 * over its ranges: a tree of partial sums gives each in O(log Sk) steps, by additions alone. A
 * window in steps is a range of keys that are sorted by what the step leaves of them. The bound
 * follows from sums of the same kind (BOUND.md, "Every row").
 *
 * Operators with REF_ROWS_ALIKE: one row of each query stands for all, whatever v is. */
#ifndef ATTN_REFERENCE_EVERY_H
#define ATTN_REFERENCE_EVERY_H

#include "reference/every_row.h"
#include "reference/reference.h"

/* Is the problem of this kind? The data of q and v are not looked at. If not, says what hinders. */
bool ref_every_fits(const struct attn_problem *problem, char *why, size_t size);

/* Multiply-adds with `queries` distinct queries in each head. */
double ref_every_cost(const struct attn_problem *problem, int64_t queries);

/* Computes every row and calls `visit` for it, from this thread, head by head. In attention rows of
 * one query follow one another. A row without keys is left out if the numerics give it equal
 * weights. Of the request only numerics and threads count: bounds are those of structured data.
 * Returns as ref_compute does; ATTN_UNSUPPORTED also if a head has too many queries, v is not a
 * sign, or a score may leave the range of its type. */
int ref_every_row(const struct attn_problem *problem, const struct ref_request *request,
                  void (*visit)(void *context, const struct ref_every_row *row), void *context,
                  char *why, size_t size);

#endif
