/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.h - the operator in MPFR with 256 bits, written independently, to test the reference. */
#ifndef ATTN_REFERENCE_TESTS_ORACLE_H
#define ATTN_REFERENCE_TESTS_ORACLE_H

#include "reference/tests/made.h"

/* Results, rounded to double at the end. Rows without an allowed key follow the suite's rule.
 * `size` is the natural size of an element of out: sum p |v| (through |W_o| in multi-head
 * attention). Errors are measured in ulps of it. */
struct oracle {
    double *out, *size; /* [rows, width] */
    double *lse;        /* [B, Hq, Sq] */
    double *weights;    /* [B, Hq, Sq, Sk] */
};

void oracle_compute(struct made *m, struct oracle *o);
void oracle_free(struct oracle *o);

#endif
