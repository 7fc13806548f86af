/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - step 8 of attention: out is multiplied by the gate. */
#include <math.h>

#include "reference/job.h"
#include "reference/weight.h"

/* E of gate * out, where out is off by e. */
static double gated_error(const struct ref_arithmetic *a, double gate, double out, double e)
{
    const double size = fabs(gate), most = (fabs(out) + e) * size;

    /* An infinite gate gives an infinity whose sign is that of out, if that is known. */
    if (isinf(gate))
        return fabs(out) > e ? 0.0 : INFINITY;
    if (!isfinite(out) || !isfinite(e))
        return e;
    if (!(most * (1.0 + a->u_op) <= a->largest))
        return INFINITY;
    /* The product may underflow; a factor that is flushed loses what the other makes of it. */
    return size * e + a->u_op * most + a->omega * (a->ftz ? 1.0 + size + fabs(out) + e : 1.0);
}

void ref_gate_row(const struct ref_block *block, int64_t i, double *out, double *error)
{
    const struct attn_tensor *gate = block->job->operands.by_role[ATTN_GATE];

    for (int64_t c = 0; c < block->keys->dv; c++) {
        const double g = ref_load(gate, (const int64_t[]){block->b, block->h, i, c});
        if (error)
            error[c] = gated_error(&block->job->arithmetic, g, out[c], error[c]);
        out[c] *= g;
    }
}
