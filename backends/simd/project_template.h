/* SPDX-License-Identifier: Apache-2.0 */
/* project_template.h - the projections of linformer, after flash_template.h: a few rows of E or F
 * times all keys of a head. Sums go on from one packed block of keys to the next. */
#include <string.h>

#include "projected.h"

/* Rows of E that meet two vectors of columns at a time: 12 sums, as in attention. */
#define PROJECT_MR 6

/* to += w x for `rows` rows: w [PROJECT_MR,ATTN_PROJECT_KEYS], x [keys,wide]. */
static void add_projected(const float *w, const float *x, int64_t keys, int64_t wide, int64_t rows,
                          float *to, int64_t stride)
{
    for (int64_t c = 0; c < wide; c += 2 * VF_LANES) {
        vf sum[PROJECT_MR][2];
#pragma GCC unroll 6
        for (int l = 0; l < PROJECT_MR; l++) {
            const float *at = to + (l < rows ? l : 0) * stride + c;
            sum[l][0] = vf_load(at);
            sum[l][1] = vf_load(at + VF_LANES);
        }
        for (int64_t j = 0; j < keys; j++) {
            const vf low = vf_load(x + j * wide + c), high = vf_load(x + j * wide + c + VF_LANES);
#pragma GCC unroll 6
            for (int l = 0; l < PROJECT_MR; l++) {
                const vf weight = vf_set1(w[l * ATTN_PROJECT_KEYS + j]);
                sum[l][0] = vf_fma(weight, low, sum[l][0]);
                sum[l][1] = vf_fma(weight, high, sum[l][1]);
            }
        }
#pragma GCC unroll 6
        for (int l = 0; l < PROJECT_MR; l++) {
            if (l < rows) {
                vf_store(to + l * stride + c, sum[l][0]);
                vf_store(to + l * stride + c + VF_LANES, sum[l][1]);
            }
        }
    }
}

/* Keys [first, first + keys) of the part's head, and what its rows make of them. */
static void project_tile(const struct attn_project_part *part, int64_t first, int64_t keys,
                         int64_t wide, float *to)
{
    const struct attn_tensor *from = part->from, *matrix = part->matrix;
    const int64_t stride = part->to->stride[2];
    float *x = part->scratch, *w = x + ATTN_PROJECT_KEYS * wide;
    for (int64_t j = 0; j < keys; j++)
        widen(from, attn_row_start(from, part->b, part->h, first + j), from->stride[3],
              from->shape[3], x + j * wide);
    for (int64_t l = 0; l < part->rows; l += PROJECT_MR) {
        const int64_t rows = part->rows - l < PROJECT_MR ? part->rows - l : PROJECT_MR;
        for (int64_t n = 0; n < rows; n++)
            widen(matrix,
                  part->h * matrix->stride[0] + (part->first + l + n) * matrix->stride[1] +
                      first * matrix->stride[2],
                  matrix->stride[2], keys, w + n * ATTN_PROJECT_KEYS);
        add_projected(w, x, keys, wide, rows, to + l * stride, stride);
    }
}

static void run_project(const struct attn_project_part *part)
{
    const struct attn_tensor *t = part->to, *from = part->from;
    const int64_t wide = attn_round_up(t->shape[3], 2 * VF_LANES);
    float *to = (float *)t->data + part->b * t->stride[0] + part->h * t->stride[1] +
                part->first * t->stride[2];
    if (!part->matrix) {
        for (int64_t i = 0; i < part->rows; i++)
            widen(from, attn_row_start(from, part->b, part->h, part->first + i), from->stride[3],
                  from->shape[3], to + i * t->stride[2]);
        return;
    }
    memset(to, 0, (size_t)(part->rows * t->stride[2]) * sizeof *to);
    memset(part->scratch, 0,
           (size_t)(ATTN_PROJECT_KEYS * (wide + PROJECT_MR)) * sizeof *part->scratch);
    for (int64_t j = 0; j < part->length; j += ATTN_PROJECT_KEYS)
        project_tile(part, j, attn_clamp(part->length - j, 1, ATTN_PROJECT_KEYS), wide, to);
}
