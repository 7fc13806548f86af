/* SPDX-License-Identifier: Apache-2.0 */
/* limit.h - what the machine allows a result at most, as its run measured it. */
#ifndef ATTN_REPORT_LIMIT_H
#define ATTN_REPORT_LIMIT_H

#include "report/types.h"

/* What a share is of, in a sentence without its full stop. */
#define ATTN_SHARE_CONVENTION                                                                      \
    "The share is of the multiply-add peak of the type (bf16 and f16 without such instructions: "  \
    "of f32) at the machine's widest rung or, where a level of memory is named, of what a read "   \
    "of "                                                                                          \
    "each operand once from there allows, if that is less: the nearest cache that holds them "     \
    "all, "                                                                                        \
    "in the cold cache memory"

/* Sets the row's share and its limit, once all its other fields are set: the rate over the lesser
 * of both roofs. No share: a roof was not measured, the backend computes nothing or on a device,
 * or the counted FLOPs are not the whole work (scores other than products). */
void attn_limit_set(const json_t *machine, const struct attn_view_backend *backend,
                    struct attn_view_row *row);

/* "83 %" of the multiply-add peak, "91 % L2"; "" without a share. */
const char *attn_limit_text(const struct attn_view_row *row, char *text, size_t size);

/* All ceilings of the run in a line of at most `size`; a dash without any. */
void attn_ceilings_text(const json_t *machine, char *text, size_t size);

#endif
