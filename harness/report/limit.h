/* SPDX-License-Identifier: Apache-2.0 */
/* limit.h - the best rate that the machine allows a result, as its run measured it. */
#ifndef ATTN_REPORT_LIMIT_H
#define ATTN_REPORT_LIMIT_H

#include "report/types.h"

/* What a share refers to, as a sentence without its full stop. */
#define ATTN_SHARE_CONVENTION                                                                      \
    "The share is relative to the multiply-add peak of the type at the machine's widest rung "     \
    "(bf16 and f16 without such instructions: the peak of f32). If a level of memory is named, "   \
    "one read of each operand from there is the lower limit, and the share is relative to that. "  \
    "The level is the nearest cache that holds all operands; with cold caches it is memory"

/* Sets the share and the limit of a row whose other fields are set. The share is the rate over the
 * lower of both roofs. There is no share if a roof was not measured, if the backend computes
 * nothing or computes on a device, or if the counted FLOPs are not the whole work (scores that are
 * no products). */
void attn_limit_set(const json_t *machine, const struct attn_view_backend *backend,
                    struct attn_view_row *row);

/* "83 %" of the multiply-add peak, "91 % L2"; "" if there is no share. */
const char *attn_limit_text(const struct attn_view_row *row, char *text, size_t size);

/* All ceilings of the run in one line of at most `size` bytes; a dash if there are none. */
void attn_ceilings_text(const json_t *machine, char *text, size_t size);

#endif
