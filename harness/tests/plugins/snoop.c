/* SPDX-License-Identifier: Apache-2.0 */
/* snoop.c - tries to open the host's memory, to trace it and to read it. Right answers if it
 * cannot, wrong ones if it can. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base.h"

static int can_open(long host)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/mem", host);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int can_read(long host)
{
    char byte = 0;
    /* The host's program is where ours is if addresses are not random; any answer but EPERM tells
     * that it was allowed to ask. */
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    const ssize_t n = process_vm_readv((pid_t)host, &here, 1, &there, 1, 0);
    return n >= 0;
}

static int can_trace(long host)
{
    if (ptrace(PTRACE_SEIZE, (pid_t)host, NULL, NULL) != 0)
        return 0;
    return 1; /* it is let go when this process ends */
}

static int run(void *binding, char *why, size_t size)
{
    const struct base_binding *b = binding;
    const long host = (long)getppid();
    const int result = base_run(binding, why, size);
    if (can_open(host) || can_read(host) || can_trace(host))
        b->out[0] += 1;
    return result;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
