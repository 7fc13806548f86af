/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - reads a file in pieces. */
#include "results/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A record has some kB; the first line of a run that was merged of thousands of parts, a few MB. */
enum { PIECE = 1 << 16, LINE_MOST = 1 << 26 };

struct attn_lines attn_lines_of(int fd)
{
    return (struct attn_lines){.fd = fd};
}

/* Makes room for one more piece behind what is there, which moves to the front. */
static int make_room(struct attn_lines *lines)
{
    if (lines->begin > 0)
        memmove(lines->text, lines->text + lines->begin, lines->end - lines->begin);
    lines->end -= lines->begin;
    lines->begin = 0;
    if (lines->room - lines->end >= PIECE)
        return 0;
    const size_t room = 2 * lines->room + PIECE;
    char *text = realloc(lines->text, room);
    if (!text)
        return -1;
    lines->text = text;
    lines->room = room;
    return 0;
}

/* Reads a piece. Returns 1, 0 at the end of the file, or -1 with errno. */
static int read_piece(struct attn_lines *lines)
{
    if (make_room(lines))
        return -1;
    ssize_t n;
    do
        n = pread(lines->fd, lines->text + lines->end, lines->room - lines->end,
                  (off_t)(lines->offset + lines->end));
    while (n < 0 && errno == EINTR);
    if (n > 0)
        lines->end += (size_t)n;
    return n > 0 ? 1 : (int)n;
}

int attn_lines_next(struct attn_lines *lines, const char **line, size_t *length)
{
    size_t seen = 0;
    for (;;) {
        const char *start = lines->text ? lines->text + lines->begin : NULL; /* nothing read yet */
        const size_t have = lines->end - lines->begin;
        const char *stop = have > seen ? memchr(start + seen, '\n', have - seen) : NULL;
        if (stop) {
            *line = start;
            *length = (size_t)(stop - start);
            lines->begin += *length + 1;
            lines->offset += *length + 1;
            return 1;
        }
        seen = have;
        if (have > LINE_MOST) {
            *length = have;
            errno = EFBIG;
            return -1;
        }
        const int status = read_piece(lines);
        if (status <= 0) {
            *length = have;
            return status;
        }
    }
}

void attn_lines_free(struct attn_lines *lines)
{
    free(lines->text);
    *lines = (struct attn_lines){.fd = -1};
}
