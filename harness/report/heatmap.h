/* SPDX-License-Identifier: Apache-2.0 */
/* heatmap.h - attention weights of the run's packs, head by head: those of the reference, and the
 * distance of each backend from them. */
#ifndef ATTN_REPORT_HEATMAP_H
#define ATTN_REPORT_HEATMAP_H

#include "report/canvas.h"

#define ATTN_HEATMAPS_MAX 16

struct attn_heatmaps {
    struct attn_heatmap *items; /* packs with tokens first */
    size_t count;
    char note[1024]; /* what was left out, and why; or "" */
};

/* Draws every pack whose weights the run in the folder `run` kept. A kept file that cannot be used
 * is named in the note and passed over. `stuck`: gnuplot is not to be started. Returns 0, or -1
 * with the reason (a file cannot be written, or the script is missing). */
int attn_heatmaps_write(const struct attn_canvas *canvas, const char *run, const char *script_dir,
                        bool stuck, struct attn_heatmaps *maps);
void attn_heatmaps_free(struct attn_heatmaps *maps);

#endif
