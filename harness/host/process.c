/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - starts and ends the worker's process, in a group of its own. */
#include "host/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/newer.h"

/* What attn_process_forward signals: -group, or a foreground worker's pid; 0: free. */
#define LIVE_MAX 512
static _Atomic pid_t live[LIVE_MAX];
/* When a signal was first forwarded, in milliseconds of attn_now; 0: never. */
static _Atomic int64_t forwarded;

/* A log file holds what this many workers may write at most. */
#define LOG_CAPS 16

static void live_replace(pid_t from, pid_t to)
{
    for (int i = 0; i < LIVE_MAX; i++) {
        pid_t expected = from;
        if (atomic_compare_exchange_strong(&live[i], &expected, to))
            return;
    }
}

/* What a worker has left after a signal was passed on to it, which it may ignore. */
#define ENDING_S 0.2

void attn_process_forward(int sig)
{
    const int saved = errno;
    int64_t never = 0;
    atomic_compare_exchange_strong(&forwarded, &never, (int64_t)(1e3 * attn_now()));
    for (int i = 0; i < LIVE_MAX; i++) {
        const pid_t target = atomic_load(&live[i]);
        if (target != 0)
            kill(target, sig);
    }
    errno = saved;
}

double attn_process_deadline(double deadline)
{
    const double end = 1e-3 * (double)atomic_load(&forwarded) + ENDING_S;
    return end > ENDING_S && end < deadline ? end : deadline;
}

double attn_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* In the foreground the worker stays in the host's group: the terminal is read from there. */
static pid_t signal_target(const struct attn_worker *worker)
{
    return worker->config.foreground ? worker->pid : -worker->pid;
}

/* Variables by which libraries size their thread pools. They read them when they are loaded, so
 * that they must be there before the worker starts. */
static const char *const thread_variables[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                               "MKL_NUM_THREADS", "BLIS_NUM_THREADS"};
#define N_THREAD_VARIABLES ((int)(sizeof(thread_variables) / sizeof(thread_variables[0])))

static bool is_thread_variable(const char *entry)
{
    for (int v = 0; v < N_THREAD_VARIABLES; v++) {
        const size_t length = strlen(thread_variables[v]);
        if (strncmp(entry, thread_variables[v], length) == 0 && entry[length] == '=')
            return true;
    }
    return false;
}

/* The host's environment with the thread variables replaced. `own` holds the replacements. */
static char **make_environment(int threads, char own[N_THREAD_VARIABLES][64])
{
    size_t count = 0, n = 0;
    while (environ[count])
        count++;
    char **list = malloc((count + N_THREAD_VARIABLES + 1) * sizeof(*list));
    if (!list)
        return NULL;
    for (size_t e = 0; e < count; e++)
        if (!is_thread_variable(environ[e]))
            list[n++] = environ[e];
    for (int v = 0; v < N_THREAD_VARIABLES; v++) {
        snprintf(own[v], sizeof(own[v]), "%s=%d", thread_variables[v], threads);
        list[n++] = own[v];
    }
    list[n] = NULL;
    return list;
}

/* Moves a descriptor out of the range that the child's own are put into. */
static int move_up(int fd)
{
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, 16);
    const int error = errno == EINVAL ? EMFILE : errno; /* EINVAL: not that many are allowed */
    close(fd);
    errno = error;
    return moved;
}

/* Child's descriptors: 0 /dev/null, 1 and 2 `log` (or /dev/null), 3 the socket, no others. */
static int child_files(posix_spawn_file_actions_t *actions, const struct attn_worker *worker,
                       int log, int socket)
{
    int bad = 0;
    if (!worker->config.foreground) {
        bad |= posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
        for (int fd = 1; fd <= 2; fd++)
            bad |= log >= 0
                       ? posix_spawn_file_actions_adddup2(actions, log, fd)
                       : posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_WRONLY, 0);
    }
    bad |= posix_spawn_file_actions_adddup2(actions, socket, ATTN_PROTOCOL_FD);
    bad |= attn_add_close_from(actions, ATTN_PROTOCOL_FD + 1);
    return bad;
}

enum { WRAPPER_MAX = 8 };

