/* SPDX-License-Identifier: Apache-2.0 */
/* newer.c - weak references to newer functions of glibc, and what is done without them. */
#include "host/newer.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#pragma weak sigabbrev_np
#pragma weak posix_spawn_file_actions_addclosefrom_np
#pragma weak mallinfo2

#ifdef ATTN_TEST_OLD_LIBC
#define HAVE(function) 0
#else
#define HAVE(function) (function != NULL)
#endif

const char *attn_signal_abbreviation(int sig)
{
    static const char *const names[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",       [SIGQUIT] = "QUIT", [SIGILL] = "ILL",
        [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT",     [SIGBUS] = "BUS",   [SIGFPE] = "FPE",
        [SIGKILL] = "KILL", [SIGUSR1] = "USR1",     [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
        [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM",     [SIGTERM] = "TERM", [SIGSTKFLT] = "STKFLT",
        [SIGCHLD] = "CHLD", [SIGCONT] = "CONT",     [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
        [SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU",     [SIGURG] = "URG",   [SIGXCPU] = "XCPU",
        [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH",
        [SIGPOLL] = "POLL", [SIGPWR] = "PWR",       [SIGSYS] = "SYS"};
    if (HAVE(sigabbrev_np))
        return sigabbrev_np(sig);
    return sig > 0 && (size_t)sig < sizeof names / sizeof *names ? names[sig] : NULL;
}

int attn_add_close_from(posix_spawn_file_actions_t *actions, int least)
{
    if (HAVE(posix_spawn_file_actions_addclosefrom_np))
        return posix_spawn_file_actions_addclosefrom_np(actions, least);
    DIR *const folder = opendir("/proc/self/fd");
    int bad = folder ? 0 : errno;
    for (const struct dirent *e; folder && (e = readdir(folder)) && bad == 0;) {
        const int fd = atoi(e->d_name);
        if (fd >= least) /* one that is closed by then is no error */
            bad = posix_spawn_file_actions_addclose(actions, fd);
    }
    if (folder)
        closedir(folder);
    return bad;
}

int64_t attn_allocated(void)
{
    if (HAVE(mallinfo2)) {
        const struct mallinfo2 info = mallinfo2();
        return (int64_t)(info.uordblks + info.hblkhd);
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    const struct mallinfo info = mallinfo();
#pragma GCC diagnostic pop
    return (int64_t)(unsigned)info.uordblks + (unsigned)info.hblkhd;
}
