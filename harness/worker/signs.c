/* SPDX-License-Identifier: Apache-2.0 */
/* signs.c - which operands turn together, and the turn itself. */
#include "worker/signs.h"

#include <endian.h>

#include "reference/dtype.h"

_Static_assert(ATTN_MAX_TENSORS <= 32, "a bit for each tensor");

/* Is it turned if v is, or v and dout are. */
static bool turns(uint32_t role)
{
    return role == ATTN_V || role == ATTN_OUT || role == ATTN_GRAD_OUT || role == ATTN_GRAD_V;
}

/* Is it what it was although v, or v and dout, were turned. */
static bool stays(uint32_t role)
{
    return role == ATTN_LSE || role == ATTN_WEIGHTS || role == ATTN_BUCKETS_OUT ||
           (role >= ATTN_GRAD_Q && role <= ATTN_GRAD_ALIBI);
}

struct attn_signs attn_signs_of(const struct attn_message_request *request)
{
    const struct attn_signs none = {.turns = 0};
    struct attn_signs signs = none;
    const uint32_t linear =
        request->linear > 0 ? request->tensors[request->linear - 1].role : ATTN_OUT;
    if (linear != ATTN_V && linear != ATTN_GRAD_OUT)
        return none;
    for (uint32_t t = 0; t < request->n_tensors; t++) {
        const struct attn_tensor *tensor = &request->tensors[t];
        if (!turns(tensor->role) && request->operands[t].output && !stays(tensor->role))
            return none;
        if (!turns(tensor->role))
            continue;
        if (tensor->rank == 0)
            return none;
        const int64_t width = tensor->shape[tensor->rank - 1];
        if (!attn_dtype_is_float(tensor->dtype) || width != request->problem.dv ||
            (width > 1 && tensor->stride[tensor->rank - 1] == 0))
            return none;
        signs.turns |= 1u << t;
    }
    return signs;
}

/* A row of `width` columns. */
static void turn_row(const struct attn_signs *signs, unsigned char *row, int64_t width, size_t step)
{
    for (int64_t c = 0; c < width; c++, row += step)
        *row ^= (unsigned char)((signs->columns[(c >> 6) & 3] >> (c & 63) & 1) << 7);
}

/* Elements that several indices share, by a stride of 0, are turned once. */
static void turn(const struct attn_signs *signs, const struct attn_tensor *tensor, uint32_t element)
{
    const uint32_t last = tensor->rank - 1;
    const size_t sign = __BYTE_ORDER == __LITTLE_ENDIAN ? element - 1 : 0;
    const size_t step = (size_t)tensor->stride[last] * element;
    int64_t index[ATTN_MAX_RANK] = {0};
    unsigned char *row = (unsigned char *)tensor->data + sign;
    for (uint32_t a = 0; a < last; a++)
        if (tensor->shape[a] == 0)
            return;
    for (;;) {
        turn_row(signs, row, tensor->shape[last], step);
        uint32_t a = last;
        for (; a-- > 0; index[a] = 0) {
            const size_t stride = (size_t)tensor->stride[a] * element;
            if (stride > 0 && ++index[a] < tensor->shape[a]) {
                row += stride;
                break;
            }
            row -= stride > 0 ? stride * (size_t)(tensor->shape[a] - 1) : 0;
        }
        if (a == UINT32_MAX)
            return;
    }
}

void attn_signs_turn(const struct attn_signs *signs, const struct attn_message_request *request,
                     const struct attn_tensor *tensors, bool outputs)
{
    for (uint32_t t = 0; t < request->n_tensors; t++)
        if (signs->turns >> t & 1 && (request->operands[t].output != 0) == outputs)
            turn(signs, &tensors[t], request->operands[t].element);
}
