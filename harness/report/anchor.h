/* SPDX-License-Identifier: Apache-2.0 */
/* anchor.h - times relative to a backend that both runs have timed in the same rounds. */
#ifndef ATTN_REPORT_ANCHOR_H
#define ATTN_REPORT_ANCHOR_H

#include "report/view.h"

/* Whether the backend of this row is the anchor: `name` alone, or with its options. */
bool attn_anchor_is(const struct attn_view *view, const struct attn_view_row *row,
                    const char *name);

/* The median of each round over the anchor's median of the same case, threads, cache and round, as
 * attn_view_round_medians gives them. 0 where the anchor has no such result, or another number of
 * rounds. */
size_t attn_anchored_medians(const struct attn_view *view, const struct attn_view_row *row,
                             const char *name, double **medians);

#endif
