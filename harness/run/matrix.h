/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.h - asks `supports` of each backend about a grid of problems. */
#ifndef ATTN_MATRIX_H
#define ATTN_MATRIX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/session.h"

/* One line of the grid: a feature, as the smallest problem that has it. It is asked about in each
 * type. */
struct attn_feature {
    const char *group, *name;
    const char *line; /* case line without dtype */
    uint64_t flags;   /* ATTN_FLAG_* that no case line can set; added to the problem's own */
    /* It has rows without keys: if it is supported, the rule for such rows is asked for, too. */
    bool has_empty_row;
};
extern const struct attn_feature attn_features[]; /* by group, terminated by a NULL name */

/* The object of matrix.json (harness/results/README.md): one column for each backend of the
 * session's roster, and for each absent one. A backend whose `supports` crashes, hangs or breaks a
 * promise is not asked again; its column says so. NULL with the reason: no memory, or interrupted.
 */
json_t *attn_matrix_ask(const struct attn_session *session, char *why, size_t size);

#endif
