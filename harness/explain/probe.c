/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - rows and elements of attention's operands and outputs. */
#include "explain/probe.h"

#include "reference/dtype.h"
#include "reference/operands.h"

double attn_probe_element(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return attn_dtype_load(t->dtype, t->data,
                           b * t->stride[0] + h * t->stride[1] + i * t->stride[2] +
                               c * t->stride[3]);
}

/* The operand of a role for query i: its own if the token is global and has one. */
static const struct attn_tensor *of_query(const struct attn_problem *problem, uint32_t role,
                                          uint32_t global, int64_t b, int64_t i)
{
    const struct attn_tensor *own = attn_tensor_find(problem, global);
    struct ref_operands operands;
    if (own) {
        ref_operands_init(&operands, problem);
        own = ref_is_global(&operands, b, i) ? own : NULL;
    }
    return own ? own : attn_tensor_find(problem, role);
}

const struct attn_tensor *attn_probe_values(const struct attn_problem *problem, int64_t b,
                                            int64_t i)
{
    return of_query(problem, ATTN_V, ATTN_V_GLOBAL, b, i);
}

const struct attn_tensor *attn_probe_keys(const struct attn_problem *problem, int64_t b, int64_t i)
{
    return of_query(problem, ATTN_K, ATTN_K_GLOBAL, b, i);
}

struct attn_probe_row attn_probe_row(const struct attn_probe *probe, int64_t r)
{
    const struct attn_problem *p = &probe->instance->problem;
    const int64_t row = probe->rows->index ? probe->rows->index[r] : r;
    const int64_t h = row / p->sq % p->hq;
    return (struct attn_probe_row){.b = row / p->sq / p->hq,
                                   .h = h,
                                   .g = h / (p->hq / p->hkv),
                                   .i = row % p->sq,
                                   .n = probe->ref->allowed[r]};
}
