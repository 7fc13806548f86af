/* SPDX-License-Identifier: Apache-2.0 */
/* project_pairs.h - what project_template.h does, for products of pairs of bf16. Keys are packed as
 * V is (flash_pack_pairs.h), rows of E or F as q is. Sums are f32 and are rounded to bf16 once,
 * after the last key. */
#include <string.h>

#include "projected.h"

/* The scratch of a part, by name. */
struct project_room {
    float *keys; /* [pairs(ATTN_PROJECT_PAIR_KEYS)][wide] */
    float *rows; /* [ATTN_PROJECT_PAIR_ROWS][ATTN_PROJECT_PAIR_ROW] pairs */
    float *sums; /* [ATTN_PROJECT_PAIR_ROWS][wide] */
    int64_t wide;
};

/* Columns [first, first + keys) of the part's rows of E. */
static void copy_project_rows(const struct attn_project_part *part, int64_t first, int64_t keys,
                              const struct project_room *room)
{
    const struct attn_tensor *e = part->matrix;
    const uint16_t *row = (const uint16_t *)e->data + part->h * e->stride[0] +
                          part->first * e->stride[1] + first * e->stride[2];
    for (int64_t n = 0; n < part->rows; n++)
        copy_pairs(row + n * e->stride[1], e->stride[2], keys,
                   room->rows + n * ATTN_PROJECT_PAIR_ROW);
}

static void run_project(const struct attn_project_part *part)
{
    const struct attn_tensor *from = part->from, *to = part->to;
    struct project_room room = {.keys = part->scratch,
                                .wide = attn_round_up(to->shape[3], VF_LANES)};
    room.rows = room.keys + ATTN_PROJECT_PAIR_KEYS / 2 * room.wide;
    room.sums = room.rows + ATTN_PROJECT_PAIR_ROWS * ATTN_PROJECT_PAIR_ROW;
    memset(room.sums, 0, (size_t)(part->rows * room.wide) * sizeof *room.sums);
    for (int64_t j = 0; j < part->length; j += ATTN_PROJECT_PAIR_KEYS) {
        const int64_t keys = attn_clamp(part->length - j, 1, ATTN_PROJECT_PAIR_KEYS);
        pair_rows((const uint16_t *)from->data + attn_row_start(from, part->b, part->h, j),
                  from->stride[2], from->stride[3], keys, from->shape[3], room.keys, room.wide);
        copy_project_rows(part, j, keys, &room);
        matrix_multiply_vectors(&(struct matrix_product){.a = room.rows,
                                                         .a_row = ATTN_PROJECT_PAIR_ROW,
                                                         .a_step = 1,
                                                         .b = room.keys,
                                                         .b_row = room.wide,
                                                         .c = room.sums,
                                                         .c_row = room.wide,
                                                         .rows = part->rows,
                                                         .columns = room.wide,
                                                         .depth = pairs(keys)});
    }
    for (int64_t n = 0; n < part->rows; n++)
        narrow(to, attn_row_start(to, part->b, part->h, part->first + n), 1, to->shape[3],
               room.sums + n * room.wide, 1.0f);
}
