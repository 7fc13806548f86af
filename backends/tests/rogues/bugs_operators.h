/* SPDX-License-Identifier: Apache-2.0 */
/* bugs_operators.h - operators beyond plain attention and mha, at the sizes of models: one part of the answer is
 * that of a mistake. A name is OPERATOR_MISTAKE_PART; operators.c reads it. */
#ifndef ATTN_ROGUE_BUGS_OPERATORS_H
#define ATTN_ROGUE_BUGS_OPERATORS_H

/* clang-format off */
#define ROGUE_BUGS_OPERATORS \
    BUG(lin_scale_head, head, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "a scale 2 % off in the last head", "") \
    BUG(lin_scale_tile, tile, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "a scale 2 % off in 64 rows of one head", "") \
    BUG(lin_scale_row, row, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "a scale 2 % off in one row", "") \
    BUG(lin_landmark_head, head, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "the last landmark left out in the last head", "") \
    BUG(lin_landmark_row, row, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "the last landmark left out in one row", "") \
    BUG(lin_keys_head, head, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "the last 64 keys left out in the last head", "") \
    BUG(lin_values_head, head, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "64 values are those of the tile before in the last head", "") \
    BUG(lin_values_row, row, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "64 values are those of the tile before in one row", "") \
    BUG(lin_neighbour_row, row, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "the answer of the query before in one row", "") \
    BUG(lin_stale_tile, tile, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "the answers of the tile before in 64 rows of one head", "") \
    BUG(lin_fourth_all, all, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "only every 4th row computed, the others are copies", "") \
    BUG(lin_other_head, head, linformer, "f32 bf16", "h=8 s=4096 d=64 landmarks=256", "the answer of the head before in the last head", "") \
    BUG(nys_scale_head, head, nystrom, "f32 bf16", "h=8 s=4096 d=64 landmarks=64", "a scale 2 % off in the last head", "") \
    BUG(nys_scale_tile, tile, nystrom, "f32 bf16", "h=8 s=4096 d=64 landmarks=64", "a scale 2 % off in 64 rows of one head", "") \
    BUG(nys_values_head, head, nystrom, "f32 bf16", "h=8 s=4096 d=64 landmarks=64", "64 values are those of the tile before in the last head", "") \
    BUG(nys_values_row, row, nystrom, "f32 bf16", "h=8 s=4096 d=64 landmarks=64", "64 values are those of the tile before in one row", "") \
    BUG(nys_neighbour_row, row, nystrom, "f32 bf16", "h=8 s=4096 d=64 landmarks=64", "the answer of the query before in one row", "") \
    BUG(nys_stale_tile, tile, nystrom, "f32 bf16", "h=8 s=4096 d=64 landmarks=64", "the answers of the tile before in 64 rows of one head", "") \
    BUG(nys_fourth_all, all, nystrom, "f32 bf16", "h=8 s=4096 d=64 landmarks=64", "only every 4th row computed, the others are copies", "") \
    BUG(nys_other_head, head, nystrom, "f32 bf16", "h=8 s=4096 d=64 landmarks=64", "the answer of the head before in the last head", "") \
    BUG(perf_scale_head, head, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "a scale 2 % off in the last head", "") \
    BUG(perf_scale_tile, tile, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "a scale 2 % off in 64 rows of one head", "") \
    BUG(perf_scale_row, row, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "a scale 2 % off in one row", "") \
    BUG(perf_feature_head, head, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "the last feature left out in the last head", "") \
    BUG(perf_feature_row, row, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "the last feature left out in one row", "") \
    BUG(perf_keys_head, head, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "the last 64 keys left out in the last head", "") \
    BUG(perf_values_head, head, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "64 values are those of the tile before in the last head", "") \
    BUG(perf_values_row, row, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "64 values are those of the tile before in one row", "") \
    BUG(perf_neighbour_row, row, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "the answer of the query before in one row", "") \
    BUG(perf_stale_tile, tile, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "the answers of the tile before in 64 rows of one head", "") \
    BUG(perf_fourth_all, all, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "only every 4th row computed, the others are copies", "") \
    BUG(perf_other_head, head, performer, "f32 bf16", "h=8 s=2048 d=64 features=256", "the answer of the head before in the last head", "") \
    BUG(perfc_scale_head, head, performer, "f32 bf16", "h=8 s=2048 d=64 features=256 mask=causal", "a scale 2 % off in the last head", "") \
    BUG(perfc_scale_tile, tile, performer, "f32 bf16", "h=8 s=2048 d=64 features=256 mask=causal", "a scale 2 % off in 64 rows of one head", "") \
    BUG(perfc_feature_head, head, performer, "f32 bf16", "h=8 s=2048 d=64 features=256 mask=causal", "the last feature left out in the last head", "") \
    BUG(perfc_values_head, head, performer, "f32 bf16", "h=8 s=2048 d=64 features=256 mask=causal", "64 values are those of the tile before in the last head", "") \
    BUG(perfc_stale_tile, tile, performer, "f32 bf16", "h=8 s=2048 d=64 features=256 mask=causal", "the answers of the tile before in 64 rows of one head", "") \
    BUG(perfc_fourth_all, all, performer, "f32 bf16", "h=8 s=2048 d=64 features=256 mask=causal", "only every 4th row computed, the others are copies", "") \
    BUG(lsh_scale_head, head, lsh, "f32 bf16", "h=8 s=2048 d=64 chunk=64 rounds=2 buckets=64", "a scale 2 % off in the last head", "") \
    BUG(lsh_scale_tile, tile, lsh, "f32 bf16", "h=8 s=2048 d=64 chunk=64 rounds=2 buckets=64", "a scale 2 % off in 64 rows of one head", "") \
    BUG(lsh_values_head, head, lsh, "f32 bf16", "h=8 s=2048 d=64 chunk=64 rounds=2 buckets=64", "64 values are those of the tile before in the last head", "") \
    BUG(lsh_stale_tile, tile, lsh, "f32 bf16", "h=8 s=2048 d=64 chunk=64 rounds=2 buckets=64", "the answers of the tile before in 64 rows of one head", "") \
    BUG(lsh_fourth_all, all, lsh, "f32 bf16", "h=8 s=2048 d=64 chunk=64 rounds=2 buckets=64", "only every 4th row computed, the others are copies", "") \
    BUG(lsh_other_head, head, lsh, "f32 bf16", "h=8 s=2048 d=64 chunk=64 rounds=2 buckets=64", "the answer of the head before in the last head", "") \
    BUG(lshg_bucket_all, all, lsh, "f32 bf16", "h=8 s=2048 d=64 chunk=64 rounds=2 buckets=64 hashes=given", "one token in the next bucket", "") \
    BUG(lsh_rotations_all, all, lsh, "f32", "h=8 s=2048 d=64 chunk=64 rounds=2 buckets=64", "rotations rounded to bf16", "") \
    BUG(chk_scale_all, all, chunked, "f32 bf16", "s=2048 dk=128 dv=768 bias=normal:qk gate=1 mask=causal", "a scale 2 % off", "") \
    BUG(chk_scale_tile, tile, chunked, "f32 bf16", "s=2048 dk=128 dv=768 bias=normal:qk gate=1 mask=causal", "a scale 2 % off in 64 rows of one head", "") \
    BUG(chk_values_all, all, chunked, "f32 bf16", "s=2048 dk=128 dv=768 bias=normal:qk gate=1 mask=causal", "64 values are those of the tile before", "") \
    BUG(chk_stale_tile, tile, chunked, "f32 bf16", "s=2048 dk=128 dv=768 bias=normal:qk gate=1 mask=causal", "the answers of the tile before in 64 rows of one head", "") \
    BUG(chk_fourth_all, all, chunked, "f32 bf16", "s=2048 dk=128 dv=768 bias=normal:qk gate=1 mask=causal", "only every 4th row computed, the others are copies", "") \
    BUG(dec_scale_head, head, linear_decay, "f32 bf16", "h=8 s=2048 d=64 bonus=1", "a scale 2 % off in the last head", "") \
    BUG(dec_scale_tile, tile, linear_decay, "f32 bf16", "h=8 s=2048 d=64 bonus=1", "a scale 2 % off in 64 rows of one head", "") \
    BUG(dec_values_head, head, linear_decay, "f32 bf16", "h=8 s=2048 d=64 bonus=1", "64 values are those of the tile before in the last head", "") \
    BUG(dec_decay_head, head, linear_decay, "f32 bf16", "h=8 s=2048 d=64 bonus=1", "decays 2 % off in the last head", "") \
    BUG(dec_decay_tile, tile, linear_decay, "f32 bf16", "h=8 s=2048 d=64 bonus=1", "decays 2 % off in 64 rows of one head", "") \
    BUG(dec_stale_tile, tile, linear_decay, "f32 bf16", "h=8 s=2048 d=64 bonus=1", "the answers of the tile before in 64 rows of one head", "") \
    BUG(dec_fourth_all, all, linear_decay, "f32 bf16", "h=8 s=2048 d=64 bonus=1", "only every 4th row computed, the others are copies", "") \
    BUG(dec_other_head, head, linear_decay, "f32 bf16", "h=8 s=2048 d=64 bonus=1", "the answer of the head before in the last head", "") \
    BUG(wkv_values_all, all, wkv, "f32 bf16", "s=1024 d=768", "64 values are those of the tile before", "") \
    BUG(wkv_values_channels, channels, wkv, "f32 bf16", "s=1024 d=768", "64 values are those of the tile before in the last 16 channels", "") \
    BUG(wkv_decay_all, all, wkv, "f32 bf16", "s=1024 d=768", "decays 2 % off", "") \
    BUG(wkv_decay_channels, channels, wkv, "f32 bf16", "s=1024 d=768", "decays 2 % off in the last 16 channels", "") \
    BUG(wkv_stale_tile, tile, wkv, "f32 bf16", "s=1024 d=768", "the answers of the tile before in 64 rows of one head", "") \
    BUG(wkv_fourth_all, all, wkv, "f32 bf16", "s=1024 d=768", "only every 4th row computed, the others are copies", "") \
    BUG(dis_scale_head, head, attention, "f32 bf16", "h=8 s=1024 d=64 score=disentangled span=256 params=head", "a scale 2 % off in the last head", "") \
    BUG(dis_scale_tile, tile, attention, "f32 bf16", "h=8 s=1024 d=64 score=disentangled span=256 params=head", "a scale 2 % off in 64 rows of one head", "") \
    BUG(dis_places_head, head, attention, "f32 bf16", "h=8 s=1024 d=64 score=disentangled span=256 params=head", "positions of keys one row on in the last head", "") \
    BUG(dis_places_tile, tile, attention, "f32 bf16", "h=8 s=1024 d=64 score=disentangled span=256 params=head", "positions of keys one row on in 64 rows of one head", "") \
    BUG(dis_keys_head, head, attention, "f32 bf16", "h=8 s=1024 d=64 score=disentangled span=256 params=head", "the last 64 keys left out in the last head", "") \
    BUG(dis_values_head, head, attention, "f32 bf16", "h=8 s=1024 d=64 score=disentangled span=256 params=head", "64 values are those of the tile before in the last head", "") \
    BUG(dis_stale_tile, tile, attention, "f32 bf16", "h=8 s=1024 d=64 score=disentangled span=256 params=head", "the answers of the tile before in 64 rows of one head", "") \
    BUG(dis_other_head, head, attention, "f32 bf16", "h=8 s=1024 d=64 score=disentangled span=256 params=head", "the answer of the head before in the last head", "") \
    BUG(glo_scale_head, head, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "a scale 2 % off in the last head", "") \
    BUG(glo_scale_tile, tile, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "a scale 2 % off in 64 rows of one head", "") \
    BUG(glo_scale_row, row, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "a scale 2 % off in one row", "") \
    BUG(glo_global_head, head, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "the last global token forgotten in the last head", "") \
    BUG(glo_global_tile, tile, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "the last global token forgotten in 64 rows of one head", "") \
    BUG(glo_global_row, row, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "the last global token forgotten in one row", "") \
    BUG(glo_window_head, head, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "a window one key short in the last head", "") \
    BUG(glo_window_row, row, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "a window one key short in one row", "") \
    BUG(glo_values_head, head, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "64 values are those of the tile before in the last head", "") \
    BUG(glo_values_row, row, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "64 values are those of the tile before in one row", "") \
    BUG(glo_neighbour_row, row, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "the answer of the query before in one row", "") \
    BUG(glo_stale_tile, tile, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "the answers of the tile before in 64 rows of one head", "") \
    BUG(glo_fourth_all, all, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:256:256+global:16", "only every 4th row computed, the others are copies", "") \
    BUG(step_steps_head, head, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:64:64:1/2/4/8+causal+global:4", "a window without its steps in the last head", "") \
    BUG(step_steps_row, row, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:64:64:1/2/4/8+causal+global:4", "a window without its steps in one row", "") \
    BUG(step_scale_row, row, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:64:64:1/2/4/8+causal+global:4", "a scale 2 % off in one row", "") \
    BUG(step_global_row, row, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:64:64:1/2/4/8+causal+global:4", "the last global token forgotten in one row", "") \
    BUG(step_neighbour_row, row, attention, "f32 bf16", "h=8 s=4096 d=64 mask=window:64:64:1/2/4/8+causal+global:4", "the answer of the query before in one row", "")
/* clang-format on */

#endif
