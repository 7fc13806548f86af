/* SPDX-License-Identifier: Apache-2.0 */
/* labels.c - places names beside points: the first free one of a few places, name by name. */
#include "report/labels.h"

/* Steps from the point: to the name's near end, and to its middle line. The nearest come first; on
 * the line of the point a name stands only right of it. */
static const struct place {
    double x, y;
} places[] = {
    {7, 8}, {7, -8}, {-7, 8}, {-7, -8}, {10, 0}, {7, 19}, {7, -19}, {-7, 19}, {-7, -19},
};
#define PLACES (sizeof places / sizeof places[0])

static bool overlap(const struct attn_box *a, const struct attn_box *b)
{
    return a->left < b->right && b->left < a->right && a->low < b->high && b->low < a->high;
}

static bool is_free(const struct attn_box *box, const struct attn_label *labels, size_t n_labels,
                    const struct attn_box *obstacles, size_t n_obstacles)
{
    for (size_t o = 0; o < n_obstacles; o++)
        if (overlap(box, &obstacles[o]))
            return false;
    for (size_t l = 0; l < n_labels; l++)
        if (labels[l].placed && overlap(box, &labels[l].box))
            return false;
    return true;
}

static struct attn_box box_at(const struct attn_label *label, const struct place *place)
{
    const double near = label->x + place->x, middle = label->y + place->y;
    return (struct attn_box){.left = place->x > 0 ? near : near - label->width,
                             .low = middle - label->height / 2,
                             .right = place->x > 0 ? near + label->width : near,
                             .high = middle + label->height / 2};
}

size_t attn_labels_place(struct attn_label *labels, size_t n_labels,
                         const struct attn_box *obstacles, size_t n_obstacles, double width,
                         double height)
{
    size_t without = 0;
    for (size_t l = 0; l < n_labels; l++) {
        struct attn_label *label = &labels[l];
        label->placed = false;
        for (size_t p = 0; p < PLACES && !label->placed; p++) {
            const struct attn_box box = box_at(label, &places[p]);
            if (box.left < 0 || box.low < 0 || box.right > width || box.high > height ||
                !is_free(&box, labels, l, obstacles, n_obstacles))
                continue;
            label->placed = true;
            label->box = box;
        }
        without += !label->placed;
    }
    return without;
}
