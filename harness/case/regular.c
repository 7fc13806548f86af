/* SPDX-License-Identifier: Apache-2.0 */
/* regular.c - without waiting for another end, as a pipe has one. */
#include "case/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

FILE *attn_regular_open(const char *path, const char **why)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const bool opened = fd >= 0 && fstat(fd, &info) == 0;
    FILE *file = opened && S_ISREG(info.st_mode) ? fdopen(fd, "rb") : NULL;
    if (file)
        return file;
    const int error = opened && !S_ISREG(info.st_mode) ? EINVAL : errno;
    *why = error != EINVAL                   ? strerror(error)
           : opened && S_ISDIR(info.st_mode) ? strerror(EISDIR)
                                             : "not a regular file";
    if (fd >= 0)
        close(fd);
    errno = error;
    return NULL;
}

/* What is left of a file that has about `guess` bytes. NULL with errno. */
static char *read_rest(FILE *file, size_t guess, size_t most, size_t *length)
{
    char *text = NULL;
    size_t have = 0, room = 0, n;
    do {
        if (room - have < 2) {
            room = room ? 2 * room : guess + 2;
            char *more = realloc(text, room);
            if (!more)
                break;
            text = more;
        }
        n = fread(text + have, 1, room - have - 1, file);
        have += n;
        if (n == 0 && !ferror(file)) {
            text[have] = '\0';
            *length = have;
            return text;
        }
    } while (n > 0 && have <= most);
    const int error = have > most ? EFBIG : errno;
    free(text);
    errno = error;
    return NULL;
}

char *attn_regular_read(const char *path, size_t most, size_t *length, const char **why)
{
    struct stat info;
    FILE *file = attn_regular_open(path, why);
    if (!file)
        return NULL;
    size_t guess = fstat(fileno(file), &info) == 0 ? (size_t)info.st_size : 0;
    char *text = read_rest(file, guess < most ? guess : most, most, length);
    const int error = errno;
    fclose(file);
    if (!text)
        *why = strerror(error);
    errno = error;
    return text;
}
