/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.h - the operator in MPFR with 256 bits, written on its own: the oracle of the oracle. */
#ifndef ATTN_REFERENCE_TESTS_ORACLE_H
#define ATTN_REFERENCE_TESTS_ORACLE_H

#include "reference/tests/made.h"

/* Rounded to double at the end. Rows that have no allowed key follow the suite's rule. `size` is
 * the natural size of an element of out, sum p |v| (through |W_o| in multi-head attention), by
 * which errors are measured. */
struct oracle {
    double *out, *size; /* [rows, width] */
    double *lse;        /* [B, Hq, Sq] */
    double *weights;    /* [B, Hq, Sq, Sk] */
};

void oracle_compute(struct made *m, struct oracle *o);
void oracle_free(struct oracle *o);

#endif
