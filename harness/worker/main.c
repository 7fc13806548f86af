/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - attnbench-worker: serves one plugin to the host on the other end of descriptor 3. As a
 * program, and as a library (attnbench-worker.dso) for a process that is something else as well:
 * the interpreter of the plugin `python`, which calls attn_worker_main. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "worker/channel.h"
#include "worker/fault.h"
#include "worker/serve.h"

static void serve_request(struct attn_setup *setup, const struct attn_message_request *request,
                          const int fds[2], struct attn_message_reply *reply)
{
    const bool needs_backend =
        request->kind != ATTN_REQUEST_INSPECT && request->kind != ATTN_REQUEST_CEILINGS;
    if (needs_backend && !setup->backend) {
        attn_reply_set(reply, ATTN_ERROR, "the worker was started without a backend");
        return;
    }
    switch (request->kind) {
    case ATTN_REQUEST_INSPECT:
        attn_serve_inspect(setup, reply);
        break;
    case ATTN_REQUEST_SUPPORTS:
        attn_plan_supports(setup, request, reply);
        break;
    case ATTN_REQUEST_UNKNOWNS:
        attn_serve_unknowns(setup, request, reply);
        break;
    case ATTN_REQUEST_VERIFY:
        attn_serve_verify(setup, request, fds, reply);
        break;
    case ATTN_REQUEST_AGED:
        attn_serve_aged(request, fds, reply);
        break;
    case ATTN_REQUEST_REPEAT:
        attn_serve_repeat(setup, request, fds, reply);
        break;
    case ATTN_REQUEST_BENCH:
        attn_serve_bench(setup, request, fds, reply);
        break;
    case ATTN_REQUEST_LIVE:
        attn_serve_live(setup, request, fds, reply);
        break;
    case ATTN_REQUEST_COUNT:
        attn_serve_count(setup, request, fds, reply);
        break;
    case ATTN_REQUEST_PEAK:
        attn_serve_peak(setup, request, fds, reply);
        break;
    case ATTN_REQUEST_CEILINGS:
        attn_serve_ceilings(setup, reply);
        break;
    default:
        attn_reply_set(reply, ATTN_ERROR, "unknown kind of request %u", request->kind);
    }
}

/* Serves until the host closes its end. Returns the exit status. */
static int serve(void)
{
    static struct attn_setup setup;
    static union attn_request_buffer buffer;
    static struct attn_message_reply reply;
    int fds[2];

    for (;;) {
        const int type = attn_channel_receive(&buffer, fds);
        if (type <= 0)
            return type == 0 ? 0 : 2;
        memset(&reply, 0, sizeof(reply));
        reply.head =
            (struct attn_message_head){.length = sizeof(reply), .type = ATTN_MESSAGE_REPLY};
        reply.status = ATTN_PASS;
        char why[256];
        if (attn_message_check(&buffer, fds, why, sizeof(why)) != 0)
            attn_reply_set(&reply, ATTN_ERROR, "%s", why);
        else if (type == ATTN_MESSAGE_CONFIG)
            attn_serve_config(&setup, &buffer.config, &reply);
        else
            serve_request(&setup, &buffer.request, fds, &reply);
        for (int f = 0; f < 2; f++)
            if (fds[f] >= 0)
                close(fds[f]);
        attn_channel_send(&reply.head);
    }
}

__attribute__((visibility("default"))) int attn_worker_main(int argc, char **argv);

int attn_worker_main(int argc, char **argv)
{
    /* First of all, so that the host's death at any later time is noticed; if it came before, the
     * parent is another process by now. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* What a plugin starts stays below this process, so that its processor time is seen. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (argc != 2 || fcntl(ATTN_PROTOCOL_FD, F_SETFD, FD_CLOEXEC) != 0) {
        fprintf(stderr, "attnbench-worker: only attnbench starts this program\n");
        return 2;
    }
    if ((long)getppid() != strtol(argv[1], NULL, 10))
        return 2;
    if (attn_fault_init() != 0)
        return 2;
    attn_fault_arm();
    /* So that the log has what a plugin said before it crashed. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* Without the handlers that libraries have registered for exit: their faults would be noise
     * after the last verdict. */
    const int status = serve();
    fflush(NULL);
    _exit(status);
}

int main(int argc, char **argv)
{
    return attn_worker_main(argc, argv);
}