/* Returns 0 or an error number. */
static int spawn(struct attn_worker *worker, int log, int socket)
{
    char own[N_THREAD_VARIABLES][64], parent[32];
    snprintf(parent, sizeof(parent), "%ld", (long)getpid());
    char *argv[WRAPPER_MAX + 3];
    size_t n = 0;
    for (const char *const *w = worker->config.wrapper; w && *w && n < WRAPPER_MAX; w++)
        argv[n++] = (char *)(uintptr_t)*w;
    argv[n++] = (char *)(uintptr_t)worker->config.worker_path;
    argv[n++] = parent;
    argv[n] = NULL;
    char **env = make_environment(worker->config.threads, own);
    if (!env)
        return ENOMEM;

    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes,
                             (short)(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                                     (worker->config.foreground ? 0 : POSIX_SPAWN_SETPGROUP)));
    int error = child_files(&actions, worker, log, socket) ? ENOMEM : 0;
    if (!error)
        error = posix_spawnp(&worker->pid, argv[0], &actions, &attributes, argv, env);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(env);
    return error;
}

int attn_process_start(struct attn_worker *worker, char *why, size_t size)
{
    int sockets[2] = {-1, -1}, pipes[2] = {-1, -1};
    const char *what = worker->config.worker_path;
    int error = 0;

    worker->log_pipe = worker->log_file = worker->socket = -1;
    worker->slot = ATTN_SLOT_NONE;
    worker->phased = false;
    worker->place = 0;
    worker->number = worker->children = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        error = errno;
        goto out;
    }
    if ((sockets[1] = move_up(sockets[1])) < 0) {
        error = errno;
        goto out;
    }
    if (worker->config.log_path && !worker->config.foreground) {
        worker->log_file = open(
            worker->config.log_path,
            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW, 0644);
        if (worker->log_file < 0)
            what = worker->config.log_path;
        if (worker->log_file < 0 || pipe2(pipes, O_CLOEXEC) != 0) {
            error = errno;
            goto out;
        }
        /* Many workers append to one log: none may make it grow without end. */
        if (lseek(worker->log_file, 0, SEEK_END) >= (off_t)(LOG_CAPS * worker->config.log_cap))
            worker->log_written = worker->config.log_cap;
        fcntl(pipes[0], F_SETFL, O_NONBLOCK);
        worker->log_pipe = pipes[0];
        if ((pipes[1] = move_up(pipes[1])) < 0) {
            error = errno;
            goto out;
        }
    }
    error = spawn(worker, pipes[1], sockets[1]);
    if (!error) {
        worker->socket = sockets[0];
        worker->place = worker->pid;
        live_replace(0, signal_target(worker));
    }
out:
    if (sockets[1] >= 0)
        close(sockets[1]);
    if (pipes[1] >= 0)
        close(pipes[1]);
    if (!error)
        return 0;
    worker->pid = 0;
    if (sockets[0] >= 0)
        close(sockets[0]);
    if (worker->log_pipe >= 0)
        close(worker->log_pipe);
    if (worker->log_file >= 0)
        close(worker->log_file);
    worker->log_pipe = worker->log_file = -1;
    struct rlimit files;
    const bool limited = error == EMFILE && getrlimit(RLIMIT_NOFILE, &files) == 0;
    const int n = snprintf(why, size, ATTN_NO_WORKER "%s: %s", what, strerror(error));
    if (limited && n > 0 && (size_t)n < size)
        snprintf(why + n, size - (size_t)n, ": 'ulimit -n' allows %llu",
                 (unsigned long long)files.rlim_cur);
    errno = error;
    return -1;
}

bool attn_process_exited(const struct attn_worker *worker)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)worker->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == worker->pid;
}

static void close_log(struct attn_worker *worker)
{
    /* A descendant that left the group may write for ever: a bounded number of reads. */
    attn_log_drain(worker, 64);
    if (worker->log_file >= 0 && worker->log_discarded > 0)
        dprintf(worker->log_file, "\n[log capped: %llu more bytes discarded]\n",
                (unsigned long long)worker->log_discarded);
    if (worker->log_pipe >= 0)
        close(worker->log_pipe);
    if (worker->log_file >= 0)
        close(worker->log_file);
    worker->log_pipe = worker->log_file = -1;
    worker->log_discarded = 0;
}

int attn_process_end(struct attn_worker *worker, int signal, double grace)
{
    int status = 0;
    const double deadline = attn_now() + grace;

    close(worker->socket);
    worker->socket = -1;
    if (signal)
        kill(signal_target(worker), signal);
    while (!attn_process_exited(worker) && attn_now() < deadline) {
        attn_log_drain(worker, 1);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    /* Before it is reaped: until then its number cannot have gone to another. */
    kill(signal_target(worker), SIGKILL);
    live_replace(signal_target(worker), 0);
    while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    worker->pid = 0;
    close_log(worker);
    return status;
}
