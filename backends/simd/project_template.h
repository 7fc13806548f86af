/* SPDX-License-Identifier: Apache-2.0 */
/* project_template.h - the projections of linformer, after matrix_tile.h: a few rows of E or F
 * times all keys of a head. Sums go on from one block of keys to the next. */
#include <string.h>

#include "projected.h"

/* Keys [first, first + keys) of the part's head, in place or packed. In place they must be dense,
 * so that they do not fall into the same cache sets. */
static void take_project_keys(const struct attn_project_part *part, int64_t first, int64_t keys,
                              int64_t wide, struct matrix_product *x)
{
    const struct attn_tensor *from = part->from;
    const int64_t at = attn_row_start(from, part->b, part->h, first);
    const bool in_place = from->dtype == ATTN_F32 && from->stride[3] == 1 &&
                          from->shape[3] == wide && from->stride[2] == wide &&
                          (uintptr_t)((const float *)from->data + at) % sizeof(vf) == 0;
    x->b = in_place ? (const float *)from->data + at : part->scratch;
    x->b_row = wide;
    for (int64_t j = 0; !in_place && j < keys; j++)
        widen(from, at + j * from->stride[2], from->stride[3], from->shape[3],
              part->scratch + j * wide);
}

/* The same columns of the part's rows of E: in place where they are read once, or packed. */
static void take_project_rows(const struct attn_project_part *part, int64_t first, int64_t keys,
                              float *packed, struct matrix_product *x)
{
    const struct attn_tensor *e = part->matrix;
    const int64_t at = part->h * e->stride[0] + part->first * e->stride[1] + first * e->stride[2];
    const bool in_place = e->dtype == ATTN_F32 && x->columns <= FLASH_NR;
    x->a = in_place ? (const float *)e->data + at : packed;
    x->a_row = in_place ? e->stride[1] : ATTN_PROJECT_KEYS;
    x->a_step = in_place ? e->stride[2] : 1;
    for (int64_t n = 0; !in_place && n < part->rows; n++)
        widen(e, at + n * e->stride[1], e->stride[2], keys, packed + n * ATTN_PROJECT_KEYS);
}

/* What the rows of a part make of keys [first, first + keys). */
static void project_tile(const struct attn_project_part *part, int64_t first, int64_t keys,
                         int64_t wide, float *to)
{
    struct matrix_product x = {
        .c = to, .c_row = part->to->stride[2], .rows = part->rows, .columns = wide, .depth = keys};
    take_project_keys(part, first, keys, wide, &x);
    take_project_rows(part, first, keys, part->scratch + ATTN_PROJECT_KEYS * wide, &x);
    matrix_multiply(&x);
}

static void run_project(const struct attn_project_part *part)
{
    const struct attn_tensor *t = part->to, *from = part->from;
    const int64_t wide = attn_round_up(t->shape[3], FLASH_NR);
    float *to = (float *)t->data + part->b * t->stride[0] + part->h * t->stride[1] +
                part->first * t->stride[2];
    if (!part->matrix) {
        for (int64_t i = 0; i < part->rows; i++)
            widen(from, attn_row_start(from, part->b, part->h, part->first + i), from->stride[3],
                  from->shape[3], to + i * t->stride[2]);
        return;
    }
    memset(to, 0, (size_t)(part->rows * t->stride[2]) * sizeof *to);
    memset(part->scratch, 0, (size_t)(ATTN_PROJECT_KEYS * wide) * sizeof *part->scratch);
    for (int64_t j = 0; j < part->length; j += ATTN_PROJECT_KEYS)
        project_tile(part, j, attn_clamp(part->length - j, 1, ATTN_PROJECT_KEYS), wide, to);
}
