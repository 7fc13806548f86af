/* SPDX-License-Identifier: Apache-2.0 */
/* channel.h - the worker's end of the socket. */
#ifndef ATTN_WORKER_CHANNEL_H
#define ATTN_WORKER_CHANNEL_H

#include <stddef.h>

#include "host/protocol.h"

union attn_request_buffer {
    struct attn_message_head head;
    struct attn_message_config config;
    struct attn_message_request request;
    struct attn_message_batch batch;
    struct attn_message_sync sync;
};

/* Waits for the next message; sends SYNC back by itself. fds gets the two descriptors that came
 * with it, or -1, -1; the caller closes them. Returns the type, 0 at the end of the stream, or -1
 * for nonsense. */
int attn_channel_receive(union attn_request_buffer *buffer, int fds[2]);

/* Are the lengths, counts, indices and extents of a received message such that it can be followed
 * without leaving its own bytes, the tables of a configuration or the two files. Returns 0, or -1
 * with the reason. */
int attn_message_check(const union attn_request_buffer *message, const int fds[2], char *why,
                       size_t size);

/* Sends one message, with the number of the last one received; async-signal-safe. If the host is
 * gone, the next receive notices it. */
void attn_channel_send(const struct attn_message_head *head);

#endif
