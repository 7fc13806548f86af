/* SPDX-License-Identifier: Apache-2.0 */
/* instructions.h - whether runs execute more instructions than in an earlier run (bench --count).
 */
#ifndef ATTN_REPORT_INSTRUCTIONS_H
#define ATTN_REPORT_INSTRUCTIONS_H

#include <stdio.h>

#include "report/pairs.h"

/* A count may grow by this share. Two counts of one build differ by far less, so that no interval
 * is needed. */
#define ATTN_INSTRUCTIONS_MARGIN 0.005

struct attn_instructions {
    size_t compared, grew; /* results with a count on both sides */
    size_t lost;           /* with one in the base alone */
    json_t *list;          /* {backend, case, base, new, reason} of each that grew or was lost */
};

/* Compares the counts of paired results, one for each case and backend. Returns 0, or -1: no
 * memory. */
int attn_instructions_judge(const struct attn_pairs *pairs, struct attn_instructions *out);

/* One line for the counts, one for each that grew or was lost. Nothing where none was counted. */
void attn_instructions_put(const struct attn_instructions *instructions, FILE *out);
void attn_instructions_free(struct attn_instructions *instructions);

#endif
