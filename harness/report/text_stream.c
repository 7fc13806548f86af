/* SPDX-License-Identifier: Apache-2.0 */
/* text_stream.c - a stream into memory that knows when some of its text was lost. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"

struct stream {
    char **text;
    size_t *length;
    char *bytes;
    size_t used, room;
    bool lost;
};

static ssize_t write_bytes(void *cookie, const char *bytes, size_t n)
{
    struct stream *s = cookie;
    if (s->lost)
        return 0;
    if (n >= s->room - s->used) { /* one is for the NUL */
        const size_t room = 2 * s->room + n + 1;
        char *grown = realloc(s->bytes, room);
        if (!grown) {
            s->lost = true;
            return 0;
        }
        s->bytes = grown;
        s->room = room;
    }
    memcpy(s->bytes + s->used, bytes, n);
    s->used += n;
    return (ssize_t)n;
}

static int close_stream(void *cookie)
{
    struct stream *s = cookie;
    write_bytes(s, "", 0); /* room for the NUL, where nothing was written */
    const bool lost = s->lost;
    if (lost) {
        free(s->bytes);
    } else {
        s->bytes[s->used] = '\0';
        *s->text = s->bytes;
        *s->length = s->used;
    }
    free(s);
    return lost ? -1 : 0;
}

FILE *attn_text_open(char **text, size_t *length)
{
    struct stream *s = malloc(sizeof *s);
    FILE *stream = NULL;
    *text = NULL;
    *length = 0;
    if (s) {
        *s = (struct stream){.text = text, .length = length};
        stream = fopencookie(s, "w",
                             (cookie_io_functions_t){.write = write_bytes, .close = close_stream});
    }
    if (!stream)
        free(s);
    return stream;
}
