/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.h - what each backend supports, asked of its own `supports` over a grid of problems. */
#ifndef ATTN_MATRIX_H
#define ATTN_MATRIX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/session.h"

/* One line of the grid: a feature, as the smallest problem that has it. It is asked in each type.
 */
struct attn_feature {
    const char *group, *name;
    const char *line; /* case line without dtype */
    uint64_t flags;   /* ATTN_FLAG_* that no case line can set, beside the problem's own */
    bool
        has_empty_row; /* where it is supported, the rule for rows without keys is asked for, too */
};
extern const struct attn_feature attn_features[]; /* by group, terminated by a NULL name */

/* The object of matrix.json (harness/results/README.md): a column for each backend of the session's
 * roster, and for those absent. A backend whose `supports` crashes, hangs or breaks a promise is
 * asked no further; its column says so. NULL with the reason: no memory, or interrupted. */
json_t *attn_matrix_ask(const struct attn_session *session, char *why, size_t size);

#endif
