/* SPDX-License-Identifier: Apache-2.0 */
/* grade.h - an answer and its bound, measured by the best arithmetic of the type. Private to this
 * folder.
 *
 * The best arithmetic sums in f32 (f64 for f64), keeps scores, p and projections in that type, sums
 * the denominator from the same p, goes over all keys in one tile, and rounds exp, tanh and log
 * correctly. Its bound does not depend on what a plan declares. */
#ifndef ATTN_GRADE_H
#define ATTN_GRADE_H

#include "judge/evidence.h"
#include "judge/judgement.h"

/* The numerics of the best arithmetic for an element type. */
struct attn_numerics attn_best_numerics(uint32_t dtype);

/* The bounds of the best arithmetic on a sample of the rows that were judged. */
struct attn_best;
void attn_best_free(struct attn_best *best);

/* Sets grade and slack of a verdict whose evidence this is. *best belongs to the instance and the
 * rows of the evidence; it is made at the first call. Leaves both at 0 if they cannot be had. */
void attn_grade(struct attn_best **best, const struct attn_evidence *evidence,
                struct attn_judgement *verdict);

#endif
