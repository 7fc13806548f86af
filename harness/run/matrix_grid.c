/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_grid.c - the problems of the support matrix. A new feature of the operator is one line
 * here.
 *
 * Sizes are small because only shapes matter: only problems with rows without keys are computed. */
#include "run/matrix.h"

#define SIZES     "b=2 sq=16 sk=16 d=32 "
#define PLAIN     SIZES "h=4 "
#define MHA       "op=mha b=2 h=4 s=16 d=16 "
#define WKV       "op=wkv b=2 s=16 d=32 "
#define CHUNK     "op=chunked b=2 h=4 s=40 dk=16 dv=24 chunk=16 "
#define LIN       "op=linformer b=2 hq=4 hkv=2 sq=16 sk=40 dk=16 dv=24 landmarks=8 "
#define NYS       "op=nystrom b=2 h=4 s=48 d=16 "
#define DECAY     "op=linear_decay b=2 h=4 s=16 dk=16 dv=24 "
#define PERFORMER "op=performer b=2 hq=4 s=16 dk=16 dv=24 features=20 "
#define BACK      "op=attention_backward b=2 h=4 sq=16 d=16 "
#define LSH       "op=lsh b=2 h=4 s=16 dk=16 dv=24 chunk=4 rounds=2 buckets=4 "

