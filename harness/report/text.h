/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - reading fields of records that may be missing or of another type, numbers as people read
 * them, and escaping for each format that the report writes. Nothing that came from a file reaches
 * a page without one of the attn_put_ functions. */
#ifndef ATTN_REPORT_TEXT_H
#define ATTN_REPORT_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What stands where a figure is missing. */
#define ATTN_DASH "\xe2\x80\x94"

/* Fields: "" , NAN, false or NULL where the field is missing or of another type; object may be
 * NULL. attn_field_at follows a dotted path ("cpu.model"). */
const json_t *attn_field_at(const json_t *object, const char *path);
const char *attn_field_text(const json_t *object, const char *path);
double attn_field_number(const json_t *object, const char *path);
bool attn_field_true(const json_t *object, const char *path);

/* Figures into (text, size), which is returned; NAN and infinities give a dash. */
#define ATTN_FIGURE_MAX 32
const char *attn_figure(double value, char text[ATTN_FIGURE_MAX]);       /* 3 digits, 12.3 */
const char *attn_figure_time(double ns, char text[ATTN_FIGURE_MAX]);     /* 12.3 us */
const char *attn_figure_bytes(double bytes, char text[ATTN_FIGURE_MAX]); /* 1.50 MiB */

void attn_put_html(FILE *out, const char *text);     /* also for XML: drops what XML 1.0 forbids */
void attn_put_markdown(FILE *out, const char *text); /* a cell of a table */
void attn_put_csv(FILE *out, const char *text);      /* one field, RFC 4180 */
void attn_put_gnuplot(FILE *out, const char *text);  /* a quoted string of one line */

/* Writes a whole file. Returns 0, or -1 with the reason. */
int attn_file_write(const char *path, const char *text, size_t length, char *why, size_t size);
/* Reads a whole file, NUL-terminated; the caller frees it. NULL with the reason. */
char *attn_file_read(const char *path, size_t *length, char *why, size_t size);

#endif
