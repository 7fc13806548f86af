/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - one request and its reply: every way it can end, as an outcome. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "case/text.h"
#include "host/entropy.h"
#include "host/process.h"
#include "host/reply.h"

/* A worker that ends by itself is given this long; one that was told to end has 200 ms. */
#define EXIT_GRACE_S 2.0
#define TERM_GRACE_S 0.2

static int send_message(struct attn_worker *worker, const struct attn_message_head *head,
                        const int *fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct attn_message_head numbered = *head;
    numbered.number = ++worker->number;
    struct iovec parts[] = {{&numbered, sizeof(numbered)},
                            {(void *)(uintptr_t)(head + 1), head->length - sizeof(numbered)}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (fds) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(2 * sizeof(int));
        memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(worker->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)head->length ? 0 : -1;
}

static struct attn_outcome protocol_error(struct attn_worker *worker, const char *what)
{
    attn_process_end(worker, 0, 0);
    return attn_outcome_make(ATTN_ERROR, "%s, in %s", what, attn_slot_name(worker->slot));
}

/* The worker has gone, or has closed its socket. */
static struct attn_outcome gone(struct attn_worker *worker)
{
    const double start = attn_now();
    while (!attn_process_exited(worker) && attn_now() < start + EXIT_GRACE_S) {
        attn_log_drain(worker, 1);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (!attn_process_exited(worker)) {
        attn_process_end(worker, 0, 0);
        return attn_outcome_make(ATTN_CRASH, "closed its connection to the host in %s",
                                 attn_slot_name(worker->slot));
    }
    const uint64_t rss = worker->rss, limit = worker->config.rss_limit;
    const int status = attn_process_end(worker, 0, 0);
    /* SIGKILL from outside while most of the limit was in use is the kernel's own answer to a lack
     * of memory. */
    if (!WIFEXITED(status) && WTERMSIG(status) == SIGKILL && rss > limit / 2)
        return attn_outcome_make(ATTN_OOM, "killed by the system in %s with %.0f MiB resident",
                                 attn_slot_name(worker->slot), (double)rss / 0x1p20);
    return attn_outcome_of_exit(status, worker->slot);
}

static struct attn_outcome timed_out(struct attn_worker *worker)
{
    attn_process_end(worker, SIGTERM, TERM_GRACE_S);
    return attn_outcome_make(ATTN_TIMEOUT, "no answer within %g s, in %s", worker->config.timeout_s,
                             attn_slot_name(worker->slot));
}

static struct attn_outcome out_of_memory(struct attn_worker *worker)
{
    const double rss = (double)worker->rss;
    attn_process_end(worker, 0, 0);
    return attn_outcome_make(ATTN_OOM, "%.0f MiB resident in %s, over the limit of %.0f MiB",
                             rss / 0x1p20, attn_slot_name(worker->slot),
                             (double)worker->config.rss_limit / 0x1p20);
}

static struct attn_outcome crowd(struct attn_worker *worker)
{
    attn_process_end(worker, 0, 0);
    return attn_outcome_make(ATTN_ERROR, "more than %d processes in %s", CHILDREN_MOST,
                             attn_slot_name(worker->slot));
}

/* A message that belongs to another request than this one. */
static struct attn_outcome stray(struct attn_worker *worker)
{
    const uint32_t number = worker->in.head.number, expected = worker->number;
    attn_process_end(worker, 0, 0);
    return attn_outcome_make(ATTN_ERROR,
                             "the worker sent a message of request %u during request %u: a reply "
                             "was forged, or one is stale",
                             number, expected);
}

static struct attn_outcome reply_outcome(struct attn_worker *worker)
{
    struct attn_message_reply *reply = &worker->in.reply;
    char why[256];
    if (attn_reply_check(reply, why, sizeof(why)) != 0) {
        /* Do not blame the last slot; the reply covers the whole request. */
        attn_process_end(worker, 0, 0);
        return attn_outcome_make(ATTN_ERROR, "%s", why);
    }
    struct attn_outcome outcome = {.status = (enum attn_status)reply->status};
    if (outcome.status == ATTN_FAIL)
        outcome.broken = (enum attn_promise)reply->broken;
    if (outcome.status != ATTN_PASS)
        attn_text_take(outcome.reason, sizeof(outcome.reason), reply->reason,
                       sizeof(reply->reason));
    if (outcome.status == ATTN_OOM)
        attn_process_end(worker, 0, TERM_GRACE_S);
    return outcome;
}

/* Stores one BACKEND message. */
static int take_backend(struct attn_worker *worker, struct attn_plugin_info *info, char *why,
                        size_t size)
{
    struct attn_message_backend *message = &worker->in.backend;
    if (!info || info->n_backends >= ATTN_BACKENDS_MAX ||
        message->head.length != sizeof(*message)) {
        snprintf(why, size, "the worker described a backend that nobody asked for");
        return -1;
    }
    if (attn_backend_info_check(&message->info, why, size) != 0)
        return -1;
    info->backends[info->n_backends++] = message->info;
    return 0;
}

/* The namespace's worker tells once, before it loads anything, which process it is. */
static int take_place(struct attn_worker *worker, char *why, size_t size)
{
    const struct attn_message_place *message = &worker->in.place;
    if (worker->number != 1 || worker->place != worker->pid || worker->phased ||
        message->head.length != sizeof(*message) || message->pid <= 1) {
        snprintf(why, size, "the worker moves to another process");
        return -1;
    }
    worker->place = message->pid;
    return 0;
}

/* What to do with a message that is not the last. Returns 0, or -1 with the reason. */
static int take_progress(struct attn_worker *worker, const struct attn_exchange *exchange,
                         char *why, size_t size)
{
    switch (worker->in.head.type) {
    case ATTN_MESSAGE_PHASE:
        if (worker->in.head.length == sizeof(worker->in.phase) &&
            worker->in.phase.slot < ATTN_SLOT_COUNT) {
            worker->slot = worker->in.phase.slot;
            worker->phased = true;
            return 0;
        }
        snprintf(why, size, "the worker sent a malformed phase");
        return -1;
    case ATTN_MESSAGE_PLACE:
        return take_place(worker, why, size);
    case ATTN_MESSAGE_BACKEND:
        return take_backend(worker, exchange->info, why, size);
    default:
        snprintf(why, size, "the worker sent a message of unknown type %u", worker->in.head.type);
        return -1;
    }
}

/* A fault's report; the worker ends by itself after it. */
static struct attn_outcome fault(struct attn_worker *worker, const struct attn_exchange *exchange)
{
    if (worker->in.head.length != sizeof(worker->in.fault))
        return protocol_error(worker, "the worker sent a malformed report of a fault");
    const struct attn_message_fault report = worker->in.fault;
    attn_process_end(worker, 0, TERM_GRACE_S);
    return attn_outcome_of_fault(&report, exchange->instance);
}

static struct attn_outcome sample_outcome(struct attn_worker *worker)
{
    char why[256];
    if (attn_sample_check(&worker->in.sample, why, sizeof(why)) != 0)
        return protocol_error(worker, why);
    return (struct attn_outcome){.status = ATTN_PASS};
}

/* What ends a wait without a message that can be used. */
static struct attn_outcome ended(struct attn_worker *worker, enum attn_event event)
{
    switch (event) {
    case ATTN_EVENT_TIMEOUT:
        return timed_out(worker);
    case ATTN_EVENT_OOM:
        return out_of_memory(worker);
    case ATTN_EVENT_CROWD:
        return crowd(worker);
    case ATTN_EVENT_GARBAGE:
        return protocol_error(worker, "the worker sent a message of impossible length");
    default:
        return gone(worker);
    }
}

/* The worker has replied. Is that all it says? A forged reply came from the plugin, and the
 * worker's own follows. The reply stays in worker->in. */
static struct attn_outcome confirm(struct attn_worker *worker, struct attn_outcome outcome)
{
    const struct attn_message_reply reply = worker->in.reply;
    const struct attn_message_sync sync = {
        .head = {.length = sizeof(sync), .type = ATTN_MESSAGE_SYNC}, .word = attn_entropy()};
    if (send_message(worker, &sync.head, NULL) != 0)
        return gone(worker);
    const enum attn_event event = attn_process_wait(worker);
    if (event != ATTN_EVENT_MESSAGE)
        return ended(worker, event);
    const struct attn_message_sync *back = &worker->in.sync;
    if (back->head.type != ATTN_MESSAGE_SYNC || back->head.length != sizeof(*back) ||
        back->head.number != worker->number || back->word != sync.word) {
        attn_process_end(worker, 0, 0);
        return attn_outcome_make(ATTN_ERROR,
                                 "the worker sent a message after its reply to request "
                                 "%u: a reply was forged",
                                 reply.head.number);
    }
    worker->in.reply = reply;
    return outcome;
}

struct attn_outcome attn_exchange(struct attn_worker *worker, const struct attn_exchange *exchange)
{
    char why[256];

    attn_process_set_out(worker);
    worker->slot = ATTN_SLOT_NONE;
    if (send_message(worker, exchange->message, exchange->fds) != 0) {
        if (errno == EPIPE || errno == ECONNRESET)
            return gone(worker);
        return protocol_error(worker, "the worker does not accept requests");
    }
    for (;;) {
        const enum attn_event event = attn_process_wait(worker);
        if (event != ATTN_EVENT_MESSAGE)
            return ended(worker, event);
        if (worker->in.head.number != worker->number)
            return stray(worker);
        if (worker->in.head.type == ATTN_MESSAGE_REPLY) {
            const struct attn_outcome outcome = reply_outcome(worker);
            return worker->pid != 0 ? confirm(worker, outcome) : outcome;
        }
        if (worker->in.head.type == ATTN_MESSAGE_FAULT)
            return fault(worker, exchange);
        if (worker->in.head.type == ATTN_MESSAGE_SAMPLE && exchange->live)
            return sample_outcome(worker);
        if (take_progress(worker, exchange, why, sizeof(why)) != 0)
            return protocol_error(worker, why);
    }
}
