/* SPDX-License-Identifier: Apache-2.0 */
/* diagnose.h - what a fill made on purpose proves beyond the bound, said in words. */
#ifndef ATTN_DIAGNOSE_H
#define ATTN_DIAGNOSE_H

#include "judge/judge.h"
#include "reference/reference.h"

/* Looks at the outputs in the instance's memory with what the fill of its case knows: census counts
 * keys, exact knows the bits, one_hot the row of v, rounding the mean error. `rows` and `ref` are
 * those of the verdict. A verdict that held fails where the fill says so; one that failed gets the
 * fill's sentence in front of its reason. Other fills: nothing. */
void attn_diagnose(const struct attn_instance *instance, const struct attn_numerics *numerics,
                   const struct ref_rows *rows, const struct ref_result *ref,
                   struct attn_judgement *verdict);

#endif
