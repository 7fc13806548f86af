/* SPDX-License-Identifier: Apache-2.0 */
/* blocking.h - how large a tile of keys and an item of rows may be, from the sizes of the caches.
 *
 * The model has three shares.
 *   TILE_SHARE of the second-level cache: packed K and V of a tile. The micro-kernels stream them
 *   for each row group.
 *   ITEM_SHARE of the second-level cache: q and the sums of an item. They are used once per tile.
 *   SCORE_SHARE of the first-level cache: the scores of one row group, which are written, weighed
 *   and read at once.
 * The rest of both caches is for what passes through: the next tile, out, and the lines of the
 * panel at hand. Half or twice a share changes the speed by less than 5 %. */
#ifndef ATTN_SIMD_BLOCKING_H
#define ATTN_SIMD_BLOCKING_H

#include <stdint.h>

/* Bytes of the data caches of one processor. */
struct attn_caches {
    int64_t l1, l2;
};

/* The caches of the processor that calls, as the kernel lists them below `root`
 * ("/sys/devices/system/cpu"). POSIX names for them give 0 in virtual machines. Sizes that the
 * kernel does not list are 32 KiB and 1 MiB. */
struct attn_caches attn_caches_read(const char *root);

/* How many floats may be taken by packed K and V of a tile, by q and the sums of an item, and by
 * the scores of a row group. */
int64_t attn_blocking_tile(const struct attn_caches *caches);
int64_t attn_blocking_item(const struct attn_caches *caches);
int64_t attn_blocking_scores(const struct attn_caches *caches);

#endif
