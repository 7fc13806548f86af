/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - rows and elements of attention's operands and outputs. */
#include "explain/probe.h"

#include "reference/dtype.h"

double attn_probe_element(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return attn_dtype_load(t->dtype, t->data,
                           b * t->stride[0] + h * t->stride[1] + i * t->stride[2] +
                               c * t->stride[3]);
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
