/* SPDX-License-Identifier: Apache-2.0 */
/* units.h - an output of a problem in memory, unit by unit (reference/op.h). */
#ifndef ATTN_UNITS_H
#define ATTN_UNITS_H

#include <stddef.h>

#include "reference/reference.h"

struct attn_units {
    const struct ref_op *op;
    int number; /* of the output */
    const struct ref_output *output;
    const struct attn_tensor *tensor; /* NULL: the problem does not ask for this output */
    struct ref_shape shape;
    int64_t count;     /* units */
    int64_t width;     /* elements of one unit */
    int64_t followers; /* units per unit of the leader */
    int64_t step;      /* between elements of a unit, in elements of the tensor; -1: it varies */
};

void attn_units_of(const struct attn_problem *problem, int output, struct attn_units *units);

/* Writes the indices of element c of a unit, by axis of the tensor. Returns their number. */
int attn_unit_indices(const struct attn_units *units, int64_t unit, int64_t c,
                      int64_t at[ATTN_MAX_RANK]);

/* The place of element c of a unit, in elements of the tensor. For loops over all elements:
 * attn_unit_base gives the place of element 0, attn_unit_spread that of element c from there. */
int64_t attn_unit_offset(const struct attn_units *units, int64_t unit, int64_t c);
int64_t attn_unit_base(const struct attn_units *units, int64_t unit);
int64_t attn_unit_spread(const struct attn_units *units, int64_t base, int64_t c);

static inline int64_t attn_unit_element(const struct attn_units *units, int64_t base, int64_t c)
{
    return units->step >= 0 ? base + c * units->step : attn_unit_spread(units, base, c);
}

/* Element c of a unit that begins at `base`. If the operator compares other numbers than those
 * stored, the one of these. */
double attn_unit_read(const struct attn_units *units, int64_t base, int64_t c);

/* "out[b0 h3 i17 c5]": the letters of backend.h for batches, heads, queries and keys, and c, d, ...
 * for columns. */
void attn_unit_name(const struct attn_units *units, const int64_t at[ATTN_MAX_RANK], char *text,
                    size_t size);

/* Copies the values of all units, which are in the order of units, into the order of the tensor. */
void attn_units_in_order(const struct attn_units *units, const double *values, double *ordered);

#endif
