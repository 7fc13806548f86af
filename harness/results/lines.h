/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - the lines of a file, one after the other, in as much memory as the longest needs. */
#ifndef ATTN_LINES_H
#define ATTN_LINES_H

#include <stddef.h>
#include <stdint.h>

struct attn_lines {
    int fd;
    char *text; /* what has been read and not yet given out: from `begin` to `end` */
    size_t begin, end, room;
    uint64_t offset; /* in the file, of text[begin] */
};

/* Reads a file from its start, at offsets of its own: it may be shared. */
struct attn_lines attn_lines_of(int fd);

/* Sets *line to the next whole line, of *length bytes without its newline, until the next call.
 * Returns 1; 0 at the end, with *length the bytes behind the last newline; -1 with errno. */
int attn_lines_next(struct attn_lines *lines, const char **line, size_t *length);

void attn_lines_free(struct attn_lines *lines);

#endif
