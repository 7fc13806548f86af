/* SPDX-License-Identifier: Apache-2.0 */
/* draft.h - a random case line that is being made. Private to this folder. */
#ifndef ATTN_CASE_DRAFT_H
#define ATTN_CASE_DRAFT_H

#include "case/case.h"
#include "case/operator.h"
#include "case/xorshift.h"
#include "reference/score.h"

enum { ATTN_DRAFT_WORDS = 40, ATTN_DRAFT_WORD_MAX = 256 };

/* The words drawn so far. In `sizes` only some fields are set: those that decide the cost of a
 * case, and those on which two keys must agree. */
struct attn_draft {
    uint64_t *state;
    const struct ref_op *op;
    const struct ref_score *score;
    struct attn_case sizes;
    struct attn_problem fields; /* of the operator's parameters */
    char words[ATTN_DRAFT_WORDS][ATTN_DRAFT_WORD_MAX];
    unsigned count;
};

/* ---- draft.c: draws ---- */

/* True in `share` percent of all calls. */
bool attn_draft_percent(struct attn_draft *draft, unsigned share);
/* From low to high, both included. */
int64_t attn_draft_range(struct attn_draft *draft, int64_t low, int64_t high);
int64_t attn_draft_number(struct attn_draft *draft, const int64_t *values, unsigned count);
const char *attn_draft_name(struct attn_draft *draft, const char *const *names, unsigned count);
/* A number in low <= x < high, in any spelling that the language reads. */
void attn_draft_real(struct attn_draft *draft, double low, double high, char text[32]);
/* ":bhqk" or some of its letters in any order; for all letters "" in half of the calls. */
void attn_draft_axes(struct attn_draft *draft, char text[8]);

/* ---- draft.c: words ---- */

void attn_draft_word(struct attn_draft *draft, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* key=part+part+..., in random order; key=none if there are no parts. */
void attn_draft_parts(struct attn_draft *draft, const char *key, const char *none,
                      char parts[][ATTN_DRAFT_WORD_MAX], unsigned count);
/* All words, in random order. */
void attn_draft_write(struct attn_draft *draft, char *text, size_t size);

/* ---- the keys, by what they are about ---- */

/* generate_sizes.c: sizes, and the keys of the operator. */
void attn_draft_sizes(struct attn_draft *draft);
/* generate_mask.c */
void attn_draft_mask(struct attn_draft *draft);

#endif
