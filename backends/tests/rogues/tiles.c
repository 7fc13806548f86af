/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.c - operands of any type and stride as tiles of f32, and results back. */
#include <string.h>

#include "honest.h"
#include "rogue.h"

void rogue_read(const struct attn_tensor *t, int64_t at, int64_t step, int64_t n, float *to)
{
    if (t->dtype == ATTN_F32) {
        const float *from = (const float *)t->data + at;
        for (int64_t c = 0; c < n; c++)
            to[c] = from[c * step];
        return;
    }
    const uint16_t *from = (const uint16_t *)t->data + at;
    if (t->dtype == ATTN_BF16)
        for (int64_t c = 0; c < n; c++)
            to[c] = attn_f32_of_bf16(from[c * step]);
    else
        for (int64_t c = 0; c < n; c++)
            to[c] = attn_f32_of_f16(from[c * step]);
}

void rogue_write(const struct attn_tensor *t, int64_t at, int64_t step, int64_t n,
                 const float *from)
{
    for (int64_t c = 0; c < n; c++)
        attn_element_write(t->dtype, t->data, at + c * step, from[c]);
}

void rogue_load_queries(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                        int64_t rows)
{
    const struct attn_tensor *q = &job->t.q;
    for (int64_t r = 0; r < rows; r++) {
        rogue_read(q, rogue_start(job, q, b, scratch->rows[r].q_head, scratch->rows[r].i),
                   q->stride[3], job->p->dq, scratch->q + r * job->inner);
        rogue_round_operands(scratch->q + r * job->inner, job->p->dq);
    }
}

void rogue_load_keys(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                     int64_t g, int64_t j, int64_t keys)
{
    const struct attn_tensor *k = &job->t.k;
    for (int64_t t = 0; t < KEY_TILE; t++) {
        if (t < keys)
            rogue_read(k, rogue_start(job, k, b, g, j + t), k->stride[3], job->p->dk,
                       scratch->line);
        rogue_round_operands(scratch->line, job->p->dk);
        for (int64_t c = 0; c < job->p->dk; c++)
            scratch->kt[c * KEY_TILE + t] = t < keys ? scratch->line[c] : 0;
    }
}

void rogue_load_values(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                       int64_t g, int64_t j, int64_t keys)
{
    const struct attn_tensor *v = &job->t.v;
    const int64_t width = job->p->dv;
    for (int64_t t = 0; t < keys; t++) {
        float *row = scratch->v + t * job->wide;
        rogue_read(v, rogue_start(job, v, b, g, j + t), v->stride[3], width, row);
        if (bug(dv_neighbour))
            rogue_read(
                v, rogue_start(job, v, b, (g + 1) % job->p->hkv, j + t) + width / 2 * v->stride[3],
                v->stride[3], width - width / 2, row + width / 2);
        rogue_round_operands(row, width);
        memset(row + width, 0, (size_t)(job->wide - width) * sizeof(*row));
    }
    memset(scratch->v + keys * job->wide, 0,
           (size_t)((KEY_TILE - keys) * job->wide) * sizeof(*scratch->v));
}
