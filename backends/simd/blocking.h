/* SPDX-License-Identifier: Apache-2.0 */
/* blocking.h - how large a tile of keys and an item of rows may be, from the sizes of the caches.
 *
 * The model has three shares. What the micro-kernels stream again and again for each row group,
 * packed K and V of a tile, takes TILE_SHARE of the second-level cache. What they come back to once
 * a tile, q and the sums of an item, takes ITEM_SHARE beside it. The scores of one row group, which
 * are written, weighed and read at once, take SCORE_SHARE of the first-level cache. What is left of
 * both is for what passes through: the next tile, out, and the lines of the panel at hand. Halving
 * or doubling a share changes the speed by less than 5 %. */
#ifndef ATTN_SIMD_BLOCKING_H
#define ATTN_SIMD_BLOCKING_H

#include <stdint.h>

/* Bytes of the data caches of one processor. */
struct attn_caches {
    int64_t l1, l2;
};

/* Of the processor that calls, as the kernel lists them below `root` ("/sys/devices/system/cpu");
 * the POSIX names for them are 0 in virtual machines. 32 KiB and 1 MiB stand for what it does not
 * say. */
struct attn_caches attn_caches_read(const char *root);

/* Floats that packed K and V of a tile may take, those that q and the sums of an item may take, and
 * the scores of a row group. */
int64_t attn_blocking_tile(const struct attn_caches *caches);
int64_t attn_blocking_item(const struct attn_caches *caches);
int64_t attn_blocking_scores(const struct attn_caches *caches);

#endif
