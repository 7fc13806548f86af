/* SPDX-License-Identifier: Apache-2.0 */
/* replace.c - a file of its own name first, then the name it is for. */
#include "results/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int attn_write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, text, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : EIO;
            return -1;
        }
        text += n;
        length -= (size_t)n;
    }
    return 0;
}

/* /dev/stdout, a pipe that a shell made; one that nobody reads is an error, and not waited for. */
static int write_in_place(const char *path, const char *text, size_t length)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fcntl(fd, F_SETFL, 0) != 0)
        return -1;
    const int status = attn_write_all(fd, text, length), saved = errno;
    close(fd);
    errno = saved;
    return status;
}

int attn_replace(const char *path, const char *text, size_t length)
{
    struct stat info;
    char *beside = NULL;
    int fd = -1, status = -1, saved;
    /* A link to a file, or to nothing, is replaced. One to a device is followed. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return write_in_place(path, text, length);
    if (asprintf(&beside, "%s.XXXXXX", path) < 0) {
        errno = ENOMEM;
        return -1;
    }
    const mode_t mask = umask(0);
    umask(mask);
    fd = mkostemp(beside, O_CLOEXEC);
    if (fd >= 0)
        status = attn_write_all(fd, text, length);
    if (status == 0)
        status = fchmod(fd, 0666 & ~mask);
    if (status == 0)
        status = fsync(fd);
    saved = errno;
    if (fd >= 0)
        close(fd);
    if (status == 0 && rename(beside, path) != 0) {
        status = -1;
        saved = errno;
    }
    if (status != 0 && fd >= 0)
        unlink(beside);
    free(beside);
    errno = saved;
    return status;
}
