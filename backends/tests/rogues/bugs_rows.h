/* SPDX-License-Identifier: Apache-2.0 */
/* bugs_rows.h - long sequences: a few rows of very many are wrong. */
#ifndef ATTN_ROGUE_BUGS_ROWS_H
#define ATTN_ROGUE_BUGS_ROWS_H

/* clang-format off */
#define ROGUE_BUGS_ROWS \
    BUG(rows_scale_doubled, tile, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "the scale doubled in 64 consecutive rows", "") \
    BUG(rows_scale_10, tile, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "the scale 10 % off in 64 consecutive rows", "") \
    BUG(rows_tiles_swapped, tile, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "two neighbouring tiles of queries written to the place of the other", "") \
    BUG(rows_tile_stale, tile, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "a tile computed with the queries of the one before", "") \
    BUG(rows_values_stale, tile, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "one tile of queries meets one tile of values of the tile of keys before", "") \
    BUG(rows_keys_left_out, tile, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "one tile of queries leaves one tile of keys out", "") \
    BUG(rows_lse_of_tile, tile, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal out=lse", "lse of 64 rows lacks their maxima", "") \
    BUG(rows_one_wrong, row, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "one row in the middle has twice the scale", "") \
    BUG(rows_one_neighbour, row, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "one row in the middle is its neighbour", "") \
    BUG(rows_one_column, row, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "one element in the middle is 0", "") \
    BUG(rows_one_masked, row, attention, "f32 bf16", "h=4 d=64 s=1024,2048 mask=bool:0.5 | h=4 d=64 s=1024,2048 mask=causal bias=alibi | h=4 d=64 s=1024 bias=normal:qk", "one row in the middle of the last head has twice the scale", "") \
    BUG(rows_every_4th, sampled, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "only every 4th row is computed, the others are copies", "") \
    BUG(rows_every_64th, sampled, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "only every 64th row is computed, the others are copies", "") \
    BUG(rows_second_half, sampled, attention, "f32 bf16", "d=32 h=1 s=8192,32768 mask=dense,causal | d=16 h=1 s=131072 mask=window:512:0 | d=16 h=1 sq=131072 sk=1024", "rows of the second half but the last 64 copy their first", "")
/* clang-format on */

#endif
