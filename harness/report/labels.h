/* SPDX-License-Identifier: Apache-2.0 */
/* labels.h - finds places for names beside the points of a picture. */
#ifndef ATTN_REPORT_LABELS_H
#define ATTN_REPORT_LABELS_H

#include <stdbool.h>
#include <stddef.h>

/* In pixels from the lower left corner of the plot. */
struct attn_box {
    double left, low, right, high;
};

/* A name of one line and the point that it belongs to. */
struct attn_label {
    double x, y;          /* of the point */
    double width, height; /* of the name */
    bool placed;          /* filled, and if it is true: */
    struct attn_box box;  /* where the name stands */
};

/* Places the names in their order, each where it covers no obstacle and no name before it and does
 * not leave the plot. A name without such a place beside its point is not placed. Returns how many
 * are not. */
size_t attn_labels_place(struct attn_label *labels, size_t n_labels,
                         const struct attn_box *obstacles, size_t n_obstacles, double width,
                         double height);

#endif
