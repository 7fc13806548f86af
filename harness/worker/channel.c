/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c - packets in and out. */
#include "worker/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* That of the last message received. */
static volatile uint32_t number;

/* Where a plugin has closed descriptors 0 to 2, an operand must not become what it prints to. */
static void move_up(int fds[2])
{
    for (int f = 0; f < 2; f++) {
        const int low = fds[f];
        if (low < 0 || low > STDERR_FILENO)
            continue;
        fds[f] = fcntl(low, F_DUPFD_CLOEXEC, ATTN_PROTOCOL_FD + 1);
        close(low);
    }
}

int attn_channel_receive(union attn_request_buffer *buffer, int fds[2])
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = buffer, .iov_len = sizeof(*buffer)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    fds[0] = fds[1] = -1;
    do
        n = recvmsg(ATTN_PROTOCOL_FD, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return 0;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (n > 0 && c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(2 * sizeof(int)))
        memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
    move_up(fds);
    if (n < (ssize_t)sizeof(buffer->head) || buffer->head.length != (size_t)n)
        return -1;
    number = buffer->head.number;
    if (buffer->head.type == ATTN_MESSAGE_SYNC && (size_t)n == sizeof(buffer->sync)) {
        attn_channel_send(&buffer->head);
        for (int f = 0; f < 2; f++)
            if (fds[f] >= 0)
                close(fds[f]);
        return attn_channel_receive(buffer, fds);
    }
    if (buffer->head.type == ATTN_MESSAGE_CONFIG && (size_t)n == sizeof(buffer->config))
        return ATTN_MESSAGE_CONFIG;
    if (buffer->head.type == ATTN_MESSAGE_REQUEST && (size_t)n == sizeof(buffer->request))
        return ATTN_MESSAGE_REQUEST;
    if (buffer->head.type == ATTN_MESSAGE_BATCH && (size_t)n == sizeof(buffer->batch))
        return ATTN_MESSAGE_BATCH;
    return -1;
}

void attn_channel_send(const struct attn_message_head *head)
{
    struct attn_message_head numbered = *head;
    numbered.number = number;
    struct iovec parts[] = {{&numbered, sizeof(numbered)},
                            {(void *)(uintptr_t)(head + 1), head->length - sizeof(numbered)}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    while (sendmsg(ATTN_PROTOCOL_FD, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
        continue;
}
