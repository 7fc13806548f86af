/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - the cost of a case: bytes of its operands, floating-point operations. */
#include <string.h>

#include "case/operator.h"
#include "reference/dtype.h"

/* A sum of products that remembers an overflow, or an unknown extent. */
struct total {
    uint64_t bytes;
    bool overflow, unknown;
};

/* Adds a tensor with these axes; bit a of `one`: axis a has extent 1. */
static void add(struct total *total, const struct ref_shape *shape, const char *axes,
                struct attn_drawn drawn, uint32_t dtype)
{
    uint64_t bytes = attn_dtype_size(dtype);
    bool empty = false, overflow = false;
    for (uint32_t a = 0; a < drawn.rank; a++) {
        const int64_t full = shape->extent[(unsigned char)axes[a]];
        const int64_t extent = drawn.one >> a & 1 ? 1 : full;
        total->unknown = total->unknown || full < 0;
        empty = empty || extent == 0;
        overflow =
            overflow || extent < 0 || __builtin_mul_overflow(bytes, (uint64_t)extent, &bytes);
    }
    if (empty) /* no elements, even if other extents are unknown */
        return;
    if (overflow || __builtin_add_overflow(total->bytes, bytes, &total->bytes))
        total->overflow = true;
}

uint32_t attn_type_drawn(const struct attn_case *c, uint8_t type)
{
    switch (type) {
    case REF_TYPE_WIDE:
        return c->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    case REF_TYPE_BOOL:
        return ATTN_BOOL;
    case REF_TYPE_INDEX:
        return ATTN_I32;
    default:
        return c->dtype;
    }
}

uint64_t attn_case_bytes(const struct attn_case *c)
{
    const struct ref_op *op = attn_case_op(c);
    const struct ref_operand *row;
    struct ref_shape shape;
    struct attn_drawn drawn;
    struct total total = {0};
    const bool fits = attn_case_shape(c, &shape);
    for (size_t n = 0; (row = ref_operand_at(op, n)); n++)
        if (attn_case_draws(c, row, &drawn))
            add(&total, &shape, row->shape, drawn, attn_type_drawn(c, row->type));
    for (const struct ref_output *o = op->outputs; o->role; o++)
        if (attn_case_gives(c, o))
            add(&total, &shape, o->shape, (struct attn_drawn){(uint32_t)strlen(o->shape), 0},
                attn_type_drawn(c, o->type));
    if (total.unknown) /* a pack that is not open yet */
        return 0;
    return total.overflow || !fits ? UINT64_MAX : total.bytes;
}

double attn_case_flops(const struct attn_case *c, int64_t nnz)
{
    struct ref_shape shape;
    attn_case_shape(c, &shape);
    return attn_case_op(c)->flops(&shape, (double)nnz);
}
