/* SPDX-License-Identifier: Apache-2.0 */
/* specs.h - problems that cuda_cudnn accepts. */
#ifndef ATTN_CUDNN_TEST_SPECS_H
#define ATTN_CUDNN_TEST_SPECS_H

#include <stdlib.h>

#include "../../tests/problem.h"

/* Also the gradients of the bias, of the slopes, or one that lse has. */
enum { WITH_GRAD_BIAS = 1 << 28, WITH_GRAD_ALIBI = 1 << 29, WITH_GRAD_LSE = 1 << 30 };

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

/* Adds a dense tensor like one that is there. */
static inline void add_like(struct test_problem *made, uint32_t role, uint32_t other)
{
    const uint32_t t = made->problem.n_tensors++;
    struct attn_tensor *x = &made->tensors[t];
    int64_t elements = 1;
    *x = *attn_tensor_find(&made->problem, other);
    x->role = role;
    if (role == ATTN_GRAD_BIAS || role == ATTN_GRAD_ALIBI)
        x->dtype = ATTN_F32;
    for (uint32_t a = x->rank; a-- > 0; elements *= x->shape[a]) {
        if (x->stride[a] == 0)
            x->shape[a] = 1;
        x->stride[a] = elements;
    }
    made->bytes[t] = (size_t)elements * (x->dtype == ATTN_F32 ? 4 : 2);
    x->data = calloc(1, made->bytes[t]);
}

/* The problem of a spec whose fields that are 0 are filled in; with zeros as gradients. */
static inline void make(const struct test_spec *spec, struct test_problem *made)
{
    static const uint32_t like[][2] = {{ATTN_GRAD_OUT, ATTN_OUT},
                                       {ATTN_GRAD_Q, ATTN_Q},
                                       {ATTN_GRAD_K, ATTN_K},
                                       {ATTN_GRAD_V, ATTN_V}};
    struct test_spec forward = filled(spec);
    const int gradients = forward.op == ATTN_OP_ATTENTION_BACKWARD;
    if (gradients) {
        forward.op = ATTN_OP_ATTENTION;
        forward.with |= WITH_LSE;
    }
    test_problem_make(&forward, made);
    if (!gradients)
        return;
    made->problem.op = ATTN_OP_ATTENTION_BACKWARD;
    for (size_t r = 0; r < sizeof like / sizeof *like; r++)
        add_like(made, like[r][0], like[r][1]);
    if (spec->with & WITH_GRAD_BIAS)
        add_like(made, ATTN_GRAD_BIAS, ATTN_BIAS);
    if (spec->with & WITH_GRAD_ALIBI)
        add_like(made, ATTN_GRAD_ALIBI, ATTN_ALIBI);
    if (spec->with & WITH_GRAD_LSE)
        add_like(made, ATTN_GRAD_LSE, ATTN_LSE);
}

#define GRADIENTS(of) .name = (of), .op = ATTN_OP_ATTENTION_BACKWARD

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
    {GRADIENTS("gradients, f16")},
    {GRADIENTS("gradients, bf16, d 128"), .dq = 128, .dtype = ATTN_BF16},
    {GRADIENTS("gradients, d 40"), .dq = 40},
    {GRADIENTS("gradients, d 128, 64"), .dq = 128, .dv = 64},
    {GRADIENTS("gradients, odd lengths, b s h d"), .sq = 77, .sk = 131, .with = WITH_BSHD},
    {GRADIENTS("gradients, heads alone"), .hkv = 4, .flags = ATTN_FLAG_CAUSAL},
    {GRADIENTS("gradients, multi-query"), .hkv = 1, .dtype = ATTN_BF16},
    {GRADIENTS("gradients, one query"), .sq = 1},
    {GRADIENTS("gradients, causal"), .flags = ATTN_FLAG_CAUSAL},
    {GRADIENTS("gradients, to the last key"), .sq = 40,
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
    {GRADIENTS("gradients, len"), .with = WITH_LEN},
    {GRADIENTS("gradients, len, to the last key"), .sq = 20, .with = WITH_LEN,
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
    {GRADIENTS("gradients, window"), .left = 16, .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW},
    {GRADIENTS("gradients, window to both sides"), .left = 16, .right = 5,
     .flags = ATTN_FLAG_WINDOW},
    {GRADIENTS("gradients, bias"), .with = WITH_BIAS, .flags = ATTN_FLAG_CAUSAL},
    {GRADIENTS("gradients, ALiBi"), .with = WITH_ALIBI, .flags = ATTN_FLAG_CAUSAL},
    {GRADIENTS("gradients, whole blocks"), .sq = 128, .sk = 256},
    {GRADIENTS("gradients, whole blocks, causal"), .sq = 256, .sk = 256, .dq = 128,
     .flags = ATTN_FLAG_CAUSAL},
    {GRADIENTS("gradients, whole blocks, to the last key"), .sq = 128, .sk = 256,
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
    {GRADIENTS("gradients, everything"), .left = 16, .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW,
     .with = WITH_LEN | WITH_BIAS | WITH_ALIBI},
};

#endif
