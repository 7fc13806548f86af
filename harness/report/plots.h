/* SPDX-License-Identifier: Apache-2.0 */
/* plots.h - the pictures of a report. gnuplot draws them from scripts and data files. */
#ifndef ATTN_REPORT_PLOTS_H
#define ATTN_REPORT_PLOTS_H

#include "report/view.h"

#define ATTN_PLOTS_MAX 16

struct attn_plot {
    char name[48]; /* plots/NAME.svg, .png, .dat, .def.gp under the report */
    char title[192];
    char caption[704]; /* the constants, and the meaning of the marks */
    bool drawn;
};

struct attn_plots {
    struct attn_plot items[ATTN_PLOTS_MAX];
    size_t count;
    bool stuck; /* gnuplot did not start or was killed; the rest was not drawn */
};

/* Writes DIR/plots. Each sweep in the results gets a data file, a definitions file, an SVG and a
 * PNG. The scripts are copied, so a picture can be redrawn there by hand: `gnuplot NAME.def.gp
 * throughput.gp`. A picture that cannot be drawn is not an error: its `drawn` is false, and the
 * note says why. Returns 0, or -1 with the reason: a file cannot be written, or a script is
 * missing. */
int attn_plots_write(const struct attn_view *view, const json_t *machine, const char *script_dir,
                     const char *out_dir, struct attn_plots *plots, char *note, size_t note_size,
                     char *why, size_t size);

/* Texts of one line each. Protocol: "5 rounds of 10 samples", or "3 to 5 rounds" if a budget left
 * some results fewer. Machine: "EPYC ..., 2 threads". Build: "attnbench 0.1.0 (abc), built Release,
 * DATE". */
void attn_protocol_text(const struct attn_view *view, const json_t *machine, char *text,
                        size_t size);
void attn_machine_text(const json_t *machine, char *text, size_t size);
void attn_build_text(const json_t *machine, char *text, size_t size);

#define ATTN_FLOP_CONVENTION "FLOPs: 2(dk+dv) per allowed cell and head"

#endif
