/* SPDX-License-Identifier: Apache-2.0 */
/* guesses.h - hypotheses, grouped by what they look at. Each one proposes itself to the sample if
 * it explains enough of it. Private to this folder. */
#ifndef ATTN_GUESSES_H
#define ATTN_GUESSES_H

#include "explain/mutations.h"
#include "explain/sample.h"

/* guesses_rows.c */
void attn_guess_blank(struct attn_sample *sample);
void attn_guess_forbidden(struct attn_sample *sample);
void attn_guess_empty_rows(struct attn_sample *sample);
void attn_guess_factor(struct attn_sample *sample);
void attn_guess_row_factors(struct attn_sample *sample);
void attn_guess_other_rows(struct attn_sample *sample);
/* guesses_lse.c */
void attn_guess_lse(struct attn_sample *sample);
/* guesses_keys.c */
void attn_guess_lost_keys(struct attn_sample *sample);
/* guesses_problems.c: the answers of other problems: one mutation, the tables of mistakes, another
 * scale. */
void attn_guess_mutation(struct attn_sample *sample, const struct attn_mutation *mutation);
void attn_guess_mistakes(struct attn_sample *sample);
void attn_guess_scale(struct attn_sample *sample);

#endif
