/* SPDX-License-Identifier: Apache-2.0 */
/* bugs_paths.h - features that one path of a kernel lost: decoding, split keys, merges, packed heads. */
#ifndef ATTN_ROGUE_BUGS_PATHS_H
#define ATTN_ROGUE_BUGS_PATHS_H

/* clang-format off */
#define ROGUE_BUGS_PATHS \
    BUG(softcap_decode, softcap, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 softcap=2 scale=0.5", "split keys ignore the softcap", "sgl-project/sgl-kernel-xpu#491") \
    BUG(softcap_packed, softcap, attention, "f32 bf16", "hq=8 hkv=2 d=64 sq=1 sk=400 softcap=2 scale=0.5", "packed heads ignore the softcap", "vllm-project/vllm-metal#665") \
    BUG(softcap_after_mask, softcap, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 softcap=2 mask=bool:0.7", "masked scores are capped as well", "flashinfer-ai/flashinfer#350") \
    BUG(softcap_of_sink, softcap, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 softcap=0.5 sink=1 out=lse", "the sink is capped as well", "ROCm/rocm-libraries#12229") \
    BUG(sink_each_split, sink, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 sink=1", "the sink joins once a split", "ROCm/rocm-libraries#12227") \
    BUG(sink_decode, sink, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 sink=1 out=lse", "split keys lose the sink", "kekzl/imp#1345") \
    BUG(sink_empty_split, sink, attention, "f32 bf16", "h=4 d=64 sq=1 sk=2048 mask=window:300:0+br sink=1", "the sink is lost where the first split is empty", "ROCm/rocm-libraries#12229") \
    BUG(sink_packed, sink, attention, "f32 bf16", "hq=8 hkv=2 d=64 sq=1 sk=400 sink=1", "packed heads take the sink of the first of their group", "") \
    BUG(split_lse, merge, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 out=lse", "lse is that of the last split", "flashinfer-ai/flashinfer#50") \
    BUG(split_base_2, merge, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000", "splits are merged with exp2 for exp", "sgl-project/sglang#40903") \
    BUG(split_lse_base_2, merge, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 out=lse", "lse of merged splits is in base 2", "lightseekorg/tokenspeed#571") \
    BUG(merge_nan, merge, attention, "f32 bf16", "b=2 h=4 d=64 sq=1 sk=1000 mask=len:1000/0", "a row without keys is NaN after the merge", "tile-ai/tilelang#328") \
    BUG(merge_strides, merge, attention, "f32 bf16", "b=2 h=4 d=64 sq=2 sk=1000 layout=bshd", "the merge writes out as if it were dense", "flagos-ai/FlagGems#5235") \
    BUG(merge_batch_0, merge, attention, "f32 bf16", "b=3 h=4 d=64 sq=1 sk=1000", "the merge reads the splits of batch 0", "vllm-project/flash-attention#176") \
    BUG(merge_rounded, merge, attention, "f16 bf16", "h=16 d=64 sq=1 sk=1000", "partial results are rounded to the type of out", "vllm-project/vllm-xpu-kernels#204") \
    BUG(merge_dv, merge, attention, "f32 bf16", "h=4 dk=64 dv=32 sq=2 sk=1000", "the merge steps by dk in rows of dv", "NVIDIA/TensorRT-LLM#4281") \
    BUG(split_stale, split, attention, "f32 bf16", "h=4 d=64 sq=1 sk=2048 mask=window:300:0+br | b=2 h=4 d=64 sq=1 sk=2048 mask=len:2048/300", "an empty split leaves what was there", "Dao-AILab/flash-attention#2336") \
    BUG(split_last_block, split, attention, "f32 bf16", "h=4 d=64 sq=1 sk=2100", "tiles that do not divide by the splits are lost", "Dao-AILab/flash-attention#778") \
    BUG(split_mask, split, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 mask=bool:0.6", "the mask of a split is that of the first", "tracel-ai/cubecl#1027") \
    BUG(split_bias, split, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 bias=normal", "the bias of a split is that of the first", "ROCm/hip-ep#851") \
    BUG(split_dropout, split, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 dropout=0.3", "dropout of a split is that of the first", "") \
    BUG(split_alibi, split, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 bias=alibi mask=causal_br", "distances of alibi count from the first key of a split", "") \
    BUG(split_window, split, attention, "f32 bf16", "h=4 d=64 sq=8 sk=4096 mask=window:333:-1+past:1000", "splits reach as far as the window of the first query", "flashinfer-ai/flashinfer#4992") \
    BUG(packed_causal, packed, attention, "f32 bf16", "hq=8 hkv=2 d=64 sq=4 sk=1000 mask=causal_br", "rows of packed heads are divided by the group in the causal mask", "Dao-AILab/flash-attention#2528") \
    BUG(packed_alibi, packed, attention, "f32 bf16", "hq=8 hkv=2 d=64 sq=1 sk=400 bias=alibi mask=causal_br", "packed heads take the slope of the first of their group", "Dao-AILab/flash-attention#540") \
    BUG(alibi_local_head, packed, attention, "f32 bf16", "hq=8 hkv=2 d=64 s=128 bias=alibi mask=causal", "slopes are counted from 0 in each half of the heads", "flashinfer-ai/flashinfer#5101") \
    BUG(packed_bias, packed, attention, "f32 bf16", "hq=8 hkv=2 d=64 sq=1 sk=400 bias=normal", "packed heads take the bias of the first of their group", "HKUSTDial/flash-sparse-attention#190") \
    BUG(packed_mask, packed, attention, "f32 bf16", "hq=8 hkv=2 d=64 sq=1 sk=400 mask=bool:0.6", "packed heads take the mask of the first of their group", "") \
    BUG(packed_dropout, packed, attention, "f32 bf16", "hq=8 hkv=2 d=64 sq=1 sk=400 dropout=0.3", "packed heads take the dropout of the first of their group", "") \
    BUG(packed_lse, packed, attention, "f32 bf16", "hq=8 hkv=2 d=64 sq=4 sk=1000 out=lse", "lse of packed heads has heads and queries swapped", "HKUSTDial/flash-sparse-attention#189") \
    BUG(decode_row_0, decode, attention, "f32 bf16", "hq=8 hkv=2 d=64 sq=4 sk=1000 mask=causal_br | h=4 d=64 sq=3 sk=1000 mask=bool:0.6", "all queries of a decoding step use the mask of the first", "ggml-org/llama.cpp#7903") \
    BUG(decode_top_left, decode, attention, "f32 bf16", "h=4 d=64 sq=4 sk=1000 mask=causal_br", "decoding takes bottom-right causal as top-left", "microsoft/onnxruntime#29020") \
    BUG(decode_window_minus, decode, attention, "f32 bf16", "h=4 d=64 sq=1 sk=5000 mask=window:4095:0+br", "decoding drops the oldest key of the window", "sgl-project/sglang#32087") \
    BUG(decode_window_ignored, decode, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 mask=window:511:0+br", "decoding ignores the window", "EricLBuehler/mistral.rs#2094") \
    BUG(decode_window_blocks, decode, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 mask=window:500:0+br", "decoding rounds the window down to whole tiles", "vllm-project/vllm-gaudi#1395") \
    BUG(decode_window_both, decode, attention, "f32 bf16", "h=4 d=64 sq=4 sk=1000 mask=window:127:0+past:300", "decoding uses the left window on the right", "ModelTC/LightLLM#1311") \
    BUG(decode_mask_lost, decode, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 mask=bool:0.6", "one query ignores the mask", "huggingface/transformers#37807") \
    BUG(decode_scale, decode, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 scale=0.3", "decoding uses the default scale", "pytorch/pytorch#184122") \
    BUG(decode_strides, decode, attention, "f32 bf16", "b=2 h=4 d=64 sq=2 sk=1000 view=permuted", "decoding reads k as if it were dense", "pytorch/pytorch#163597") \
    BUG(decode_len_blocks, decode, attention, "f32 bf16", "b=4 h=4 d=64 sq=1 sk=1000 mask=len:rand", "decoding rounds lengths up to 16 keys", "zml/zml#563") \
    BUG(decode_bias_lost, decode, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 bias=normal", "split keys ignore the bias", "") \
    BUG(decode_dropout_lost, decode, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 dropout=0.3", "split keys ignore dropout", "") \
    BUG(decode_alibi_lost, decode, attention, "f32 bf16", "h=4 d=64 sq=1 sk=1000 bias=alibi mask=causal_br", "split keys ignore alibi", "") \
    BUG(decode_len_batch_0, decode, attention, "f32 bf16", "b=4 h=4 d=64 sq=1 sk=1000 mask=len:rand", "decoding takes the length of batch 0 for all", "")
/* clang-format on */

#endif
