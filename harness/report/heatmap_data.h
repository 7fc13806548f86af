/* SPDX-License-Identifier: Apache-2.0 */
/* heatmap_data.h - turns kept weights into the data and definitions of a pack's heat-maps. */
#ifndef ATTN_REPORT_HEATMAP_DATA_H
#define ATTN_REPORT_HEATMAP_DATA_H

#include "report/canvas.h"
#include "report/weights.h"

/* The weights to draw. `sides` has the order of struct attn_heatmap. */
struct attn_heatmap_data {
    struct attn_weights reference, sides[ATTN_HEATMAP_SIDES];
    int64_t batch, heads, queries, keys; /* the part to draw: heads, queries, keys from 0 on */
};

/* Chooses the part to draw and describes it. */
void attn_heatmap_choose(struct attn_heatmap_data *data, struct attn_heatmap *map);

/* Compares a side with the reference. Both must have the same shape. */
void attn_heatmap_compare(const struct attn_heatmap_data *data, size_t side,
                          struct attn_heatmap *map);

/* Writes plots/NAME.dat and plots/NAME.def.gp. Returns 0, or -1 with the reason. */
int attn_heatmap_write_data(const struct attn_canvas *canvas, const struct attn_heatmap_data *data,
                            const struct attn_heatmap *map);

#endif
