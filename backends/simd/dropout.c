/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.c - see dropout.h */
#include "dropout.h"

static inline void weigh_kept(float *p, bool kept, float keep_by)
{
    *p = kept ? *p * keep_by : -0.0f;
}

void attn_dropout_row(const struct attn_flash *job, int64_t b, int64_t h, int64_t i,
                      struct attn_keys keys, float *p)
{
    const uint64_t seed = job->problem->dropout_seed;
    const uint64_t row = attn_dropout_index(job->problem, b, h, i);
    const int64_t step = job->operands.keep.stride[3];
    const uint8_t *keep = attn_mask_row(&job->operands.keep, b, h, i);
    if (keep)
        for (int64_t j = keys.first; j < keys.end; j++)
            weigh_kept(&p[j - keys.first], keep[j * step] != 0, job->keep_by);
    else
        for (int64_t j = keys.first; j < keys.end; j++)
            weigh_kept(&p[j - keys.first],
                       attn_dropout_word(seed, row + (uint64_t)j) >> 8 >= job->keep_from,
                       job->keep_by);
}
