/* SPDX-License-Identifier: Apache-2.0 */
/* flash_template.h - flash attention over a vector type. Each instance includes it once;
 * flash_avx2.c is the model. An instance has five parameters, which it sets before:
 *
 *   vf              the vector type, with its operations and VF_LANES, the floats that it holds (a
 *                   power of two, at most 16): vector_avx2.h, or a header vector_avx512*.h
 *   FLASH_MR        rows of a micro-kernel: 6, or 32 with tiles
 *   FLASH_NV        vectors in a row of a micro-kernel: 2 or 4. MR * NV sums must fit in registers.
 *   FLASH_TYPE      elements of the products' operands: ATTN_F32, ATTN_BF16 or ATTN_F16
 *   FLASH_PRODUCTS  how the products q k^T and p v are computed:
 *     FLASH_OF_FLOATS   vectors of floats. For every type of q, K and V, and for every score.
 *     FLASH_OF_PAIRS    vectors of pairs of FLASH_TYPE, sums in f32. This kind and the next two are
 *                       for q, K and V of FLASH_TYPE and for dot products only.
 *     FLASH_OF_CHAINS   the same, but FLASH_CHAIN products are summed in FLASH_TYPE before their
 *                       sum joins one in f32 (flash_kernel_f16.h)
 *     FLASH_OF_TILES    AMX tiles of pairs (flash_product_tiles.h). Between the steps of tiles,
 *                       vectors compute weights of other rows (flash_overlap.h).
 *
 * The template gives it run_item and merge_parts, for its struct attn_flash_isa (flash.h).
 *
 * The algorithm, for one item (consecutive folded rows of one key/value head):
 *   for each tile of key_block keys that some row may see:               sweep_tiles
 *     pack K and, unless its rows can be read in place, V                  take_keys
 *     for each group of MR rows that may see some of the tile:             attend_groups
 *       s = q k^T, or another score, for keys that the group may see       raw_scores
 *       softcap, bias, ALiBi, boolean mask; -inf in forbidden cells        finish_scores
 *       m = maximum of s and of the old m                                  start_softmax
 *       p = 2^(s - m)                                                      weigh_scores
 *       or, without a softmax, m = 0, p = f(s), l = 1                      weigh_row
 *       l = l * 2^(old m - m) + sum of p; then dropout of p                end_weights
 *       o = o * 2^(old m - m) + p v; the last tile stores o / l to out     join_group
 *   out = o / l for other rows; lse = m + log2(l)                          store_rows
 *   if weights are asked for, a second sweep over K stores them            store_weights
 *
 * A forbidden cell has s = -inf, so its p is exactly 0. But 0 * v is NaN if v is not finite. So
 * packing V notes which keys are not finite, and groups that meet such keys take a scalar path that
 * skips every cell that takes no part. The result of a row depends on nothing but the row: not on
 * its neighbours in the group, nor on items or threads. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "dropout.h"
#include "flash_meanwhile.h"

#define FLASH_OF_FLOATS 0
#define FLASH_OF_PAIRS  1
#define FLASH_OF_CHAINS 2
#define FLASH_OF_TILES  3

#define FLASH_PAIRS (FLASH_PRODUCTS != FLASH_OF_FLOATS)
#define FLASH_TILES (FLASH_PRODUCTS == FLASH_OF_TILES)

/* Inner extents of products are filled up to a multiple of this many elements. */
#if FLASH_TILES
#define FLASH_STEP AMX_INNER
#elif FLASH_PAIRS
#define FLASH_STEP 2
#else
#define FLASH_STEP 1
#endif

#define FLASH_NR     (FLASH_NV * VF_LANES) /* keys or columns of a micro-kernel */
#define LD           ATTN_FLASH_SCORE_STRIDE
#define FLASH_INLINE static inline __attribute__((always_inline))
/* For the products. Inlined into the driver, their sums would be spilled. */
#define FLASH_APART static __attribute__((noinline))

/* The parts, in the order in which data flows. Each part uses only parts above it. Floats and pairs
 * differ in some steps; two parts define the same functions then. */

/* Prefetches, a few lines at a time. */
#include "flash_fetch.h"
/* An item at work: its rows, a tile of keys, a group of rows. */
#include "flash_block.h"
/* The keys of rows: with gaps (global tokens, steps), and the range that holds them. */
#include "flash_sparse.h"

#include "flash_intervals.h"
/* Elements of operands as vectors of floats, and back. */
#include "flash_convert.h"
/* 2^x and tanh. */
#include "flash_exp.h"

/* q, K and V in the layouts that products read: queries, pack_k, pack_v. */
#if FLASH_PAIRS
#include "flash_pack_pairs.h"
#else
#include "flash_pack_floats.h"
#endif
/* What is prefetched: lines of the next tile and of the next group. */
#include "flash_ahead.h"

/* The two products: score_product, value_product. */
#include "flash_product.h"
#if FLASH_TILES
#include "flash_product_tiles.h"
#else
#if FLASH_PRODUCTS == FLASH_OF_CHAINS
#include "flash_kernel_f16.h"
#else
#include "flash_kernel_f32.h"
#endif
#include "flash_product_vectors.h"
#endif

/* q and K become raw scores: take_queries, take_keys, raw_scores. */
#if FLASH_PAIRS
#include "flash_scores_pairs.h"
#else
/* Of few rows, with K in place. */
#include "flash_direct.h"
#include "flash_direct_scores.h"
/* Bilinear and additive scores project q and K first. */
#include "flash_project.h"
/* Disentangled scores have products with tables of positions. */
#include "flash_places.h"
#include "flash_scores_floats.h"
#endif
/* Raw scores become final ones: scale, softcap, bias, ALiBi, masks. */
#include "flash_finish.h"
/* All of this for a group of rows and a tile of keys: score_group. */
#include "flash_group.h"

/* Scores become weights, and weights times V join the output: weigh_scores, join_values. */
#include "flash_weight_fn.h"

#include "flash_softmax.h"
#if FLASH_PAIRS
#include "flash_weights_pairs.h"
#else
#include "flash_direct_values.h"
#include "flash_weights_floats.h"
#endif
#include "flash_join.h"

/* A tile of keys meets all groups of an item: attend_groups. */
#if FLASH_TILES
#include "flash_overlap.h"
#else
#include "flash_attend.h"
#endif

/* Rows that no tile has stored, and lse; all tiles of an item; split keys; the item: run_item. */
#include "flash_out.h"

#include "flash_sweep.h"

#include "flash_parts.h"

#include "flash_item.h"
