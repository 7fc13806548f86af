/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - a folder of a test's own, and what a report left there. */
#ifndef ATTN_REPORT_FOLDER_H
#define ATTN_REPORT_FOLDER_H

#include <stddef.h>

#include "report/report.h"

extern char folder[64]; /* between folder_setup and folder_teardown */

int folder_setup(void **state); /* of cmocka */
int folder_teardown(void **state);

/* FOLDER/report/FILE, to be freed; the test fails where it cannot be read. */
char *folder_text(const char *file);

size_t folder_count(const char *text, const char *word);

/* Writes the run's report to FOLDER/report; returns what attn_report_write does. */
int folder_report(const struct attn_run_data *run, const char *script_dir, char *note,
                  size_t note_size);

/* results.csv has a line a timing, each with every column. */
void folder_check_csv(const struct attn_run_data *run);
/* Well-formed enough for a parser: tags nest, and no bare & or < in text or attributes. */
void folder_check_xml(const char *text);

#endif
