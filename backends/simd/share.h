/* SPDX-License-Identifier: Apache-2.0 */
/* share.h - cuts the work of a job into one consecutive share per thread, and a share into items.
 *
 * Each head b * groups + g is cut into units: mr folded rows or, if keys are split, one part of the
 * keys with all rows. Results do not depend on the rows computed together, nor on who computes a
 * part, so shares may be cut between any two units. They are cut anew in each run, because lengths
 * are data. */
#ifndef ATTN_SIMD_SHARE_H
#define ATTN_SIMD_SHARE_H

#include "flash.h"

/* Where a share begins. */
struct attn_share {
    int64_t head, unit;
};

/* Units of a head. */
int64_t attn_share_units(const struct attn_flash *job, int mr);

/* Sets share[0 .. threads]: thread t has the units from share[t] up to share[t + 1]. Shares have
 * about the same work, by the keys that the masks leave. */
void attn_share_cut(const struct attn_flash *job, int mr, int threads, struct attn_share *share);

/* The item that begins at *at. Moves *at past it. Returns false at `end`. The units of a head
 * within a share become items of about equal size. */
bool attn_share_next(const struct attn_flash *job, int mr, const struct attn_share *end,
                     struct attn_share *at, struct attn_flash_item *item);

#endif
