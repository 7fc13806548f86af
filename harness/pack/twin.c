/* SPDX-License-Identifier: Apache-2.0 */
/* twin.c - draws again, and changes what no seed decides. */
#include "pack/twin.h"

#include "pack/make.h"
#include "reference/dtype.h"
#include "tensor/operand.h"

static const uint64_t twin_seed = 0x7477696e;

enum change { NONE, MIX, COPY, REVERSE, HALVE, COMPLEMENT };

struct source {
    const struct attn_tensor *tensor, *drawn; /* of the base, and the twin's own */
    enum change change;
    int64_t count; /* stored elements */
    double most;   /* COMPLEMENT */
};

/* The element with a logical row-major index, where broadcast axes count as 1. */
static double load(const struct attn_tensor *tensor, int64_t index)
{
    int64_t at = 0;
    for (uint32_t axis = tensor->rank; axis-- > 0;) {
        const int64_t extent = tensor->stride[axis] == 0 ? 1 : tensor->shape[axis];
        at += index % extent * tensor->stride[axis];
        index /= extent;
    }
    return attn_dtype_load(tensor->dtype, tensor->data, at);
}

/* Does the row of this element keep the values of the base? */
static bool stays(const struct attn_tensor *tensor, uint64_t index)
{
    const uint32_t last = tensor->rank - 1;
    const int64_t width = tensor->stride[last] == 0 ? 1 : tensor->shape[last];
    const uint64_t row = index / (uint64_t)width;
    return row == 0 || (row * UINT64_C(0x9E3779B97F4A7C15)) >> 63;
}

/* With fewer rows hardly anything would change. */
enum { MIX_ROWS = 4 };

static bool has_rows(const struct attn_tensor *tensor)
{
    const uint32_t last = tensor->rank > 0 ? tensor->rank - 1 : 0;
    const bool wide = tensor->rank > 1 && tensor->stride[last] != 0;
    return wide && attn_operand_count(tensor) >= MIX_ROWS * tensor->shape[last];
}

static double changed(const void *context, uint64_t index)
{
    const struct source *s = context;
    const int64_t i = (int64_t)index;
    switch (s->change) {
    case REVERSE:
        return load(s->tensor, s->count - 1 - i);
    case MIX:
        return load(stays(s->drawn, index) ? s->tensor : s->drawn, i);
    case COPY:
        return load(s->tensor, i);
    case HALVE:
        return load(s->tensor, i) / 2;
    default:
        return s->most - load(s->tensor, i);
    }
}

/* How an input is changed that another seed leaves as it is. */
static enum change change_of(const struct attn_case *c, uint32_t role, bool packed)
{
    if (!packed && attn_role_is_packed(role))
        return COPY;
    switch (role) {
    case ATTN_LEN:
        return c->data || c->len == ATTN_LEN_LIST ? COMPLEMENT : NONE;
    case ATTN_ALIBI:
        return HALVE;
    case ATTN_HEAD_MASK:
        return REVERSE;
    default:
        return c->data ? REVERSE : NONE;
    }
}

int attn_twin_create(const struct attn_instance *base, bool packed, int threads,
                     struct attn_instance **out, char *why, size_t size)
{
    struct attn_case c = base->c; /* nothing in the copy is owned */
    struct attn_instance *twin;
    c.seed ^= twin_seed;
    if (attn_instance_create(&c, threads, &twin, why, size) != 0)
        return -1;
    /* What a fill proves need not hold for a mixture. */
    const bool plain = c.fill == ATTN_FILL_NORMAL || c.fill == ATTN_FILL_UNIFORM;
    /* It is part of the problem that a plan is made for. */
    twin->problem.dropout_seed = base->problem.dropout_seed;
    for (uint32_t t = 0; t < twin->problem.n_tensors; t++) {
        const uint32_t role = base->tensors[t].role;
        struct source source = {.tensor = &base->tensors[t],
                                .drawn = &twin->tensors[t],
                                .change = change_of(&base->c, role, packed),
                                .count = attn_operand_count(&base->tensors[t]),
                                .most = (double)base->problem.sk};
        if (source.change == NONE && !twin->operands[t].output && plain && has_rows(source.tensor))
            source.change = MIX;
        if (!twin->operands[t].output && source.change != NONE)
            attn_operand_fill(&twin->tensors[t], threads, changed, &source);
    }
    if (attn_instance_derive(twin, threads, why, size) != 0 ||
        attn_instance_is_ambiguous(twin, why, size)) {
        attn_instance_free(twin);
        return -1;
    }
    *out = twin;
    return 0;
}
