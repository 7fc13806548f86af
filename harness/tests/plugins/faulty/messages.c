/* SPDX-License-Identifier: Apache-2.0 */
/* messages.c - output without end, and messages to the host that are none of the worker's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "faults.h"
#include "host/protocol.h"

#define SOCKET 3

static void do_flood(void)
{
    static char text[65536];
    memset(text, 'x', sizeof(text));
    for (int n = 0; n < 64; n++)
        (void)!write(STDOUT_FILENO, text, sizeof(text));
}

static void do_flood_ever(void)
{
    static char text[65536];
    memset(text, '\n', sizeof(text));
    for (;;)
        (void)!write(STDERR_FILENO, text, sizeof(text));
}

static void do_controls(void)
{
    printf("\033[2J\033]0;x\007\xff\xfe\n");
    fflush(stdout);
}

static void do_garbage(void)
{
    char bytes[64];
    memset(bytes, 0xA5, sizeof(bytes));
    (void)!send(SOCKET, bytes, sizeof(bytes), MSG_NOSIGNAL);
}

static void do_large(void)
{
    static char bytes[100000];
    (void)!send(SOCKET, bytes, sizeof(bytes), MSG_NOSIGNAL);
}

/* Heads as the protocol has them: length, type, number, reserved. */
static void send_head(uint32_t length, uint32_t type, uint32_t number)
{
    static uint32_t words[16384];
    memset(words, 0, sizeof(words));
    words[0] = length;
    words[1] = type;
    words[2] = number;
    (void)!send(SOCKET, words, length, MSG_NOSIGNAL);
}

static void do_type(void)
{
    send_head(32, 77, 1);
}

static void do_stale(void)
{
    for (uint32_t number = 1000; number < 1003; number++)
        send_head(32, 6, number);
}

/* The number of the request that is served, which the argument is. */
static uint32_t request(void)
{
    return (uint32_t)strtoul(fault_argument, NULL, 10);
}

/* A reply as good as any; the worker's own follows. */
static void send_reply(uint32_t status)
{
    static struct attn_message_reply reply;
    reply.head = (struct attn_message_head){
        .length = sizeof(reply), .type = ATTN_MESSAGE_REPLY, .number = request()};
    reply.status = status;
    (void)!send(SOCKET, &reply, sizeof(reply), MSG_NOSIGNAL);
}

static void do_forge_pass(void)
{
    send_reply(ATTN_PASS);
}

static void do_forge_fail(void)
{
    send_reply(ATTN_FAIL);
}

/* A reply, and that nothing else will follow, before anybody has asked. */
static void do_forge_sync(void)
{
    send_reply(ATTN_PASS);
    send_head(sizeof(struct attn_message_sync), ATTN_MESSAGE_SYNC, request() + 1);
}

static void do_moves(void)
{
    for (uint32_t number = 1; number < 40; number++)
        send_head(24, 9, number);
}

static void do_cut(void)
{
    close(SOCKET);
}

/* The socket becomes another file. */
static void do_replaced(void)
{
    dup2(STDIN_FILENO, SOCKET);
}

static void do_shut(void)
{
    shutdown(SOCKET, SHUT_RDWR);
}

static void do_close_all(void)
{
    syscall(SYS_close_range, 0u, ~0u, 0u);
}

const struct fault faults_of_messages[] = {
    {"flood", do_flood},           {"flood_ever", do_flood_ever},
    {"controls", do_controls},     {"garbage", do_garbage},
    {"large", do_large},           {"type", do_type},
    {"stale", do_stale},           {"forge_pass", do_forge_pass},
    {"forge_fail", do_forge_fail}, {"forge_sync", do_forge_sync},
    {"moves", do_moves},           {"cut", do_cut},
    {"replaced", do_replaced},     {"shut", do_shut},
    {"close_all", do_close_all},   {NULL, NULL},
};
