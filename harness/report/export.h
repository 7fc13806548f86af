/* SPDX-License-Identifier: Apache-2.0 */
/* export.h - a run in the formats of other tools, and files of Google Benchmark as a run. */
#ifndef ATTN_REPORT_EXPORT_H
#define ATTN_REPORT_EXPORT_H

#include "report/report.h"

/* The formats, as --format has them, with '|' between. */
#define ATTN_EXPORT_FORMATS "google-benchmark|github-action-benchmark|bencher|junit|csv"

/* Writes a run to `out`:
 *   google-benchmark         JSON of Google Benchmark 1.7, one entry a sample
 *   github-action-benchmark  a list for its tool customSmallerIsBetter: medians in ns
 *   bencher                  Bencher Metric Format: latency with its interval of 95 %
 *   junit, csv               as in a report
 * The first three have the results with right numbers and a time. Returns 0; 1 with the reason: no
 * such format, or nothing to export in *nothing; or -1 with the reason. */
int attn_export_put(FILE *out, const struct attn_run_data *run, const char *format, bool *nothing,
                    char *why, size_t size);

/* Makes the records and the machine.json of a run from the JSON of Google Benchmark. What
 * google-benchmark above has written becomes the same results on the same machine. Of other files
 * a benchmark's name is its case and each repetition is a round; real_time counts. `backend`: what
 * such results are called; NULL: as the program that made the file. All results are mistrusted:
 * nobody has judged their numbers here. Aggregates are left out. Returns 0 with both, which are the
 * caller's, or -1 with the reason, which names the line and the entry. */
int attn_import_parse(const char *text, size_t length, const char *backend, json_t **records,
                      json_t **machine, char *why, size_t size);

#endif
