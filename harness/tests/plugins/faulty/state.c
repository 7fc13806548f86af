/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - state of the process that is changed and left so. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "faults.h"

static void do_mxcsr(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

static void do_x87(void)
{
#if defined(__x86_64__)
    const unsigned short word = 0x0c7f;
    __asm__ volatile("fldcw %0" ::"m"(word));
#endif
}

static void do_rounding(void)
{
#if defined(__x86_64__)
    _mm_setcsr((_mm_getcsr() & ~0x6000u) | 0x2000u);
#endif
}

static void do_close_std(void)
{
    fflush(stdout);
    syscall(SYS_close_range, 0u, 2u, 0u);
}

static void do_umask(void)
{
    umask(0777);
}

static void do_environment(void)
{
    clearenv();
}

static void do_affinity(void)
{
    cpu_set_t all;
    memset(&all, 0xff, sizeof(all));
    sched_setaffinity(0, sizeof(all), &all);
}

static void do_nice(void)
{
    setpriority(PRIO_PROCESS, 0, 19);
}

static void do_folder(void)
{
    fault_done(chdir("/") != 0);
}

static void do_mask(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
}

static void do_limits(void)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
}

const struct fault faults_of_state[] = {
    {"mxcsr", do_mxcsr},         {"x87", do_x87},       {"rounding", do_rounding},
    {"close_std", do_close_std}, {"umask", do_umask},   {"environment", do_environment},
    {"affinity", do_affinity},   {"nice", do_nice},     {"folder", do_folder},
    {"mask", do_mask},           {"limits", do_limits}, {NULL, NULL},
};
