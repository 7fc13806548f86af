/* SPDX-License-Identifier: Apache-2.0 */
/* every_row.h - one row of every.h. */
#ifndef ATTN_REFERENCE_EVERY_ROW_H
#define ATTN_REFERENCE_EVERY_ROW_H

#include <stdint.h>

/* One row: unit `unit` of output 0. The arrays are valid only during the visit. */
struct ref_every_row {
    int64_t unit;
    const double *out, *bound; /* [Dv] */
    double lse, lse_bound;     /* lse_bound: for the type of the lse that the problem asks for */
};

/* Distinct queries that a head may have. */
enum { REF_EVERY_QUERIES = 64 };

#endif
