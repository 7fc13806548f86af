/* SPDX-License-Identifier: Apache-2.0 */
/* account.h - which of the checks that apply to a case were made, and why the others were not. */
#ifndef ATTN_ACCOUNT_H
#define ATTN_ACCOUNT_H

#include "run/entry.h"

/* The checks of a verdict by number: two placements, then fills, then checks. */
#define ATTN_PART_END    0
#define ATTN_PART_START  1
#define ATTN_PART_FILLS  2                                        /* + enum attn_fill */
#define ATTN_PART_CHECKS (ATTN_PART_FILLS + (int)ATTN_FILL_COUNT) /* + enum attn_check */
#define ATTN_PART_COUNT  (ATTN_PART_CHECKS + (int)ATTN_CHECK_COUNT)
_Static_assert(ATTN_PART_COUNT <= (int)ATTN_PARTS_MAX, "struct attn_entry has room for all");

/* Notes why a check that fits the case is not made. The first reason stays. */
void attn_account_miss(struct attn_entry *entry, int part, enum attn_why why);

/* Gives every check that fits the case and was not made its reason, after all were tried.
 * `instance` is the case's own. Does nothing for an entry without a verdict on outputs. */
void attn_account_close(const struct attn_session *session, unsigned fits,
                        struct attn_entry *entry);

/* Why a part was not made; NONE: it was made, or does not apply. */
enum attn_why attn_account_why(const struct attn_entry *entry, int part);

/* How many checks apply, and how many of them were made. *apply is 0 if nothing was judged. */
void attn_account_count(const struct attn_entry *entry, int *made, int *apply);

/* Were at least half of the checks made that apply and that the command line does not leave out?
 * Otherwise a sentence goes into (why, size). */
bool attn_account_enough(const struct attn_entry *entry, char *why, size_t size);

/* The name of a part as in a record's `checks`; the reason in words. */
const char *attn_part_name(int part);
const char *attn_why_text(enum attn_why why);

/* Adds to the record of a verdict how many checks were made, and its power. */
void attn_account_put(json_t *record, const struct attn_entry *entry);

#endif
