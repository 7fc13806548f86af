/* SPDX-License-Identifier: Apache-2.0 */
/* processes.c - children, other processes, and files and servers of others. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"

/* ---- processes ---- */

static void do_fork(void)
{
    if (fork() == 0)
        fault_pause();
}

/* In a session of its own, below nobody; its name is the argument. */
static void do_setsid(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            prctl(PR_SET_NAME, fault_argument);
            fault_pause();
        }
        _exit(0);
    }
    wait(NULL);
}

static void do_bomb(void)
{
    for (;;)
        (void)!fork();
}

static void do_fork_exit(void)
{
    if (fork() == 0)
        exit(7);
}

static void do_vfork(void)
{
    if (vfork() == 0)
        _exit(0);
}

/* A child of the worker's parent. */
static void do_sibling(void)
{
    if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0) {
        prctl(PR_SET_NAME, fault_argument);
        fault_pause();
    }
}

/* A grandchild whose parent has gone. */
static void do_orphan(void)
{
    if (fork() == 0) {
        if (fork() == 0) {
            prctl(PR_SET_NAME, fault_argument);
            fault_pause();
        }
        _exit(0);
    }
    wait(NULL);
}

/* The process whose number is the argument. */
static long victim(void)
{
    return strtol(fault_argument, NULL, 10);
}

static void do_kill_parent(void)
{
    if (getppid() > 1)
        kill(getppid(), SIGKILL);
    fault_done(kill((pid_t)victim(), SIGUSR1) == 0);
}

static void do_kill_all(void)
{
    signal(SIGUSR1, SIG_IGN);
    kill(-1, SIGUSR1);
}

static void do_kill_init(void)
{
    if (getppid() == 1)
        kill(1, SIGKILL);
}

static void do_tgkill(void)
{
    fault_done(syscall(SYS_tgkill, victim(), victim(), SIGUSR1) == 0);
}

static void do_sigqueue(void)
{
    fault_done(sigqueue((pid_t)victim(), SIGUSR1, (union sigval){0}) == 0);
}

static void do_pidfd(void)
{
    const int process = (int)syscall(SYS_pidfd_open, victim(), 0);
    fault_done(process >= 0 && syscall(SYS_pidfd_send_signal, process, SIGUSR1, NULL, 0) == 0);
}

static void do_priority(void)
{
    fault_done(setpriority(PRIO_PROCESS, (id_t)victim(), 19) == 0);
}

static void do_kill_group(void)
{
    kill(0, SIGKILL);
}

static void do_stop_group(void)
{
    kill(0, SIGSTOP);
}

static void do_trace(void)
{
    fault_done(ptrace(PTRACE_SEIZE, (pid_t)victim(), NULL, NULL) == 0 ||
               ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
}

static void do_read(void)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    fault_done(process_vm_readv((pid_t)victim(), &here, 1, &there, 1, 0) == 1);
}

/* ---- files and servers ---- */

static int opens(const char *path)
{
    const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file >= 0)
        close(file);
    return file >= 0;
}

/* The host's files, by its descriptors. */
static void do_descriptors(void)
{
    int any = 0;
    char path[64];
    for (int fd = 0; fd < 64; fd++) {
        snprintf(path, sizeof(path), "/proc/%ld/fd/%d", victim(), fd);
        any = any || opens(path);
    }
    snprintf(path, sizeof(path), "/proc/%ld/mem", victim());
    fault_done(any || opens(path));
}

static void do_write(void)
{
    fault_done(opens(fault_argument));
}

static void do_unlink(void)
{
    fault_done(unlink(fault_argument) == 0);
}

static void do_create(void)
{
    char path[600];
    snprintf(path, sizeof(path), "%s.new", fault_argument);
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    fault_done(file >= 0);
    if (file >= 0)
        close(file);
}

static void do_sysctl(void)
{
    fault_done(opens("/proc/sys/kernel/core_pattern"));
}

/* The server whose path is the argument. */
static void do_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", fault_argument);
    const int to = socket(AF_UNIX, SOCK_STREAM, 0);
    fault_done(to >= 0 && connect(to, (struct sockaddr *)&address, sizeof(address)) == 0);
}

static void do_network(void)
{
    fault_done(socket(AF_INET, SOCK_DGRAM, 0) >= 0);
}

static void do_namespace(void)
{
    fault_done(unshare(CLONE_NEWUSER) == 0);
}

const struct fault faults_of_processes[] = {
    {"fork", do_fork},
    {"setsid", do_setsid},
    {"bomb", do_bomb},
    {"fork_exit", do_fork_exit},
    {"vfork", do_vfork},
    {"sibling", do_sibling},
    {"orphan", do_orphan},
    {"kill_parent", do_kill_parent},
    {"kill_all", do_kill_all},
    {"kill_init", do_kill_init},
    {"tgkill", do_tgkill},
    {"sigqueue", do_sigqueue},
    {"pidfd", do_pidfd},
    {"priority", do_priority},
    {"kill_group", do_kill_group},
    {"stop_group", do_stop_group},
    {"trace", do_trace},
    {"read", do_read},
    {"descriptors", do_descriptors},
    {"write", do_write},
    {"unlink", do_unlink},
    {"create", do_create},
    {"sysctl", do_sysctl},
    {"connect", do_connect},
    {"network", do_network},
    {"namespace", do_namespace},
    {NULL, NULL},
};
