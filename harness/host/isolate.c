/* SPDX-License-Identifier: Apache-2.0 */
/* isolate.c - user namespaces and the dumpable flag. */
#include "host/isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void attn_isolate_host(void)
{
    prctl(PR_SET_DUMPABLE, 0);
}

static int write_file(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    const ssize_t n = write(fd, text, strlen(text));
    close(fd);
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

/* From outside, as root: every number stands for itself, so files of all users can be read as
 * before. */
static int map_all(long pid)
{
    static const char *const files[] = {"uid_map", "gid_map"};
    char path[64];
    for (int f = 0; f < 2; f++) {
        snprintf(path, sizeof(path), "/proc/%ld/%s", pid, files[f]);
        if (write_file(path, "0 0 4294967295") != 0)
            return -1;
    }
    return 0;
}

/* From inside, as anybody: one's own number only. */
static int map_self(uid_t user, gid_t group)
{
    char text[64];
    if (write_file("/proc/self/setgroups", "deny") != 0)
        return -1;
    snprintf(text, sizeof(text), "%u %u 1", (unsigned)user, (unsigned)user);
    if (write_file("/proc/self/uid_map", text) != 0)
        return -1;
    snprintf(text, sizeof(text), "%u %u 1", (unsigned)group, (unsigned)group);
    return write_file("/proc/self/gid_map", text);
}

/* A child that still has the powers of root waits until its parent has entered its namespace. */
static int isolate_root(void)
{
    int gate[2], status = 0;
    if (pipe2(gate, O_CLOEXEC) != 0)
        return -1;
    const long self = (long)getpid();
    const pid_t child = fork();
    if (child == 0) {
        char go;
        close(gate[1]);
        _exit(read(gate[0], &go, 1) == 1 && map_all(self) == 0 ? 0 : 1);
    }
    close(gate[0]);
    const bool entered = child > 0 && unshare(CLONE_NEWUSER) == 0;
    const bool told = entered && write(gate[1], "g", 1) == 1;
    close(gate[1]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!entered)
        return 1;
    return told && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int attn_isolate_self(void)
{
    const uid_t user = geteuid();
    const gid_t group = getegid();
    const int refused = user == 0                     ? isolate_root()
                        : unshare(CLONE_NEWUSER) != 0 ? 1
                                                      : map_self(user, group);
    /* New credentials have cleared it; without it some of /proc/self is closed to us. */
    prctl(PR_SET_DUMPABLE, 1);
    return refused;
}
