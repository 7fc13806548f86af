/* SPDX-License-Identifier: Apache-2.0 */
/* random_cases.h - draws random cases until enough of them can be checked. */
#ifndef ATTN_RANDOM_CASES_H
#define ATTN_RANDOM_CASES_H

#include "run/session.h"

/* Drawing ends after so many cases in a row that no backend takes, which is a second or two of
 * asking. A kernel that computes plain f32 attention alone takes one case in 550: to it such a row
 * happens once in 80 million cases. One that takes one in 2,000 still gets 150 cases on average. */
#define ATTN_RANDOM_IN_VAIN 10000

/* The share of --budget that drawing may use up after it has found a case: the rest is for checking
 * what was found. */
#define ATTN_RANDOM_SHARE 0.25

/* Appends `wanted` random cases to the list. A seed makes one sequence of cases. Without a session,
 * the list gets the first of them. With one, it gets the first that can be checked: `supports` of
 * at least one of the session's backends says yes. One is enough: if all had to, each backend would
 * be checked only on what all the others take, and two with nothing in common on nothing. A backend
 * that computes nothing has no say. One that crashes or hangs when it is asked takes the case, so
 * that a verdict says it. session->draws says what came of it, and why the cases are fewer than
 * wanted. Returns 0, or -1 with the reason: no memory. */
int attn_random_cases_draw(struct attn_session *session, uint64_t seed, size_t wanted,
                           struct attn_case_list *list, char *why, size_t size);

#endif
