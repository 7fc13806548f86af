/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - what a case costs: bytes of its operands, floating-point operations. */
#include "case/case.h"

/* A sum of products that remembers an overflow. */
struct total {
    uint64_t bytes;
    bool overflow;
};

/* Adds a tensor of up to four extents; an extent of 1 fills the others. */
static void add(struct total *total, uint64_t element, int64_t n0, int64_t n1, int64_t n2,
                int64_t n3)
{
    const int64_t extents[] = {n0, n1, n2, n3};
    uint64_t bytes = element;
    bool empty = false, overflow = false;
    for (int i = 0; i < 4; i++) {
        empty = empty || extents[i] == 0;
        overflow = overflow || extents[i] < 0 ||
                   __builtin_mul_overflow(bytes, (uint64_t)extents[i], &bytes);
    }
    if (empty) /* no elements, whatever the other extents are */
        return;
    if (overflow || __builtin_add_overflow(total->bytes, bytes, &total->bytes))
        total->overflow = true;
}

static uint64_t element_bytes(uint32_t dtype)
{
    return dtype == ATTN_F64 ? 8 : dtype == ATTN_F32 ? 4 : 2;
}

static void add_axes(struct total *total, uint64_t element, const struct attn_case *c,
                     unsigned axes)
{
    add(total, element, axes & ATTN_AXIS_B ? c->b : 1, axes & ATTN_AXIS_H ? c->hq : 1,
        axes & ATTN_AXIS_Q ? c->sq : 1, axes & ATTN_AXIS_K ? c->sk : 1);
}

static void add_attention(struct total *total, const struct attn_case *c, uint64_t element)
{
    add(total, element, c->b, c->hq, c->sq, c->dq);
    add(total, element, c->b, c->hkv, c->sk, c->dk);
    add(total, element, c->b, c->hkv, c->sk, c->dv);
    add(total, element, c->b, c->hq, c->sq, c->dv);
}

static void add_mha(struct total *total, const struct attn_case *c, uint64_t element)
{
    add(total, element, c->b, c->sq, c->e, 1);
    if (c->cross)
        add(total, element, c->b, c->sk, c->e, 1);
    add(total, element, c->hq, c->dq, c->e, 1);
    add(total, element, c->hkv, c->dk, c->e, 1);
    add(total, element, c->hkv, c->dv, c->e, 1);
    if (c->wo)
        add(total, element, c->e, c->hq, c->dv, 1);
    if (c->proj_bias) {
        add(total, element, c->hq, c->dq, 1, 1);
        add(total, element, c->hkv, c->dk, 1, 1);
        add(total, element, c->hkv, c->dv, 1, 1);
        add(total, element, c->wo ? c->e : 0, 1, 1, 1);
    }
    if (c->n_prune > 0)
        add(total, 1, c->hq, 1, 1, 1);
    if (c->wo)
        add(total, element, c->b, c->sq, c->e, 1);
    else
        add(total, element, c->b, c->sq, c->hq, c->dv);
}

static void add_score(struct total *total, const struct attn_case *c, uint64_t element)
{
    int64_t sets = c->params_head ? c->hq : 1;
    if (c->score == ATTN_SCORE_BILINEAR)
        add(total, element, sets, c->dq, c->dk, 1);
    if (c->score != ATTN_SCORE_ADDITIVE)
        return;
    add(total, element, sets, c->dh, c->dq, 1);
    add(total, element, sets, c->dh, c->dk, 1);
    add(total, element, sets, c->dh, 1, 1);
}

static void add_masks(struct total *total, const struct attn_case *c, uint64_t element,
                      uint64_t wide)
{
    if (c->mask_bool)
        add_axes(total, 1, c, c->mask_axes);
    if (c->len == ATTN_LEN_LIST || c->len == ATTN_LEN_RAND)
        add(total, 4, c->b, 1, 1, 1);
    if (c->len == ATTN_LEN_RAND_2D)
        add(total, 4, c->b, c->sq, 1, 1);
    if (c->bias_normal)
        add_axes(total, element, c, c->bias_axes);
    if (c->alibi)
        add(total, wide, c->hq, 1, 1, 1);
    if (c->sink)
        add(total, wide, c->hq, 1, 1, 1);
}

uint64_t attn_case_bytes(const struct attn_case *c)
{
    struct total total = {0, false};
    uint64_t element = element_bytes(c->dtype), wide = c->dtype == ATTN_F64 ? 8 : 4;
    const int64_t sizes[] = {c->b, c->hq, c->hkv, c->sq, c->sk, c->dq, c->dk, c->dv};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i] < 0)
            return 0; /* a pack that is not open yet */
    if ((c->op == ATTN_OP_MHA && c->e < 0) || (c->score == ATTN_SCORE_ADDITIVE && c->dh < 0))
        return 0;
    if (c->op == ATTN_OP_MHA)
        add_mha(&total, c, element);
    else
        add_attention(&total, c, element);
    add_score(&total, c, element);
    add_masks(&total, c, element, wide);
    if (c->out_lse)
        add(&total, wide, c->b, c->hq, c->sq, 1);
    if (c->out_weights)
        add(&total, element, c->b, c->hq, c->sq, c->sk);
    return total.overflow ? UINT64_MAX : total.bytes;
}

double attn_case_flops(const struct attn_case *c, int64_t nnz)
{
    double flops = 2.0 * (double)(c->dk + c->dv) * (double)nnz;
    if (c->op != ATTN_OP_MHA)
        return flops;
    double b = (double)c->b, sq = (double)c->sq, sk = (double)c->sk, e = (double)c->e;
    double q = sq * e * (double)(c->hq * c->dq), k = sk * e * (double)(c->hkv * c->dk);
    double v = sk * e * (double)(c->hkv * c->dv);
    double o = c->wo ? sq * (double)(c->hq * c->dv) * e : 0;
    return flops + 2 * b * (q + k + v + o);
}