const struct attn_feature attn_features[] = {
    {"scores", "scaled dot", PLAIN, 0, false},
    {"scores", "dot", PLAIN "score=dot", 0, false},
    {"scores", "bilinear", PLAIN "score=bilinear", 0, false},
    {"scores", "bilinear, M a head", PLAIN "score=bilinear params=head", 0, false},
    {"scores", "gaussian", PLAIN "score=gaussian", 0, false},
    {"scores", "additive", PLAIN "score=additive", 0, false},
    {"scores", "additive, W a head", PLAIN "score=additive params=head", 0, false},
    {"scores", "disentangled", PLAIN "score=disentangled span=8", 0, false},
    {"scores", "disentangled, p2c as the paper has it",
     PLAIN "score=disentangled span=8 parts=p2c variant=paper", 0, false},
    {"scores", "disentangled, log buckets", PLAIN "score=disentangled span=8 rel_buckets=log:8", 0,
     false},
    {"scores", "scale given, negative", PLAIN "scale=-0.5", 0, false},

    {"sizes", "grouped heads (GQA)", SIZES "hq=4 hkv=2", 0, false},
    {"sizes", "one key/value head", SIZES "hq=4 hkv=1", 0, false},
    {"sizes", "odd width", "b=2 h=4 s=16 d=5", 0, false},
    {"sizes", "wide heads, d=256", "b=2 h=4 s=16 d=256", 0, false},
    {"sizes", "dv != dk", "b=2 h=4 s=16 dk=32 dv=24", 0, false},
    {"sizes", "dq != dk, bilinear", "b=2 h=4 s=16 dq=24 dk=32 score=bilinear", 0, false},
    {"sizes", "dq != dk, additive", "b=2 h=4 s=16 dq=24 dk=32 dh=8 score=additive", 0, false},
    {"sizes", "decode, sq=1", "b=2 h=4 sq=1 sk=64 d=32", 0, false},
    {"sizes", "sq > sk", "b=2 h=4 sq=16 sk=9 d=32", 0, false},
    {"sizes", "no keys, sk=0", "b=2 h=4 sq=16 sk=0 d=32", 0, true},

    {"masks", "causal", PLAIN "mask=causal", 0, false},
    {"masks", "causal, bottom-right", "b=2 h=4 sq=9 sk=16 d=32 mask=causal_br", 0, false},
    {"masks", "causal, sq > sk", "b=2 h=4 sq=16 sk=9 d=32 mask=causal_br", 0, true},
    {"masks", "causal, past", "b=2 h=4 sq=9 sk=16 d=32 mask=causal+past:5", 0, false},
    {"masks", "window", PLAIN "mask=window:4:2", 0, false},
    {"masks", "causal window", PLAIN "mask=causal+window:4:0", 0, false},
    {"masks", "lengths", PLAIN "mask=len:9/16", 0, false},
    {"masks", "a length of 0", PLAIN "mask=len:0/16", 0, true},
    {"masks", "lengths a query", PLAIN "mask=len2d:rand", 0, false},
    {"masks", "lengths, causal br", "b=2 h=4 sq=4 sk=16 d=32 mask=causal_br+len:9/16", 0, false},
    {"masks", "boolean", PLAIN "mask=bool:0.7", 0, false},
    {"masks", "boolean, broadcast", PLAIN "mask=bool:0.7:qk", 0, false},
    {"masks", "all together",
     "b=2 h=4 sq=9 sk=16 d=32 mask=causal_br+window:9:0+len:12/16+bool:0.9:bqk", 0, false},

    {"masks", "dilated window", PLAIN "mask=window:4:2:1/2/3", 0, false},
    {"masks", "global tokens", PLAIN "mask=window:4:2+global:2", 0, false},
    {"masks", "global tokens, dilated", PLAIN "mask=window:2:2:2+len:9/16+global:rand:0.2", 0,
     false},
    {"masks", "global projections", PLAIN "mask=window:4:2+global:2 global_proj=1", 0, false},

    {"beside the mask", "bias", PLAIN "bias=normal", 0, false},
    {"beside the mask", "bias, broadcast", PLAIN "bias=normal:hqk", 0, false},
    {"beside the mask", "ALiBi", PLAIN "bias=alibi", 0, false},
    {"beside the mask", "softcap", PLAIN "softcap=4", 0, false},
    {"beside the mask", "sink", PLAIN "sink=1", 0, false},
    {"beside the mask", "dropout", PLAIN "dropout=0.2", 0, false},
    {"beside the mask", "all together",
     SIZES "hq=4 hkv=2 mask=causal+len:9/16 bias=normal+alibi softcap=4 sink=1 dropout=0.2", 0,
     false},

    {"weights", "sigmoid", PLAIN "weight_fn=sigmoid bias=const:-log(sk)", 0, false},
    {"weights", "relu2", PLAIN "weight_fn=relu2 scale=1/sk", 0, false},
    {"weights", "laplace", PLAIN "weight_fn=laplace", 0, false},
    {"weights", "softmax, gate", PLAIN "gate=1", 0, false},
    {"weights", "GAU: relu2, gate, causal",
     "b=2 h=1 s=16 dk=16 dv=32 weight_fn=relu2 scale=1/sk bias=const:0.1 gate=1 mask=causal", 0,
     false},
    {"weights", "relu2, rows without keys", PLAIN "weight_fn=relu2 mask=len:0/16", 0, false},

    {"outputs", "lse", PLAIN "out=lse", 0, false},
    {"outputs", "weights", PLAIN "out=weights", 0, false},
    {"outputs", "the same bits each run", PLAIN, ATTN_FLAG_DETERMINISTIC, false},

    {"memory", "layout bshd", PLAIN "layout=bshd", 0, false},
    {"memory", "layout bhds", PLAIN "layout=bhds", 0, false},
    {"memory", "gaps between rows", PLAIN "view=gaps", 0, false},
    {"memory", "axes permuted", PLAIN "view=permuted", 0, false},
    {"memory", "k, v broadcast", PLAIN "view=broadcast", 0, false},
    {"memory", "off alignment", PLAIN "view=offset1", 0, false},
    {"memory", "offsets beyond 2^31", PLAIN "view=huge", 0, false},

    {"multi-head", "self-attention", MHA, 0, false},
    {"multi-head", "cross-attention", "op=mha b=2 h=4 sq=9 sk=16 d=16 kv=cross", 0, false},
    {"multi-head", "grouped heads (GQA)", "op=mha b=2 hq=4 hkv=2 s=16 d=16", 0, false},
    {"multi-head", "biases", MHA "proj_bias=1", 0, false},
    {"multi-head", "other model width", MHA "e=40", 0, false},
    {"multi-head", "dv != dk", "op=mha b=2 h=4 s=16 dk=16 dv=24", 0, false},
    {"multi-head", "no output projection", MHA "wo=0", 0, false},
    {"multi-head", "residual", MHA "residual=1", 0, false},
    {"multi-head", "pruned heads", MHA "prune=1", 0, false},
    {"multi-head", "causal, lengths", MHA "mask=causal+len:9/16", 0, false},
    {"multi-head", "bias, softcap, sink", MHA "bias=normal softcap=4 sink=1", 0, false},
    {"multi-head", "dropout", MHA "dropout=0.2", 0, false},
    {"multi-head", "lse and weights", MHA "out=lse+weights", 0, false},
    {"multi-head", "dot scores", MHA "score=dot", 0, false},
    {"multi-head", "bilinear scores", MHA "score=bilinear", 0, false},
    {"multi-head", "gaussian scores", MHA "score=gaussian", 0, false},
    {"multi-head", "additive scores", MHA "score=additive", 0, false},
    {"multi-head", "layout bhds", MHA "layout=bhds", 0, false},

    {"wkv (RWKV-4)", "no state", WKV, 0, false},
    {"wkv (RWKV-4)", "state in and out", WKV "state_in=1 out=state_out", 0, false},

    {"linear_decay", "exclusive", DECAY, 0, false},
    {"linear_decay", "inclusive", DECAY "decay=inclusive", 0, false},
    {"linear_decay", "bonus", DECAY "bonus=1", 0, false},
    {"linear_decay", "state in and out", DECAY "state_in=1 out=state_out", 0, false},

    {"performer", "dense", PERFORMER, 0, false},
    {"performer", "causal", PERFORMER "mask=causal", 0, false},
    {"performer", "lengths", PERFORMER "mask=len:9", 0, false},
    {"performer", "eps", PERFORMER "eps=0.0001", 0, false},
    {"performer", "features by head, grouped heads", PERFORMER "hkv=2 params=head", 0, false},

    {"chunked (FLASH)", "both ways", CHUNK, 0, false},
    {"chunked (FLASH)", "causal", CHUNK "mask=causal", 0, false},
    {"chunked (FLASH)", "bias", CHUNK "bias=normal:hqk", 0, false},
    {"chunked (FLASH)", "lengths", CHUNK "mask=len:rand", 0, false},
    {"chunked (FLASH)", "gate", CHUNK "gate=1", 0, false},
    {"chunked (FLASH)", "own width, scale", CHUNK "dl=8 lin_scale=0.1", 0, false},

    {"linformer", "E and F", LIN "out=lse", 0, false},
    {"linformer", "E for both", LIN "proj_f=0", 0, false},
    {"linformer", "lengths", LIN "mask=len:9/40", 0, false},

    {"nystrom", "start by head", NYS "landmarks=8 iterations=4", 0, false},
    {"nystrom", "start by batch", NYS "landmarks=8 start=batch", 0, false},
    {"nystrom", "uneven segments", NYS "landmarks=7", 0, false},

    {"lsh (Reformer)", "buckets are given", LSH "hashes=given", 0, false},
    {"lsh (Reformer)", "buckets are an output", LSH, 0, false},
    {"lsh (Reformer)", "buckets are not shown", LSH "hashes=none", 0, false},
    {"lsh (Reformer)", "causal, lse", LSH "mask=causal out=lse", 0, false},
    {"lsh (Reformer)", "own token as any other", LSH "self=plain", 0, false},

    {"backward", "dense", BACK, 0, false},
    {"backward", "causal, sq != sk", BACK "sk=24 mask=causal_br", 0, false},
    {"backward", "window", BACK "mask=window:5:2", 0, false},
    {"backward", "lengths", BACK "mask=len:16/0", 0, false},
    {"backward", "boolean mask", BACK "mask=bool:0.5", 0, false},
    {"backward", "grouped heads (GQA)", "op=attention_backward b=2 hq=4 hkv=2 s=16 d=16", 0, false},
    {"backward", "dv != dk", "op=attention_backward b=2 h=4 s=16 dk=16 dv=24", 0, false},
    {"backward", "dq alone", BACK "out=dq", 0, false},
    {"backward", "softcap", BACK "softcap=4", 0, false},
    {"backward", "gradient of a bias", BACK "bias=normal:hqk out=dbias", 0, false},
    {"backward", "gradient of a sink", BACK "sink=1 out=dsink", 0, false},
    {"backward", "gradient of lse given", BACK "dlse=1", 0, false},
    {"backward", "gradient of ALiBi's slopes", BACK "bias=alibi out=dalibi", 0, false},
    {"backward", "dropout", BACK "dropout=0.2", 0, false},
    {NULL, NULL, NULL, 0, false},
};
