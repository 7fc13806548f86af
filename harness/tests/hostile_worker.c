/* SPDX-License-Identifier: Apache-2.0 */
/* hostile_worker.c - replaces the worker and sends messages that no worker would send. The variable
 * ATTN_TEST_HOSTILE chooses the message. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/protocol.h"

/* That of the last message taken. */
static uint32_t number;

/* A whole message gets that number. */
static void send_bytes(void *bytes, size_t size)
{
    if (size >= sizeof(struct attn_message_head))
        ((struct attn_message_head *)bytes)->number = number;
    send(ATTN_PROTOCOL_FD, bytes, size, MSG_NOSIGNAL);
}

/* Takes one message, after those that ask whether all has been said; returns the second descriptor
 * that came with it, or -1. */
static int take(void)
{
    static _Alignas(8) char buffer[ATTN_MESSAGE_MAX];
    char control[CMSG_SPACE(2 * sizeof(int))];
    struct iovec part = {buffer, sizeof(buffer)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    int fds[2] = {-1, -1};
    if (recvmsg(ATTN_PROTOCOL_FD, &message, 0) <= 0)
        _exit(0);
    const struct attn_message_head *head = (const void *)buffer;
    number = head->number;
    if (head->type == ATTN_MESSAGE_SYNC) {
        send_bytes(buffer, head->length);
        return take();
    }
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c)
        memcpy(fds, CMSG_DATA(c), sizeof(fds));
    return fds[1];
}

static struct attn_message_reply good_reply(void)
{
    return (struct attn_message_reply){
        .head = {.length = sizeof(struct attn_message_reply), .type = ATTN_MESSAGE_REPLY},
        .status = ATTN_PASS};
}

static void send_reply(const char *what)
{
    struct attn_message_reply reply = good_reply();
    if (strcmp(what, "status") == 0)
        reply.status = 99;
    if (strcmp(what, "crash-status") == 0)
        reply.status = ATTN_CRASH;
    if (strcmp(what, "nan") == 0)
        reply.seconds = __builtin_nan("");
    if (strcmp(what, "samples") == 0)
        reply.n_samples = 1000000;
    if (strcmp(what, "modified") == 0)
        reply.modified = 1000000;
    if (strcmp(what, "numerics") == 0) {
        reply.has_numerics = 1;
        reply.numerics.e_exp = -1;
    }
    if (strcmp(what, "partial-type") == 0) {
        reply.has_numerics = 1;
        reply.numerics.acc_type = ATTN_BF16; /* does not hold every f16 */
        reply.numerics.partial_type = ATTN_F16;
        reply.numerics.partial_terms = 16;
    }
    if (strcmp(what, "partial-terms") == 0) {
        reply.has_numerics = 1;
        reply.numerics.acc_type = ATTN_F32;
        reply.numerics.partial_type = ATTN_F16;
    }
    if (strcmp(what, "text") == 0) {
        reply.status = ATTN_ERROR;
        memset(reply.reason, 'x', sizeof(reply.reason));
        memcpy(reply.reason, "a\nb\xff", 4);
        memset(reply.path, 'y', sizeof(reply.path));
    }
    send_bytes(&reply, sizeof(reply));
}

static void send_fault(uint32_t slot, uint32_t operand, uint32_t access)
{
    struct attn_message_fault fault = {
        .head = {.length = sizeof(fault), .type = ATTN_MESSAGE_FAULT},
        .slot = slot,
        .signal = SIGSEGV,
        .operand = operand,
        .access = access,
        .distance = INT64_MIN,
    };
    send_bytes(&fault, sizeof(fault));
}

static void send_phases(void)
{
    struct attn_message_phase phase = {
        .head = {.length = sizeof(phase), .type = ATTN_MESSAGE_PHASE}, .slot = ATTN_SLOT_RUN};
    for (;;)
        send_bytes(&phase, sizeof(phase));
}

/* Tells the host that the worker is another process. */
static void move(void)
{
    struct attn_message_place place = {
        .head = {.length = sizeof(place), .type = ATTN_MESSAGE_PLACE}, .pid = 2};
    send_bytes(&place, sizeof(place));
}

/* The same after a slot that ends at once, as a plugin could that is being loaded. */
static void move_early(void)
{
    struct attn_message_phase phase = {
        .head = {.length = sizeof(phase), .type = ATTN_MESSAGE_PHASE}, .slot = ATTN_SLOT_NONE};
    send_bytes(&phase, sizeof(phase));
    move();
}

static void misbehave(const char *what, int outputs)
{
    static _Alignas(8) char large[100000];
    struct attn_message_head lie = {.length = 4000, .type = ATTN_MESSAGE_REPLY};
    struct attn_message_head unknown = {.length = sizeof(unknown), .type = 77};
    static struct attn_message_backend backend = {
        .head = {.length = sizeof(backend), .type = ATTN_MESSAGE_BACKEND}};
    if (strcmp(what, "oversize") == 0)
        send_bytes(large, sizeof(large));
    else if (strcmp(what, "short") == 0)
        send_bytes((char[]){'a', 'b'}, 2);
    else if (strcmp(what, "length") == 0)
        send_bytes(&lie, sizeof(lie));
    else if (strcmp(what, "type") == 0)
        send_bytes(&unknown, sizeof(unknown));
    else if (strcmp(what, "backend") == 0)
        send_bytes(&backend, sizeof(backend));
    else if (strcmp(what, "fault-slot") == 0)
        send_fault(12345, 0, 0);
    else if (strcmp(what, "fault-access") == 0)
        send_fault(ATTN_SLOT_RUN, 0, 4000000000u);
    else if (strcmp(what, "fault-operand") == 0)
        send_fault(ATTN_SLOT_RUN, 4000000000u - 1, ATTN_ACCESS_READ);
    else if (strcmp(what, "fault-distance") == 0)
        send_fault(ATTN_SLOT_RUN, 0, ATTN_ACCESS_READ);
    else if (strcmp(what, "moves") == 0)
        move();
    else if (strcmp(what, "stale") == 0) {
        struct attn_message_reply reply = good_reply();
        --number;
        send_bytes(&reply, sizeof(reply));
    } else if (strcmp(what, "forged") == 0) {
        send_reply(what);
        send_reply(what);
    } else if (strcmp(what, "close") == 0) {
        close(ATTN_PROTOCOL_FD);
        pause();
    } else if (strcmp(what, "phases") == 0)
        send_phases();
    /* The host must not lose the pages that it will read. */
    else if (strcmp(what, "shrink") == 0 && ftruncate(outputs, 0) == 0)
        _exit(99);
    else
        send_reply(what);
}

int main(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *what = getenv("ATTN_TEST_HOSTILE");
    take();
    if (what && strcmp(what, "moves-early") == 0)
        move_early();
    struct attn_message_reply reply = good_reply();
    send_bytes(&reply, sizeof(reply));
    const int outputs = take();
    misbehave(what ? what : "", outputs);
    for (;;)
        take();
}
