/* SPDX-License-Identifier: Apache-2.0 */
/* against.h - a page that compares a run with an earlier one. */
#ifndef ATTN_REPORT_AGAINST_H
#define ATTN_REPORT_AGAINST_H

#include "report/canvas.h"
#include "report/compare.h"

/* Writes OUT_DIR/against.html, self-contained, from what attn_compare finds, and its picture into
 * OUT_DIR/plots. `report` gives OUT_DIR, which exists, and the folder of scripts and template.
 * What differs between the runs stands first. *code is ATTN_EXIT_BASELINE where they cannot be
 * compared: the page then says why and has no verdict; ATTN_EXIT_NOTHING where no result is in
 * both; both leave the reason in (why, size). Else it is ATTN_EXIT_OK: the verdicts are for
 * reading. (note, note_size) says if the picture is missing. Returns 0, or -1 with the reason. */
int attn_against_write(const struct attn_run_data *base, const struct attn_run_data *next,
                       const struct attn_compare_options *options,
                       const struct attn_report_options *report, enum attn_exit *code, char *note,
                       size_t note_size, char *why, size_t size);

/* The picture: the ratio new/base of every result of attn_compare's JSON, with its interval. The
 * canvas has the view of the new run. */
int attn_plot_against(const struct attn_canvas *canvas, const json_t *found,
                      struct attn_plot *plot);

#endif
