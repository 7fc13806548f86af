/* SPDX-License-Identifier: Apache-2.0 */
/* confine_files.c - read-only mounts, and Landlock. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "host/confine.h"

/* Where a worker may write: it goes with the worker. */
#define SCRATCH       "/dev/shm"
#define SCRATCH_BYTES "64m" /* of memory */

/* Far above what runtimes start, so that these are not in the way: in all, and for each processor.
 */
#define PROCESSES_MOST 4096
#define PROCESSES_EACH 16

static bool has_scratch;

/* Newer than some C libraries. */
#define NR_MOUNT_SETATTR      442
#define NR_LANDLOCK_CREATE    444
#define NR_LANDLOCK_ADD       445
#define NR_LANDLOCK_RESTRICT  446
#define LANDLOCK_VERSION_FLAG 1u
#define LANDLOCK_BENEATH      1

struct mount_attributes {
    uint64_t set, clear, propagation, user_namespace;
};

static int set_read_only(const char *path, unsigned flags, bool on)
{
    const struct mount_attributes attributes = {.set = on ? MOUNT_ATTR_RDONLY : 0,
                                                .clear = on ? 0 : MOUNT_ATTR_RDONLY};
    return (int)syscall(NR_MOUNT_SETATTR, AT_FDCWD, path, flags, &attributes, sizeof(attributes));
}

/* Threads and processes that the namespace may have. Before Linux 6.14 the number is that of the
 * whole machine, which root could change even from here; then the watch alone ends a fork bomb,
 * which may hold up other processes until then. */
static void limit_processes(void)
{
    struct utsname kernel;
    unsigned major = 0, minor = 0;
    if (uname(&kernel) != 0 || sscanf(kernel.release, "%u.%u", &major, &minor) != 2 || major < 6 ||
        (major == 6 && minor < 14))
        return;
    const int file = open("/proc/sys/kernel/pid_max", O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return;
    dprintf(file, "%ld", PROCESSES_MOST + PROCESSES_EACH * sysconf(_SC_NPROCESSORS_CONF));
    close(file);
}

int attn_confine_proc(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        return errno;
    limit_processes();
    return 0;
}

int attn_confine_mounts(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return errno;
    /* Its own part of /proc stays as it is: a worker resets its high-water mark there. */
    const bool own = mount("/proc/self", "/proc/self", NULL, MS_BIND, NULL) == 0;
    if (set_read_only("/", AT_RECURSIVE, true) != 0)
        return errno;
    if (own)
        set_read_only("/proc/self", 0, false);
    if (mount("attnbench", SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV,
              "mode=1777,size=" SCRATCH_BYTES) == 0)
        has_scratch = setenv("TMPDIR", SCRATCH, 1) == 0;
    return 0;
}

/* linux/landlock.h as of version 6. */
struct landlock_ruleset {
    uint64_t files, network, scopes;
};
struct __attribute__((packed)) landlock_beneath {
    uint64_t allowed;
    int32_t parent;
};
enum {
    FILE_WRITE = 1 << 1,
    FILES_CHANGE = 0x1FF0,  /* remove and make, of each kind */
    FILE_REFER = 1 << 13,   /* version 2 */
    FILE_TRUNCATE = 1 << 14 /* version 3 */
};
#define SCOPES 3u /* signals and sockets without a file: version 6 */

static void allow(int ruleset, const char *path, uint64_t what)
{
    const int parent = open(path, O_PATH | O_CLOEXEC);
    const struct landlock_beneath rule = {.allowed = what, .parent = parent};
    if (parent < 0)
        return;
    syscall(NR_LANDLOCK_ADD, ruleset, LANDLOCK_BENEATH, &rule, 0);
    close(parent);
}

int attn_confine_landlock(void)
{
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full"};
    const long version = syscall(NR_LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION_FLAG);
    if (version < 1)
        return version < 0 ? errno : ENOSYS;
    const struct landlock_ruleset rules = {
        .files = FILE_WRITE | FILES_CHANGE | (version >= 2 ? FILE_REFER : 0u) |
                 (version >= 3 ? FILE_TRUNCATE : 0u),
        .scopes = version >= 6 ? SCOPES : 0,
    };
    const size_t size = version >= 6   ? sizeof(rules)
                        : version >= 4 ? offsetof(struct landlock_ruleset, scopes)
                                       : offsetof(struct landlock_ruleset, network);
    const int ruleset = (int)syscall(NR_LANDLOCK_CREATE, &rules, size, 0);
    if (ruleset < 0)
        return errno;
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++)
        allow(ruleset, devices[d], FILE_WRITE);
    allow(ruleset, "/proc/self", FILE_WRITE);
    if (has_scratch)
        allow(ruleset, SCRATCH, rules.files);
    int error = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ? errno : 0;
    if (!error && syscall(NR_LANDLOCK_RESTRICT, ruleset, 0) != 0)
        error = errno;
    close(ruleset);
    return error;
}
