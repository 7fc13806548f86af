/* SPDX-License-Identifier: Apache-2.0 */
/* heatmap.h - the attention weights of the run's packs, head by head: the reference's, and beside
 * them how far each backend lies from it. */
#ifndef ATTN_REPORT_HEATMAP_H
#define ATTN_REPORT_HEATMAP_H

#include "report/view.h"

#define ATTN_HEATMAPS_MAX   16
#define ATTN_HEATMAP_SIDES  8
#define ATTN_HEATMAP_TOKENS 16 /* queries and keys that a picture shows; more can not be read */
#define ATTN_HEATMAP_HEADS  16

/* One backend's weights against the reference's. */
struct attn_heatmap_side {
    const struct attn_view_row *row;
    double largest; /* |backend - reference| over all cells that are finite in both */
    double shown;   /* the same over those that are drawn */
    size_t wrong;   /* cells where one of the two is not finite, and the other not the same */
    char note[256]; /* the two in words, and where the latter is */
};

/* Pictures plots/NAME_0 of the reference's weights and plots/NAME_s of side s-1, as .svg and .png,
 * drawn from NAME.dat and NAME.def.gp. */
struct attn_heatmap {
    char name[48];
    const struct attn_view_row *row; /* names the case */
    char source[256], shown[128];    /* of the pack; which part of it the pictures show */
    bool labelled;                   /* with tokens, not numbers */
    bool drawn;
    size_t n_sides;
    struct attn_heatmap_side sides[ATTN_HEATMAP_SIDES];
};

struct attn_heatmaps {
    struct attn_heatmap *items; /* packs with tokens first */
    size_t count;
    char note[1024]; /* what was left out and why, or "" */
};

/* Draws every pack whose weights the run kept. A kept file that can not be used is named in the
 * note and passed over. `stuck`: gnuplot is not to be started. Returns 0, or -1 with the reason (a
 * file can not be written, or the script is missing). */
int attn_heatmaps_write(const struct attn_view *view, const struct attn_run_data *run,
                        const char *script_dir, const char *out_dir, bool stuck,
                        struct attn_heatmaps *maps, char *why, size_t size);
void attn_heatmaps_free(struct attn_heatmaps *maps);

#endif
