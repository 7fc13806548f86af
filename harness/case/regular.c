/* SPDX-License-Identifier: Apache-2.0 */
/* regular.c - without waiting for another end, as a pipe has one. */
#include "case/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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
