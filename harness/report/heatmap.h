/* SPDX-License-Identifier: Apache-2.0 */
/* heatmap.h - attention weights of the run's packs, head by head: those of the reference, and the
 * distance of each backend from them. */
#ifndef ATTN_REPORT_HEATMAP_H
#define ATTN_REPORT_HEATMAP_H

#include "report/view.h"

#define ATTN_HEATMAPS_MAX   16
#define ATTN_HEATMAP_SIDES  8
#define ATTN_HEATMAP_TOKENS 16 /* queries and keys of a picture; more are illegible */
#define ATTN_HEATMAP_HEADS  16

/* Compares the weights of one backend with those of the reference. */
struct attn_heatmap_side {
    const struct attn_view_row *row;
    double largest; /* |backend - reference| over all cells finite in both */
    double shown;   /* the same over the cells that are drawn */
    size_t wrong;   /* cells where one is not finite and the other differs */
    char note[256]; /* both in words, and the place of the second */
};

/* plots/NAME_0 shows the weights of the reference, plots/NAME_s those of side s-1, as .svg and
 * .png. They are drawn from NAME.dat and NAME.def.gp. */
struct attn_heatmap {
    char name[48];
    const struct attn_view_row *row; /* names the case */
    char source[256], shown[128];    /* of the pack; the part of it that is drawn */
    bool labelled;                   /* with tokens; else with numbers */
    bool drawn;
    size_t n_sides;
    struct attn_heatmap_side sides[ATTN_HEATMAP_SIDES];
};

struct attn_heatmaps {
    struct attn_heatmap *items; /* packs with tokens first */
    size_t count;
    char note[1024]; /* what was left out, and why; or "" */
};

/* Draws every pack whose weights the run kept. The note names a kept file that cannot be used; the
 * file is skipped. `stuck`: do not start gnuplot. Returns 0, or -1 with the reason: a file cannot
 * be written, or the script is missing. */
int attn_heatmaps_write(const struct attn_view *view, const struct attn_run_data *run,
                        const char *script_dir, const char *out_dir, bool stuck,
                        struct attn_heatmaps *maps, char *why, size_t size);
void attn_heatmaps_free(struct attn_heatmaps *maps);

#endif
