/* SPDX-License-Identifier: Apache-2.0 */
/* share.h - the work of a job cut into one consecutive share a thread, and a share into items.
 *
 * Heads b * groups + g are cut into units: mr folded rows or, where keys are split, one part of the
 * keys with all rows. Rows do not depend on what is computed with them, nor parts on who computes
 * them: shares may be cut anywhere between units, anew in each run, for lengths are data. */
#ifndef ATTN_SIMD_SHARE_H
#define ATTN_SIMD_SHARE_H

#include "flash.h"

struct attn_share {
    int64_t head, unit;
};

int64_t attn_share_units(const struct attn_flash *job, int mr);

/* Sets share[0 .. threads]: thread t has the units from share[t] up to share[t + 1], about as much
 * work as any other by the keys that the masks leave. */
void attn_share_cut(const struct attn_flash *job, int mr, int threads, struct attn_share *share);

/* The item that begins at *at, which moves past it; false where `end` is reached. What a share has
 * of a head becomes items of about equal size. */
bool attn_share_next(const struct attn_flash *job, int mr, const struct attn_share *end,
                     struct attn_share *at, struct attn_flash_item *item);

#endif
