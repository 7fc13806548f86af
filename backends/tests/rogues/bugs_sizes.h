/* SPDX-License-Identifier: Apache-2.0 */
/* bugs_sizes.h - indices that wrap, widths and lengths that a kernel was not made for. */
#ifndef ATTN_ROGUE_BUGS_SIZES_H
#define ATTN_ROGUE_BUGS_SIZES_H

/* clang-format off */
#define ROGUE_BUGS_SIZES \
    BUG(heads_5_bit, bits5, attention, "f32 bf16", "h=40 d=64 s=96", "heads from 32 read the queries of head h & 31", "Xilinx/mlir-air#1428") \
    BUG(kv_heads_5_bit, bits5, attention, "f32 bf16", "h=40 d=64 s=96 | hq=80 hkv=40 d=64 sq=1 sk=600", "key heads from 32 read those of head g & 31", "") \
    BUG(queries_12_bit, bits12, attention, "f32 bf16", "h=1 d=32 s=4160 mask=causal", "queries from 4096 see the keys of query i & 4095", "") \
    BUG(columns_15_bit, bits15, attention, "f32 bf16", "h=1 d=32 sq=64 sk=33000 mask=bool:0.7:qk", "the mask is read at column j & 32767", "ml-explore/mlx#3360") \
    BUG(bias_15_bit, bits15, attention, "f32 bf16", "h=1 d=32 sq=16 sk=33000 bias=normal", "the bias is read at column j & 32767", "NVIDIA/TensorRT-LLM#1076") \
    BUG(causal_15_bit, bits15, attention, "f32 bf16", "h=1 d=32 sq=1 sk=33000 mask=causal_br", "keys below 32768 are masked for queries beyond, in decoding", "vllm-project/tpu-inference#2756") \
    BUG(window_15_bit, bits15, attention, "f32 bf16", "h=1 d=16 s=33000 mask=window:600:0", "keys below 32768 are masked for queries beyond, in prefill", "sgl-project/sglang-jax#1541") \
    BUG(softmax_15_bit, bits15, attention, "f32 bf16", "h=1 d=32 sq=64 sk=40000", "keys from 32768 are left out", "ggml-org/llama.cpp#6948") \
    BUG(keys_16_bit, bits16, attention, "f32 bf16", "h=1 d=16 sq=64 sk=66000", "keys from 65536 are those of j & 65535", "pytorch/pytorch#162588") \
    BUG(softmax_16_bit, bits16, attention, "f32 bf16", "h=1 d=16 sq=4 sk=66000", "keys from 65536 are left out", "linkedin/Liger-Kernel#1252") \
    BUG(rows_16_bit, bits16, attention, "f32 bf16", "h=1 d=16 sq=65700 sk=64", "queries from 65536 are not computed", "tile-ai/tilelang#330") \
    BUG(batch_16_bit, bits16, attention, "f32 bf16", "b=65540 h=1 d=16 sq=1 sk=8", "batches from 65536 are not computed", "flashinfer-ai/flashinfer#3125") \
    BUG(batch_heads_16_bit, bits16, attention, "f32 bf16", "b=2100 h=32 d=16 sq=1 sk=8", "batch x heads from 65536 read the keys of its low 16 bits", "pytorch/pytorch#142228") \
    BUG(head_rows_16_bit, bits16, attention, "f32 bf16", "h=33 d=16 s=2048", "heads x queries from 65536 are not computed", "deepspeedai/DeepSpeed#1239") \
    BUG(batch_heads_1024, bits16, attention, "f32 bf16", "b=33 h=32 d=16 sq=1 sk=40", "batch x heads from 1024 read the keys of its low 10 bits", "ggml-org/llama.cpp#16744") \
    BUG(offset_31_q, bits31, attention, "f32 bf16", "h=4 d=64 view=huge s=5", "offsets of q wrap at 2^31", "fla-org/flash-linear-attention#1080") \
    BUG(offset_31_k, bits31, attention, "f32 bf16", "h=4 d=64 view=huge s=5", "offsets of k wrap at 2^31", "pytorch/pytorch#190857") \
    BUG(offset_31_v, bits31, attention, "f32 bf16", "h=4 d=64 view=huge s=5", "offsets of v wrap at 2^31", "vllm-project/vllm#50427") \
    BUG(offset_31_out, bits31, attention, "f32 bf16", "h=4 d=64 view=huge s=5", "offsets of out wrap at 2^31", "thu-ml/SageAttention#386") \
    BUG(offset_31_mask, bits31, attention, "bf16", "h=1 d=16 s=46400 mask=window:64:0+bool:0.9:qk", "offsets of the mask wrap at 2^31", "ggml-org/llama.cpp#24912") \
    BUG(offset_31_bias, bits31, attention, "bf16", "h=1 d=16 s=46400 mask=window:64:0 bias=normal:qk", "offsets of the bias wrap at 2^31", "facebookresearch/xformers#788") \
    BUG(philox_31, bits31, attention, "f32 bf16", "h=1 d=16 s=46400 mask=window:64:0 dropout=0.3", "the index of dropout is a signed number of 32 bits", "pytorch/pytorch#188015") \
    BUG(philox_32, bits31, attention, "f32 bf16", "h=1 d=16 s=65600 mask=window:64:0 dropout=0.3", "the index of dropout wraps at 2^32", "pytorch/pytorch#187684") \
    BUG(group_pow2, groups, attention, "f32 bf16", "hq/hkv=12/4,20/4,24/4,28/4 d=64 sq=1 sk=600", "groups are taken to be powers of two", "pytorch/pytorch#151359") \
    BUG(group_3, groups, attention, "f32 bf16", "hq=12 hkv=4 d=64 sq=1 sk=600", "the last head of a group of 3 has the queries of the first", "") \
    BUG(group_5, groups, attention, "f32 bf16", "hq=20 hkv=4 d=64 sq=1 sk=600", "the last head of a group of 5 is not computed", "flashinfer-ai/flashinfer#2684") \
    BUG(group_6, groups, attention, "f32 bf16", "hq=24 hkv=4 d=64 sq=1 sk=600", "the last two heads of a group of 6 read the next keys", "mlc-ai/mlc-llm#2543") \
    BUG(group_7, groups, attention, "f32 bf16", "hq=28 hkv=4 d=64 sq=1 sk=600", "the last head of a group of 7 repeats the one before", "flashinfer-ai/flashinfer#4316") \
    BUG(group_16, groups, attention, "f32 bf16", "hq=64 hkv=4 d=64 sq=1 sk=600", "heads 8 to 15 of a group of 16 are those from 0", "flashinfer-ai/flashinfer#3563") \
    BUG(group_over_16, groups, attention, "f32 bf16", "hq=48 hkv=2 d=64 sq=1 sk=600", "heads of a group beyond the 16th read the next keys", "vllm-project/vllm#40792") \
    BUG(group_multiple_of_4, groups, attention, "f32 bf16", "hq=24 hkv=4 d=64 sq=1 sk=600", "only the first 4 n heads of a group are computed", "intel/llm-scaler#498") \
    BUG(group_inverted, groups, attention, "f32 bf16", "hq=24 hkv=4 d=64 sq=1 sk=600", "the ratio of heads divided the other way round: head h % hkv", "huggingface/candle#3559") \
    BUG(group_ignored, groups, attention, "f32 bf16", "hq=16 hkv=4 d=64 s=128", "key/value head h, at most the last", "flashinfer-ai/flashinfer#4593") \
    BUG(dv_over_256, width, attention, "f32 bf16", "h=2 dk=64 dv=320 sq=1 sk=600 | h=2 dk=64 dv=320 s=64", "columns of out from 256 land in the first ones", "fla-org/flash-linear-attention#1031") \
    BUG(dk_over_256, width, attention, "f32 bf16", "h=2 d=320 s=64", "columns from 256 left out of q.k", "Dao-AILab/flash-attention#1645") \
    BUG(dk_over_64, width, attention, "f32 bf16", "h=2 d=128 s=128", "columns from 64 left out of q.k", "triton-lang/triton#621") \
    BUG(dv_over_32, width, attention, "f32 bf16", "h=2 d=64 s=128", "columns of out from 32 are 0", "mni-ml/framework#38") \
    BUG(dv_as_dk, width, attention, "f32 bf16", "h=2 dk=32 dv=64 sq=1 sk=600", "decoding writes dk columns of out", "pytorch/pytorch#176767") \
    BUG(dv_neighbour, width, attention, "f32 bf16", "h=4 dk=192 dv=128 s=64", "half of the columns of v come from the next head", "sgl-project/sgl-kernel-xpu#204") \
    BUG(key_tail_counted, length, attention, "f32 bf16", "h=4 d=64 sq=1 sk=600,1001", "decoding counts keys of zeros beyond the last", "pytorch/pytorch#169222") \
    BUG(key_mod_32_is_1, length, attention, "f16 bf16", "h=4 d=64 sq=64 sk=97,129 mask=bool:0.8", "the last key counted twice where sk mod 32 is 1, with a boolean mask", "pytorch/pytorch#191937") \
    BUG(keys_as_queries, length, attention, "f32 bf16", "h=4 d=64 sq=256 sk=512", "keys beyond the number of queries left out", "jax-ml/jax#24491") \
    BUG(bias_row_of_8, length, attention, "f32 bf16", "h=4 d=64 sq=64 sk=43 bias=normal", "rows of the bias begin at multiples of 8", "facebookresearch/xformers#813") \
    BUG(mask_to_512, length, attention, "f32 bf16", "h=12 d=64 sq=1 sk=600,1000,4095 mask=bool:0.5:bk", "decoding ignores the mask from key 512 on", "vllm-project/vllm-ascend#15503")
/* clang-format on */

#endif
