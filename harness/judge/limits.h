/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - how much a plan may declare before its verdict is mistrusted.
 *
 * The error bound is built from what a plan declares. A declaration that is wide enough hides every
 * mistake. So each field of struct attn_numerics that widens the bound has a limit: what the
 * coarsest arithmetic does with which kernels of that type are known to work. README.md says where
 * each limit comes from. */
#ifndef ATTN_LIMITS_H
#define ATTN_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "attnbench/backend.h"

/* What is declared, and the most that may be. A type is given as its unit roundoff. */
struct attn_limit {
    const char *name; /* of the field, or of a product of fields */
    double value, most;
    uint32_t type; /* the declared type if the field is a type, else 0 */
};

enum { ATTN_LIMITS_MAX = 29 };

/* Writes the limits for a plan of this problem, and returns how many there are. */
int attn_limits_of(const struct attn_problem *problem, const struct attn_numerics *numerics,
                   struct attn_limit limits[ATTN_LIMITS_MAX]);

/* True if every field is within its limit. Else writes which is not, its value and its limit. */
bool attn_limits_hold(const struct attn_problem *problem, const struct attn_numerics *numerics,
                      char *why, size_t size);

#endif
