/* SPDX-License-Identifier: Apache-2.0 */
/* repeat.c - the same again: do the bits stay, and does anything stay behind. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "worker/growth.h"
#include "worker/guard.h"
#include "worker/load.h"
#include "worker/serve.h"

/* Plans made one after the other. What a library keeps for the process (a pool of threads, a cache)
 * it has after the first of them; a leak grows with each of the rest. So many, because a heap may
 * grow a few times before it finds room for the next 20 MB in what was freed. */
enum { PLANS_BEFORE = 2, PLANS_COUNTED = 12 };

/* A thread that has been joined may be listed for a moment more. */
enum { SETTLE_TRIES = 20 };

static void rerun(struct attn_plan *plan, const struct attn_message_request *request,
                  const struct attn_guarded *guarded, struct attn_message_reply *reply)
{
    uint64_t first[ATTN_MAX_TENSORS] = {0};
    if (attn_plan_bind(plan, guarded->tensors, reply) != 0)
        return;
    for (int32_t r = 0; r <= request->runs; r++) {
        if (r > 0)
            attn_guarded_prime(request, guarded);
        if (attn_plan_run(plan, NULL, reply) != 0 || attn_plan_fetch(plan, reply) != 0)
            return;
        for (uint32_t t = 0; t < request->n_tensors; t++) {
            if (!request->operands[t].output)
                continue;
            const uint64_t sum =
                attn_hash_elements(&guarded->tensors[t], request->operands[t].element);
            if (r == 0)
                first[t] = sum;
            if (sum == first[t])
                continue;
            attn_reply_set(reply, ATTN_FAIL,
                           "run %d gives different bits in %s than the first run, although the "
                           "backend declares deterministic",
                           r + 1, request->operands[t].name);
            return;
        }
    }
}

/* What a process can leave behind, and how it is called. */
enum { THREADS, DESCRIPTORS, MAPPED, THINGS };
static const char *const things[] = {"threads", "descriptors", "bytes of mapped memory"};

/* Sanitizers keep what is freed for a while: there less than this a plan says nothing. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEPT_BYTES (4u << 20)
#else
#define KEPT_BYTES 0u
#endif

static uint64_t descriptors_now(void)
{
    uint64_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (const struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir))
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

uint64_t attn_mapped_now(void)
{
    char line[128] = "0";
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    const bool read = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    return read ? strtoull(line, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void count(uint64_t now[THINGS])
{
    now[THREADS] = attn_threads_now();
    now[DESCRIPTORS] = descriptors_now();
    now[MAPPED] = attn_mapped_now();
}

/* Counts, and again where there is more than before, as long as that may be passing. */
static void count_settled(const uint64_t before[THINGS], uint64_t now[THINGS])
{
    count(now);
    for (int n = 0; n < SETTLE_TRIES && now[THREADS] > before[THREADS]; n++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        count(now);
    }
}

static int plan_once(struct attn_setup *setup, const struct attn_message_request *request,
                     const struct attn_guarded *guarded, struct attn_message_reply *reply)
{
    struct attn_plan plan;
    if (attn_plan_open(setup, request, &plan, reply) == 0 &&
        attn_plan_bind(&plan, guarded->tensors, reply) == 0 &&
        attn_plan_run(&plan, NULL, reply) == 0)
        attn_plan_fetch(&plan, reply);
    attn_plan_close(&plan, reply);
    return reply->status == ATTN_PASS ? 0 : -1;
}

static void count_leaks(struct attn_setup *setup, const struct attn_message_request *request,
                        const struct attn_guarded *guarded, struct attn_message_reply *reply)
{
    uint64_t start[THINGS] = {0}, before[THINGS] = {0}, now[THINGS];
    bool grows[THINGS] = {true, true, true};
    for (int n = 0; n < PLANS_BEFORE + PLANS_COUNTED; n++) {
        if (!grows[THREADS] && !grows[DESCRIPTORS] && !grows[MAPPED])
            return;
        if (plan_once(setup, request, guarded, reply) != 0)
            return;
        count_settled(before, now);
        for (int t = 0; t < THINGS; t++) {
            if (n < PLANS_BEFORE)
                start[t] = now[t];
            else
                grows[t] &= now[t] > before[t] + (t == MAPPED ? KEPT_BYTES : 0);
            before[t] = now[t];
        }
    }
    for (int t = 0; t < THINGS; t++)
        if (grows[t]) {
            attn_reply_set(reply, ATTN_FAIL,
                           "each plan leaves something behind: %d of them, %llu %s more",
                           PLANS_COUNTED, (unsigned long long)(before[t] - start[t]), things[t]);
            return;
        }
}

void attn_serve_repeat(struct attn_setup *setup, const struct attn_message_request *request,
                       const int fds[2], struct attn_message_reply *reply)
{
    struct attn_plan plan;
    struct attn_guarded guarded;
    char why[256];

    if (attn_guarded_map(request, fds, &guarded, why, sizeof(why)) != 0) {
        attn_reply_set(reply, ATTN_ERROR, "%s", why);
        return;
    }
    if (request->runs == 0 && request->min_time > 0) {
        attn_growth_find(setup, request, &guarded, reply);
    } else if (request->runs == 0) {
        count_leaks(setup, request, &guarded, reply);
    } else {
        if (attn_plan_open(setup, request, &plan, reply) == 0)
            rerun(&plan, request, &guarded, reply);
        attn_plan_close(&plan, reply);
    }
    attn_guarded_unmap(&guarded);
}
