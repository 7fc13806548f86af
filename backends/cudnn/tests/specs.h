/* SPDX-License-Identifier: Apache-2.0 */
/* specs.h - problems that cuda_cudnn accepts. */
#ifndef ATTN_CUDNN_TEST_SPECS_H
#define ATTN_CUDNN_TEST_SPECS_H

#include "../../tests/problem.h"

/* Fills in the fields of a spec that are 0. -1 keys means no keys. */
static inline struct test_spec filled(const struct test_spec *spec)
{
    struct test_spec f = *spec;
    f.b = 2;
    f.hq = 4;
    f.hkv = f.hkv ? f.hkv : 2;
    f.dtype = f.dtype ? f.dtype : ATTN_F16;
    f.sq = f.sq ? f.sq : 96;
    f.sk = f.sk ? f.sk : 96;
    f.sk = f.sk < 0 ? 0 : f.sk;
    f.dq = f.dq ? f.dq : 64;
    return f;
}

static const struct test_spec taken[] = {
    {.name = "f16"},
    {.name = "bf16, lse", .dtype = ATTN_BF16, .with = WITH_LSE},
    {.name = "d 8", .dq = 8},
    {.name = "d 72", .dq = 72, .dtype = ATTN_BF16},
    {.name = "d 128, causal", .dq = 128, .flags = ATTN_FLAG_CAUSAL},
    {.name = "d 192, 128", .dq = 192, .dv = 128, .dtype = ATTN_BF16},
    {.name = "d 256, causal", .dq = 256, .flags = ATTN_FLAG_CAUSAL},
    {.name = "odd lengths, b s h d", .sq = 77, .sk = 131, .with = WITH_BSHD},
    {.name = "multi-query", .hkv = 1, .flags = ATTN_FLAG_CAUSAL, .with = WITH_LSE},
    {.name = "one query", .sq = 1, .dq = 128, .sk = 200},
    {.name = "one query of a step, lse",
     .sq = 1,
     .dq = 128,
     .sk = 200,
     .with = WITH_LSE,
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
    {.name = "causal, tall", .sq = 130, .flags = ATTN_FLAG_CAUSAL},
    {.name = "causal, to the last key",
     .sq = 40,
     .with = WITH_LSE,
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
    {.name = "the same as an offset", .sq = 40, .off = 56, .flags = ATTN_FLAG_CAUSAL},
    {.name = "len", .with = WITH_LEN | WITH_LSE},
    {.name = "len, causal", .with = WITH_LEN, .flags = ATTN_FLAG_CAUSAL},
    {.name = "len, causal to the last key",
     .sq = 20,
     .with = WITH_LEN,
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
    {.name = "window, causal", .left = 16, .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW},
    {.name = "window to the last key",
     .sq = 40,
     .left = 16,
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR | ATTN_FLAG_WINDOW},
    {.name = "window to the last key, len",
     .sq = 20,
     .left = 16,
     .with = WITH_LEN,
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR | ATTN_FLAG_WINDOW},
    {.name = "window to both sides", .left = 16, .right = 5, .flags = ATTN_FLAG_WINDOW},
    {.name = "window to the left", .left = 16, .right = -1, .flags = ATTN_FLAG_WINDOW},
    {.name = "window to the right", .left = -1, .right = 5, .flags = ATTN_FLAG_WINDOW},
    {.name = "bias", .with = WITH_BIAS},
    {.name = "bias, causal, lse", .with = WITH_BIAS | WITH_LSE, .flags = ATTN_FLAG_CAUSAL},
    {.name = "ALiBi", .with = WITH_ALIBI, .flags = ATTN_FLAG_CAUSAL},
    {.name = "sink, causal, lse", .with = WITH_SINK | WITH_LSE, .flags = ATTN_FLAG_CAUSAL},
    {.name = "everything",
     .left = 16,
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW,
     .with = WITH_LEN | WITH_BIAS | WITH_ALIBI | WITH_SINK | WITH_LSE},
};

#endif
