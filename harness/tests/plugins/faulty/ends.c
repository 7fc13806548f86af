/* SPDX-License-Identifier: Apache-2.0 */
/* ends.c - signals, exits and hangs. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

/* ---- signals ---- */

static void do_segv(void)
{
    base_fault();
}

static void do_fetch_bad(void)
{
    volatile uintptr_t address = 0x1000;
    ((void (*)(void))address)();
}

static void do_bus(void)
{
    char name[] = "/dev/shm/attnbench-faulty-XXXXXX";
    const int file = mkstemp(name);
    unlink(name);
    if (file < 0 || ftruncate(file, 4096) != 0)
        raise(SIGBUS);
    volatile char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (ftruncate(file, 0) == 0)
        at[0] = 1;
}

static void do_ill(void)
{
    __builtin_trap();
}

static void do_fpe(void)
{
    volatile int zero = 0, one = 1;
    one = one / zero;
}

static int deep(volatile int n)
{
    volatile char room[4096];
    room[n % 4096] = (char)n;
    return n < 0 ? 0 : deep(n + 1) + room[n % 4096];
}

static void do_stack(void)
{
    (void)deep(1);
}

static void do_raise(void)
{
    static const struct {
        const char *name;
        int number;
    } raised[] = {{"kill", SIGKILL}, {"term", SIGTERM}, {"alarm", SIGALRM}, {"trap", SIGTRAP},
                  {"usr1", SIGUSR1}, {"int", SIGINT},   {"quit", SIGQUIT},  {"hup", SIGHUP},
                  {"sys", SIGSYS},   {"pipe", SIGPIPE}, {"xcpu", SIGXCPU},  {"stop", SIGSTOP}};
    for (size_t n = 0; n < sizeof(raised) / sizeof(raised[0]); n++)
        if (strcmp(raised[n].name, fault_kind) == 0)
            raise(raised[n].number);
}

static void do_stolen(void)
{
    signal(SIGSEGV, SIG_DFL);
    base_fault();
}

static void *fault_in_thread(void *unused)
{
    base_fault();
    return unused;
}

static void do_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, fault_in_thread, NULL) == 0)
        pthread_join(thread, NULL);
}

/* ---- exits ---- */

static void do_exit0(void)
{
    exit(0);
}

static void do_exit3(void)
{
    exit(3);
}

static void do_exit_now(void)
{
    _exit(0);
}

static void do_quick_exit(void)
{
    quick_exit(5);
}

/* The others go on, but there are none. */
static void do_thread_exit(void)
{
    pthread_exit(NULL);
}

static void do_exec(void)
{
    execl("/bin/true", "true", (char *)NULL);
}

/* ---- hangs ---- */

static void do_sleep(void)
{
    fault_pause();
}

static void do_spin(void)
{
    for (volatile int n = 0;; n = !n)
        continue;
}

static void do_deaf(void)
{
    signal(SIGTERM, SIG_IGN);
    fault_pause();
}

static void do_lock(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&mutex);
}

static void do_blocked_read(void)
{
    int ends[2];
    char byte;
    if (pipe(ends) == 0)
        (void)!read(ends[0], &byte, 1);
}

/* A second, in pieces: one that is stopped meanwhile goes on where it was. */
static void do_nap(void)
{
    for (int n = 0; n < 20; n++)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

const struct fault faults_of_ends[] = {
    {"segv", do_segv},
    {"fetch_bad", do_fetch_bad},
    {"bus", do_bus},
    {"ill", do_ill},
    {"fpe", do_fpe},
    {"abort", abort},
    {"stack", do_stack},
    {"kill", do_raise},
    {"term", do_raise},
    {"alarm", do_raise},
    {"trap", do_raise},
    {"usr1", do_raise},
    {"int", do_raise},
    {"quit", do_raise},
    {"hup", do_raise},
    {"sys", do_raise},
    {"pipe", do_raise},
    {"xcpu", do_raise},
    {"stop", do_raise},
    {"stolen", do_stolen},
    {"thread", do_thread},
    {"exit0", do_exit0},
    {"exit3", do_exit3},
    {"exit_now", do_exit_now},
    {"quick_exit", do_quick_exit},
    {"thread_exit", do_thread_exit},
    {"exec", do_exec},
    {"sleep", do_sleep},
    {"spin", do_spin},
    {"deaf", do_deaf},
    {"lock", do_lock},
    {"blocked_read", do_blocked_read},
    {"nap", do_nap},
    {NULL, NULL},
};
