/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c - three processes: the one that the host has started waits outside, the namespace's first
 * one reaps, and the second is the worker. */
#include "worker/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/confine.h"
#include "worker/channel.h"

/* The host must see the ends of socket and log when the worker has gone. */
static void let_go(void)
{
    close(ATTN_PROTOCOL_FD);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
}

/* With it ends the namespace. It dies with its parent, and so does all else in there. */
static void be_first(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    let_go();
    signal(SIGCHLD, SIG_IGN);
    for (;;)
        pause();
}

/* Ends as the worker ends. Signals that ask the group to end are the worker's to answer. */
static void wait_outside(pid_t worker)
{
    int status = 0;
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    let_go();
    while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    signal(WTERMSIG(status), SIG_DFL);
    kill(getpid(), WTERMSIG(status));
    for (;;)
        pause();
}

int attn_keep(void)
{
    int gate[2];
    char go;
    if (pipe2(gate, O_CLOEXEC) != 0)
        return -1;
    if (unshare(CLONE_NEWPID) != 0) {
        close(gate[0]);
        close(gate[1]);
        return -1;
    }
    const pid_t first = fork();
    if (first == 0) {
        close(gate[1]);
        be_first();
    }
    const pid_t worker = first > 0 ? fork() : -1;
    if (worker == 0) {
        close(gate[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        /* Nothing if the parent had gone before. */
        if (read(gate[0], &go, 1) != 1)
            _exit(2);
        close(gate[0]);
        errno = attn_confine_proc();
        return errno == 0 ? 0 : -1;
    }
    if (worker < 0) { /* nothing is loaded here; any new process is in the namespace */
        const int refused = errno;
        close(gate[0]);
        close(gate[1]);
        errno = refused;
        return -1;
    }
    const struct attn_message_place place = {
        .head = {.length = sizeof(place), .type = ATTN_MESSAGE_PLACE}, .pid = (int32_t)worker};
    attn_channel_send(&place.head);
    if (write(gate[1], "g", 1) != 1)
        _exit(2);
    wait_outside(worker);
    return -1;
}
