/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - formats numbers for people, and escapes text for each format of the report. Text from a
 * file reaches a page only through an attn_put_ function. */
#ifndef ATTN_REPORT_TEXT_H
#define ATTN_REPORT_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "results/field.h"

/* Shown in place of a missing figure. */
#define ATTN_DASH "\xe2\x80\x94"

/* Format a figure into `text` and return it. NAN and infinities give a dash. */
#define ATTN_FIGURE_MAX 32
const char *attn_figure(double value, char text[ATTN_FIGURE_MAX]);       /* 3 digits, 12.3 */
const char *attn_figure_time(double ns, char text[ATTN_FIGURE_MAX]);     /* 12.3 us */
const char *attn_figure_bytes(double bytes, char text[ATTN_FIGURE_MAX]); /* 1.50 MiB */

void attn_put_html(FILE *out, const char *text);     /* also for XML: drops what XML 1.0 forbids */
void attn_put_markdown(FILE *out, const char *text); /* a cell of a table */
void attn_put_csv(FILE *out, const char *text);      /* one field, RFC 4180; no formula */
void attn_put_gnuplot(FILE *out, const char *text);  /* a quoted string of one line */

/* Writes a text and a line break. Breaks it between words, so that no line is wider than so many
 * columns: the first begins in column `from`, the others are indented by as much. */
void attn_put_wrapped(FILE *out, const char *text, int from, int columns);

/* A stream into memory, in place of open_memstream: glibc's forgets that a character found no
 * memory, and its text then lacks some. NULL: no memory. fclose sets the text, NUL-terminated,
 * which the caller frees, and its length; it fails, and there is no text, where memory was refused.
 */
FILE *attn_text_open(char **text, size_t *length);

/* Writes a whole file, in the place of an older one (results/replace.h). Returns 0, or -1 with the
 * reason. */
int attn_file_write(const char *path, const char *text, size_t length, char *why, size_t size);
/* Reads a whole file, NUL-terminated; the caller frees it. NULL with the reason. */
char *attn_file_read(const char *path, size_t *length, char *why, size_t size);

#endif
