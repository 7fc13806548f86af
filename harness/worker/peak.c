/* SPDX-License-Identifier: Apache-2.0 */
/* peak.c - how much memory, of the host or of a device, create, bind and one run add at their
 * highest. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/memory.h"
#include "worker/serve.h"

/* The kernel adds resident pages up in batches of each processor, so that VmRSS and VmHWM are off
 * by some hundred KiB: a high-water mark says something new only beyond this. */
#define BATCH_ERROR (1ull << 20)

/* A field of a file of /proc/self in bytes; 0: not there. */
static uint64_t field_bytes(const char *path, const char *field)
{
    char line[256];
    unsigned long long kib = 0;
    const size_t length = strlen(field);
    FILE *file = fopen(path, "re");
    while (file && kib == 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, field, length) == 0 && line[length] == ':')
            kib = strtoull(line + length + 1, NULL, 10);
    if (file)
        fclose(file);
    return kib * 1024;
}

/* Brings in the pages of all libraries that are loaded, so that the first execution of their code
 * is not counted as memory of the plan. The cap is for libraries of gigabytes. */
static void populate_libraries(void)
{
    const unsigned long cap = 512ul << 20;
    unsigned long total = 0;
    char line[4352], *rest;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && fgets(line, sizeof(line), file)) {
        /* "begin-end r-xp ..." */
        const unsigned long begin = strtoul(line, &rest, 16);
        const unsigned long end = *rest == '-' ? strtoul(rest + 1, &rest, 16) : 0;
        if (!strstr(line, ".so") || end <= begin || strncmp(rest, " r-", 3) != 0 || rest[4] != 'p')
            continue;
        total += end - begin;
        if (total > cap)
            break;
#ifdef MADV_POPULATE_READ
        madvise((void *)(uintptr_t)begin, end - begin, MADV_POPULATE_READ);
#endif
    }
    if (file)
        fclose(file);
}

/* Sets the high-water mark to what is resident now. */
static int reset_high_water(void)
{
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? write(fd, "5", 1) : -1;
    const int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return n == 1 ? 0 : -1;
}

/* Resident bytes, by a walk of the page tables: exact. */
static uint64_t resident(void)
{
    return field_bytes("/proc/self/smaps_rollup", "Rss");
}

/* Returns the most that was resident after any of the steps. */
static uint64_t run_once(struct attn_setup *setup, const struct attn_message_request *request,
                         const struct attn_owned *owned, struct attn_message_reply *reply)
{
    struct attn_plan plan;
    uint64_t most = 0, now;
    if (attn_plan_open(setup, request, &plan, reply) == 0) {
        most = resident();
        if (attn_plan_bind(&plan, owned->tensors, reply) == 0) {
            now = resident();
            most = now > most ? now : most;
            if (attn_plan_run(&plan, NULL, reply) == 0) {
                now = resident();
                most = now > most ? now : most;
                if (attn_device_ask(plan.backend, &reply->after, reply) == 0)
                    attn_plan_fetch(&plan, reply);
            }
        }
    }
    attn_plan_close(&plan, reply);
    return most;
}

static uint64_t beyond(uint64_t value, uint64_t base)
{
    return value > base ? value - base : 0;
}

/* What is resident on the host. */
static void measure_host(struct attn_setup *setup, const struct attn_message_request *request,
                         const struct attn_owned *owned, struct attn_message_reply *reply)
{
    populate_libraries();
    /* Free memory that the allocator holds would be used again unseen. */
    malloc_trim(0);
    if (reset_high_water() != 0) {
        attn_reply_set(reply, ATTN_SKIP, "the high-water mark cannot be reset: %s",
                       strerror(errno));
        return;
    }
    resident(); /* what the measurement itself touches */
    const uint64_t marked = field_bytes("/proc/self/status", "VmRSS");
    const uint64_t before = resident();
    const uint64_t most = run_once(setup, request, owned, reply);
    const uint64_t highest = field_bytes("/proc/self/status", "VmHWM");
    const uint64_t held = beyond(most, before), passing = beyond(highest, marked);
    reply->bytes = passing > held + BATCH_ERROR ? passing : held;
}

/* What the backend holds of its device, which has a copy of the operands. */
static void measure_device(struct attn_setup *setup, const struct attn_message_request *request,
                           const struct attn_owned *owned, struct attn_message_reply *reply)
{
    uint64_t operands = 0;
    for (uint32_t t = 0; t < request->n_tensors; t++)
        operands += request->operands[t].span;
    run_once(setup, request, owned, reply);
    reply->bytes = beyond(reply->after.allocated_bytes, operands);
    reply->taken = beyond(reply->after.used_bytes, reply->before.used_bytes);
    if (reply->status == ATTN_PASS && reply->after.allocated_bytes == 0)
        attn_reply_set(reply, ATTN_SKIP,
                       "the backend does not say how much memory of its device it holds");
}

void attn_serve_peak(struct attn_setup *setup, const struct attn_message_request *request,
                     const int fds[2], struct attn_message_reply *reply)
{
    struct attn_owned owned;
    char why[256];
    if (attn_owned_create(request, fds, &owned, why, sizeof(why)) != 0) {
        attn_reply_set(reply, ATTN_OOM, "%s", why);
        return;
    }
    /* A library may be loaded as late as by `supports`: before the mark, since it is no plan's. */
    if (attn_plan_supports(setup, request, reply) == 0 &&
        attn_device_ask(setup->backend, &reply->before, reply) == 0) {
        if (reply->before.struct_size > 0)
            measure_device(setup, request, &owned, reply);
        else
            measure_host(setup, request, &owned, reply);
        if (reply->status == ATTN_PASS)
            attn_owned_return(request, &owned, 0);
    }
    attn_owned_free(&owned);
}
