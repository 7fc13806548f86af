/* SPDX-License-Identifier: Apache-2.0 */
/* examine.h - all that is said about a backend's outputs: the judge's verdict, what the fill of the
 * case proves beyond it (diagnose.h), and the mistake that explains the errors (hypotheses.h). */
#ifndef ATTN_EXAMINE_H
#define ATTN_EXAMINE_H

#include "judge/judge.h"

/* Judges the outputs as attn_judge_outputs does, and completes the verdict and its reason. */
void attn_examine_outputs(struct attn_judge *judge, const struct attn_numerics *numerics,
                          bool approximate, struct attn_judgement *verdict);

#endif
