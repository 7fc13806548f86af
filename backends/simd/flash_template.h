/* SPDX-License-Identifier: Apache-2.0 */
/* flash_template.h - flash attention over a vector type. Each instance (flash_avx2.c is the model)
 * includes it once. Five parameters, set before, make an instance:
 *
 *   vf              the vector type: vector_avx2.h, which says what its operations do, or a header
 *                   vector_avx512*.h. It holds VF_LANES floats, a power of two, at most 16.
 *   FLASH_MR        rows of a micro-kernel: 6; of tiles 32
 *   FLASH_NV        vectors of a micro-kernel's row: 2 or 4. MR * NV sums must stay in registers.
 *   FLASH_TYPE      elements of the products' operands: ATTN_F32, ATTN_BF16 or ATTN_F16
 *   FLASH_PRODUCTS  how the two products, q k^T and p v, are computed:
 *     FLASH_OF_FLOATS   in vectors of floats, whatever the type of q, K and V; for every score
 *     FLASH_OF_PAIRS    in vectors of pairs of FLASH_TYPE, which is that of q, K and V, with sums
 * in f32; for dot products alone, as are the two that follow FLASH_OF_CHAINS   the same, but
 * FLASH_CHAIN products are summed in FLASH_TYPE before their sum joins one in f32
 * (flash_kernel_f16.h) FLASH_OF_TILES    in AMX tiles of pairs (flash_product_tiles.h); between the
 * steps of the tiles, the vectors compute weights of other rows (flash_overlap.h)
 *
 * The template gives the instance run_item and merge_parts for its struct attn_flash_isa (flash.h).
 *
 * The algorithm, for one item (consecutive folded rows of one key/value head):
 *   for each tile of key_block keys that some row may see:
 *     pack K as [keys/NR][dk][NR] and, unless its rows will do, V as [dv/NR][keys][NR]
 *     for each group of MR rows that may see some of the tile:
 *       s = q k^T over the vectors of keys that the group may see, maximum   (micro-kernel)
 *         gaussian: s = |q - k|^2 in its place; bilinear and additive: flash_scores_floats.h
 *       per row: softcap, bias, ALiBi, boolean mask; -inf in forbidden cells; maximum of those
 *       per row: p = 2^(s - max), denominator, dropout
 *       o = o * 2^(old max - max) + p v over the keys the group may see      (micro-kernel)
 *         the group's last tile stores its sums straight to out, divided by the denominator
 *   out = o / denominator, for the rest; where weights are asked for, a second sweep over K writes
 *   them
 * A forbidden cell has s = -inf and so p = 0 exactly. 0 * V is NaN where V is not finite, so that
 * packing V notes where it is not, and groups that meet such keys take a scalar path which skips
 * every cell that takes no part. What a row computes depends on nothing but the row: not on its
 * neighbours in the group, nor on items and threads. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "dropout.h"

#define FLASH_OF_FLOATS 0
#define FLASH_OF_PAIRS  1
#define FLASH_OF_CHAINS 2
#define FLASH_OF_TILES  3

#define FLASH_PAIRS (FLASH_PRODUCTS != FLASH_OF_FLOATS)
#define FLASH_TILES (FLASH_PRODUCTS == FLASH_OF_TILES)

/* The inner extents of the products are filled up to a multiple of this many elements. */
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
/* For the products: inlined into the driver their sums would be spilled. */
#define FLASH_APART static __attribute__((noinline))

/* The parts follow in the order in which data flows. Each uses only parts above it. Where floats
 * and pairs take a step in different ways, two parts define the same functions. */

/* Lines fetched ahead of their use, a few at a time. */
#include "flash_fetch.h"
/* An item at work: its rows, a tile of keys, a group of rows. */
#include "flash_block.h"
/* Elements of operands as vectors of floats, and back. */
#include "flash_convert.h"
/* 2^x and tanh. */
#include "flash_exp.h"

/* q, K and V in the layouts that the products read: queries, pack_k, pack_v. */
#if FLASH_PAIRS
#include "flash_pack_pairs.h"
#else
#include "flash_pack_floats.h"
#endif
/* Which lines are fetched ahead: of the next tile and of the next group. */
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
#include "flash_scores_floats.h"
#endif
/* Raw scores become final ones: scale, softcap, bias, ALiBi, masks. */
#include "flash_finish.h"
/* Both for a group of rows and a tile of keys: score_group. */
#include "flash_group.h"

/* Scores become weights, weights times V join the output: weigh_scores, join_values. */
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

/* Output and lse leave; all tiles of an item; split keys; the item as a whole. */
#include "flash_out.h"

#include "flash_sweep.h"

#include "flash_parts.h"

#include "flash_item.h"
