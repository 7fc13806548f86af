/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - a folder of a test's own, and what a report left there. */
#ifndef ATTN_REPORT_FOLDER_H
#define ATTN_REPORT_FOLDER_H

#include <stddef.h>

extern char folder[64]; /* between folder_setup and folder_teardown */

int folder_setup(void **state); /* of cmocka */
int folder_teardown(void **state);

/* FOLDER/report/FILE, to be freed; the test fails where it can not be read. */
char *folder_text(const char *file);

size_t folder_count(const char *text, const char *word);

#endif
