/* SPDX-License-Identifier: Apache-2.0 */
/* confine.c - levels, their rungs, and what this kernel gives of them. */
#include "host/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/isolate.h"

#define BIT(rung) (1u << (rung))
#define ALL_RUNGS (BIT(ATTN_RUNG_NAMES) - 1)

static const char *const rung_names[ATTN_RUNG_NAMES] = {
    [ATTN_RUNG_USER] = "user namespace",   [ATTN_RUNG_PID] = "pid namespace",
    [ATTN_RUNG_NET] = "network namespace", [ATTN_RUNG_MOUNT] = "read-only mounts",
    [ATTN_RUNG_LANDLOCK] = "Landlock",     [ATTN_RUNG_SECCOMP] = "seccomp",
};

static const struct {
    const char *name;
    uint32_t rungs;
} levels[] = {
    [ATTN_CONFINE_OFF] = {"off", 0},
    [ATTN_CONFINE_LIMITS] = {"limits", BIT(ATTN_RUNG_USER) | BIT(ATTN_RUNG_PID)},
    [ATTN_CONFINE_STRICT] = {"strict", ALL_RUNGS},
};

static enum attn_confine chosen = ATTN_CONFINE_AUTO;

void attn_confine_choose(enum attn_confine level)
{
    chosen = level;
}

enum attn_confine attn_confine_level(void)
{
    /* Drivers of GPUs want device files, memory and sockets that nobody has tried here. */
    static const char *const gpus[] = {"/dev/nvidiactl", "/dev/kfd", "/dev/dxg"};
    if (chosen != ATTN_CONFINE_AUTO)
        return chosen;
#ifdef ATTNBENCH_COVERAGE
    return ATTN_CONFINE_LIMITS; /* a worker counts into files, which strict keeps it from writing */
#endif
    for (size_t g = 0; g < sizeof(gpus) / sizeof(gpus[0]); g++)
        if (access(gpus[g], F_OK) == 0)
            return ATTN_CONFINE_LIMITS;
    return ATTN_CONFINE_STRICT;
}

const char *attn_confine_level_name(enum attn_confine level)
{
    return levels[level].name;
}

/* Leaves what root needs to read files of others, in the namespace too. Other capabilities would
 * undo the mounts. */
static int drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {{0}};
    if (geteuid() == 0)
        sets[0].effective = sets[0].permitted = 1u << CAP_DAC_READ_SEARCH;
    for (unsigned long c = 0; c <= CAP_LAST_CAP; c++)
        if (c != CAP_DAC_READ_SEARCH)
            prctl(PR_CAPBSET_DROP, c, 0, 0, 0); /* kernels may know fewer */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return errno;
    return syscall(SYS_capset, &head, sets) != 0 ? errno : 0;
}

static int take_network(void)
{
    return unshare(CLONE_NEWNET | CLONE_NEWIPC) != 0 ? errno : 0;
}

void attn_confine_self(uint32_t wanted, struct attn_confinement *taken)
{
    static int (*const steps[ATTN_RUNG_NAMES])(void) = {
        [ATTN_RUNG_NET] = take_network,
        [ATTN_RUNG_MOUNT] = attn_confine_mounts,
        [ATTN_RUNG_LANDLOCK] = attn_confine_landlock,
        [ATTN_RUNG_SECCOMP] = attn_confine_calls,
    };
    for (int rung = ATTN_RUNG_NET; rung < ATTN_RUNG_NAMES; rung++) {
        if (!(wanted & BIT(rung)))
            continue;
        if (rung == ATTN_RUNG_LANDLOCK)
            drop_capabilities();
        taken->errors[rung] = steps[rung]();
        if (taken->errors[rung] == 0)
            taken->rungs |= BIT(rung);
    }
    /* Credentials that change clear it, and without it some of /proc/self is closed. */
    prctl(PR_SET_DUMPABLE, 1);
}

/* In a child: takes all that it can, and writes what that was. */
static void try_all(uint32_t wanted, int to)
{
    struct attn_confinement taken = {0};
    pid_t child = 0;
    prctl(PR_SET_DUMPABLE, 1);
    errno = EPERM;
    if (attn_isolate_self() != 0) {
        for (int rung = 0; rung < ATTN_RUNG_NAMES; rung++)
            taken.errors[rung] = errno;
        wanted = 0;
    } else {
        taken.rungs = BIT(ATTN_RUNG_USER);
        const bool apart = unshare(CLONE_NEWPID) == 0;
        taken.errors[ATTN_RUNG_PID] = errno;
        if (apart && (child = fork()) == 0)
            taken.errors[ATTN_RUNG_PID] = attn_confine_proc();
        if (apart && taken.errors[ATTN_RUNG_PID] == 0)
            taken.rungs |= BIT(ATTN_RUNG_PID);
    }
    if (child > 0) { /* the child writes */
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            continue;
        _exit(0);
    }
    attn_confine_self(wanted, &taken);
    _exit(write(to, &taken, sizeof(taken)) == (ssize_t)sizeof(taken) ? 0 : 1);
}

const struct attn_confinement *attn_confine_possible(enum attn_confine level)
{
    static struct attn_confinement known[ATTN_CONFINE_STRICT + 1];
    static bool tried[ATTN_CONFINE_STRICT + 1];
    struct attn_confinement *found = &known[level];
    int ends[2];
    if (tried[level] || levels[level].rungs == 0 || pipe(ends) != 0)
        return found;
    tried[level] = true;
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        try_all(levels[level].rungs, ends[1]);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], found, sizeof(*found)) != (ssize_t)sizeof(*found))
        *found = (struct attn_confinement){.errors = {[0 ... ATTN_RUNG_NAMES - 1] = EPERM}};
    close(ends[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    found->rungs &= levels[level].rungs;
    return found;
}

static void append(char *text, size_t size, size_t *n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text + *n, size - *n, format, args);
    va_end(args);
    *n = (size_t)length < size - *n ? *n + (size_t)length : size - 1;
}

void attn_confine_describe(enum attn_confine level, char *text, size_t size)
{
    const struct attn_confinement *c = attn_confine_possible(level);
    size_t n = 0;
    const char *before = ": ";
    append(text, size, &n, "%s", levels[level].name);
    for (int rung = 0; rung < ATTN_RUNG_NAMES; rung++)
        if (c->rungs & BIT(rung)) {
            append(text, size, &n, "%s%s", before, rung_names[rung]);
            before = ", ";
        }
    before = "; refused: ";
    for (int rung = 0; rung < ATTN_RUNG_NAMES; rung++)
        if (levels[level].rungs & ~c->rungs & BIT(rung)) {
            append(text, size, &n, "%s%s (%s)", before, rung_names[rung],
                   strerror(c->errors[rung]));
            before = ", ";
        }
}

const char *attn_isolate_level(void)
{
    const bool hidden = prctl(PR_GET_DUMPABLE) == 0;
    const bool apart = attn_confine_possible(attn_confine_level())->rungs & BIT(ATTN_RUNG_USER);
    return hidden && apart            ? "workers in user namespaces, host not dumpable"
           : apart                    ? "workers in user namespaces"
           : hidden && geteuid() != 0 ? "host not dumpable"
           : hidden                   ? "none: root may trace any process"
                                      : "none";
}
