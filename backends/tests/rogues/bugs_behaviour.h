/* SPDX-License-Identifier: Apache-2.0 */
/* bugs_behaviour.h - masks, biases and dropout as public kernels got them wrong; promises of the contract. */
#ifndef ATTN_ROGUE_BUGS_BEHAVIOUR_H
#define ATTN_ROGUE_BUGS_BEHAVIOUR_H

/* clang-format off */
#define ROGUE_BUGS_BEHAVIOUR \
    BUG(causal_first_head, mask, attention, "f32 bf16", "h=4 d=64 s=128 mask=causal", "heads but the first are 0 under a causal mask", "tracel-ai/burn#4484") \
    BUG(causal_lost_weights, mask, attention, "f32 bf16", "h=4 d=64 s=128 mask=causal out=weights", "the causal mask is ignored if weights are asked for", "pytorch/pytorch#99282") \
    BUG(causal_hides_mask, mask, attention, "f32 bf16", "h=4 d=64 s=128 mask=causal+bool:0.6", "the boolean mask is ignored beside the causal one", "microsoft/onnxruntime#14363") \
    BUG(mask_inverted_bytes, mask, attention, "f32 bf16", "h=4 d=64 s=128 mask=bool:0.6", "a true byte masks", "InseeFrLab/torchTextClassifiers#92") \
    BUG(mask_transposed, mask, attention, "f32 bf16", "h=4 d=64 s=128 mask=bool:0.6", "queries and keys of the mask swapped", "leejet/stable-diffusion.cpp#1625") \
    BUG(mask_per_batch, mask, attention, "f32 bf16", "b=2 h=4 d=64 s=128 mask=bool:0.6:bqk", "a mask broadcast over heads is read from the first batch", "pytorch/pytorch#184180") \
    BUG(empty_mean, empty, attention, "f32 bf16", "h=4 d=64 sq=256 sk=128 mask=causal_br", "rows without keys are the mean of all values", "pytorch/pytorch#109517") \
    BUG(empty_nan, empty, attention, "f32 bf16", "h=4 d=64 sq=256 sk=128 mask=causal_br", "rows without keys are NaN", "pytorch/pytorch#103963") \
    BUG(empty_first_value, empty, attention, "f32 bf16", "b=2 h=4 d=64 sq=1 sk=600 mask=len:600/0", "rows without keys are the first value", "microsoft/onnxruntime#28958") \
    BUG(masked_values_times_0, empty, attention, "f32 bf16", "h=4 d=64 s=128 mask=causal", "values of masked keys are multiplied by 0", "ggml-org/llama.cpp#26744") \
    BUG(window_left_exclusive, window, attention, "f32 bf16", "h=2 d=64 s=2048 mask=window:1023:0", "the oldest key of a window is left out", "NVIDIA/TransformerEngine#1197") \
    BUG(window_plus_one, window, attention, "f32 bf16", "h=2 d=64 s=2048 mask=window:1023:0", "a window has one key too many", "huggingface/transformers#39408") \
    BUG(window_tile_start, window, attention, "f32 bf16", "h=2 d=64 s=2048 mask=window:1000:0", "the first tile of a window is taken whole", "ROCm/aiter#5741") \
    BUG(window_prefill_ignored, window, attention, "f32 bf16", "h=2 d=64 s=1024 mask=window:127:0", "the window is ignored where queries fill whole tiles", "apache/tvm#18630") \
    BUG(window_top_left, window, attention, "f32 bf16", "h=2 d=64 sq=128 sk=512 mask=window:100:0+br", "a bottom-right window is taken as top-left", "NVIDIA/TransformerEngine#992") \
    BUG(bias_single_batch, bias, attention, "f32 bf16", "b=2 h=4 d=64 s=128 bias=normal", "the bias of batch 0 for all batches", "facebookresearch/xformers#854") \
    BUG(bias_head_0, bias, attention, "f32 bf16", "b=2 h=4 d=64 s=128 bias=normal", "the bias of head 0 for all heads", "NVIDIA/TransformerEngine#2537") \
    BUG(bias_scaled, bias, attention, "f32 bf16", "h=4 d=64 s=128 bias=normal", "the bias is added before the scale", "") \
    BUG(dropout_ignored, dropout, attention, "f32 bf16", "h=4 d=64 s=128 dropout=0.3", "dropout is accepted and not applied", "pytorch/pytorch#184126") \
    BUG(dropout_factor_p, dropout, attention, "f32 bf16", "h=4 d=64 s=128 dropout=0.3", "kept weights are multiplied by p", "NVIDIA/apex#816") \
    BUG(dropout_seed, dropout, attention, "f32 bf16", "h=4 d=64 s=128 dropout=0.3 seed=7", "the seed of dropout is a constant", "Dao-AILab/flash-attention#2088") \
    BUG(dropout_heads_alike, dropout, attention, "f32 bf16", "h=4 d=64 s=128 dropout=0.3", "all heads have the same dropout", "pytorch/pytorch#188015") \
    BUG(keep_inverted, dropout, attention, "f32 bf16", "pack=keep", "an explicit keep mask is read as what is dropped", "") \
    BUG(permuted_dense, strides, attention, "f32 bf16", "b=84 h=3 s=3 d=64 layout=bshd", "q of few rows is read as if it were dense", "pytorch/pytorch#181133") \
    BUG(unknown_flags, contract, attention, "f32 bf16", "h=4 d=64 s=128", "supports ignores flags that it does not know", "") \
    BUG(unknown_roles, contract, attention, "f32 bf16", "h=4 d=64 s=128", "supports ignores operands that it does not know", "") \
    BUG(unknown_types, contract, attention, "f32 bf16", "h=4 d=64 s=128 mask=bool:0.6 bias=normal", "supports takes reserved types of masks and biases", "") \
    BUG(unknown_score, contract, attention, "f32 bf16", "h=4 d=64 s=128", "supports takes scores that it does not know for q.k", "") \
    BUG(unknown_space, contract, attention, "f32 bf16", "h=4 d=64 s=128", "supports takes operands in the memory of a device", "")
/* clang-format on */

#endif
