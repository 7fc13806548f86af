/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - turns a run folder into pictures and pages. Reads results.ndjson, machine.json,
 * matrix.json and tensors/. Knows no backend by name. */
#ifndef ATTN_REPORT_H
#define ATTN_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "results/status.h"

/* A run, read back from its folder. */
struct attn_run_data {
    json_t *records; /* array in the order of the file */
    json_t *machine; /* object */
    json_t *matrix;  /* object: what each backend supports; NULL: no matrix.json */
    char path[4096];
    char lacking[448]; /* why it is not a whole run: it was cut short, or is damaged and salvaged;
                          "": nothing is missing */
    bool old;          /* of an earlier version, which did not mark the end of a run */
};
enum { ATTN_RUN_DAMAGED = -2 };
/* Reads a run folder. salvage: of damaged records, use those before the damage. Returns 0; -1, or
 * ATTN_RUN_DAMAGED if records are damaged, missing or of another run, with the reason; on failure
 * there is nothing to release. */
int attn_run_read(const char *path, bool salvage, struct attn_run_data *run, char *why,
                  size_t size);
/* The same without what attn_compare does not read, for little memory. turns: two backends of this
 * run are to be compared, not the run with another. */
int attn_run_read_lean(const char *path, bool salvage, bool turns, struct attn_run_data *run,
                       char *why, size_t size);
void attn_run_release(struct attn_run_data *run);
/* The exit code of what was made of a run, whose own code this is: one that is not whole is
 * incomplete, if no stronger code applies. */
enum attn_exit attn_run_exit(const struct attn_run_data *run, enum attn_exit code);

struct attn_report_options {
    const char *baseline;   /* what speed-ups are over: a backend, as the report calls it or by its
                               name alone; NULL: chosen, as the report says */
    const char *script_dir; /* gnuplot scripts and the HTML template: reports/ of the source, or
                               its installed copy */
    const char *out_dir;    /* made where it is missing; its parent must exist */
};

/* Writes plots (SVG and PNG through gnuplot run with a script and data files), results.csv,
 * report.md, junit.xml and a self-contained index.html. Without gnuplot, or where it hangs, the
 * tables are written and (note, note_size) says that pictures are missing; otherwise the note is
 * "". Returns 0; 1 with the reason where the options do not fit the run; 2 if all but a picture was
 * written, which gnuplot could not draw: the note says which; or -1 with the reason. */
int attn_report_write(const struct attn_run_data *run, const struct attn_report_options *options,
                      char *note, size_t note_size, char *why, size_t size);

/* What of a run a terminal of so many columns shows. */
struct attn_screen {
    bool rows;   /* every result, the fastest first in each case */
    bool counts; /* the instructions that were counted */
    bool fewer;  /* say that the verdicts are of fewer fills and checks than those of verify */
    int columns;
    const char *report; /* the folder of its pages; NULL: there are none yet */
};

/* Prints the rows, if wanted, and the verdict (report/verdict.h). Returns 0, or -1 with the reason.
 */
int attn_screen_put(const struct attn_run_data *run, const struct attn_screen *screen, FILE *out,
                    char *why, size_t size);
/* How many results of a run have a timing. */
size_t attn_timings_count(const json_t *records);

/* Writes JUnit XML of the verify records (verify --junit FILE). Returns 0, or -1 with the reason.
 */
int attn_junit_write(const json_t *records, const char *path, char *why, size_t size);

#endif
