/* SPDX-License-Identifier: Apache-2.0 */
/* judge.h - compares what a backend computed with the reference, element by element. */
#ifndef ATTN_JUDGE_H
#define ATTN_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "judge/evidence.h"
#include "judge/judgement.h"
#include "reference/approximation.h"
#include "reference/reference.h"
#include "tensor/instance.h"

/* Every row is checked up to this many multiply-adds of reference and bound together; above it rows
 * are sampled. Up to a second of one core. */
#define ATTN_JUDGE_BUDGET 6e8
/* The same for a case that no fill fits under which every row is judged (attn_fill_is_whole), where
 * fills are tried. Ten to fifteen seconds of one core. */
#define ATTN_DENSE_BUDGET 6e10
/* The same for each further fill of a case, and where timings have a budget. */
#define ATTN_FILL_BUDGET 6e7

/* One instance under judgement: the rows to check, and a reference for each numerics that was asked
 * for. References are kept until the judge is freed. */
struct attn_judge;

int attn_judge_create(const struct attn_instance *instance, double budget, int threads,
                      struct attn_judge **out, char *why, size_t size);
void attn_judge_free(struct attn_judge *judge);

/* Judges the outputs in the instance's memory, which a plan with these numerics has computed. */
void attn_judge_outputs(struct attn_judge *judge, const struct attn_numerics *numerics,
                        bool approximate, struct attn_judgement *verdict);

/* The evidence of the last attn_judge_outputs. It is valid until the judge is asked again or freed.
 * False: no verdict was reached; its status is ERROR. */
bool attn_judge_evidence(const struct attn_judge *judge, struct attn_evidence *evidence);

/* Sets grade and slack of the last verdict of attn_judge_outputs, while the outputs are still in
 * the instance's memory. */
void attn_judge_grade(struct attn_judge *judge, struct attn_judgement *verdict);

/* Compares the reference with a pack's expected answers, with the pack's rtol and atol. max_ratio
 * is the difference over what they allow. PASS, FAIL, or SKIP if the instance has none. */
void attn_judge_reference(struct attn_judge *judge, struct attn_judgement *verdict);

/* How far the problem is from softmax attention, on rows that are checked. rows of it is 0 if it
 * approximates nothing, or if there is no memory. */
void attn_judge_approximation(const struct attn_judge *judge, struct ref_approximation *a);

/* The rule for one element: its error over its bound. Above 1, or infinite: refused. */
double attn_judge_ratio(uint32_t dtype, double got, double want, double bound);

#endif
