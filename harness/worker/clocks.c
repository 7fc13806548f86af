/* SPDX-License-Identifier: Apache-2.0 */
/* clocks.c - what the kernel counts for this process. */
#include "worker/clocks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

double attn_clock_seconds(clockid_t clock)
{
    struct timespec t = {0};
    return clock_gettime(clock, &t) == 0 ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec : 0;
}

double attn_clock_wall(void)
{
    return attn_clock_seconds(CLOCK_MONOTONIC);
}

double attn_clock_process(void)
{
    return attn_clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

struct attn_reading attn_clocks_read(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_THREAD, &usage);
    return (struct attn_reading){.wall = attn_clock_wall(),
                                 .thread = attn_clock_seconds(CLOCK_THREAD_CPUTIME_ID),
                                 .process = attn_clock_process(),
                                 .given = usage.ru_nvcsw};
}

uint64_t attn_clocks_switches(bool process)
{
    struct rusage usage = {0};
    getrusage(process ? RUSAGE_SELF : RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nivcsw;
}

static double delay_of(const char *task)
{
    char path[64], line[128], *next = line;
    snprintf(path, sizeof(path), "/proc/%.40s/schedstat", task);
    FILE *file = fopen(path, "re");
    const bool read = file && fgets(line, sizeof(line), file);
    if (file)
        fclose(file);
    if (!read)
        return 0;
    (void)strtoull(line, &next, 10); /* for which it has computed */
    return 1e-9 * (double)strtoull(next, NULL, 10);
}

double attn_clocks_delayed(bool process)
{
    char task[48];
    double sum = 0;
    if (!process)
        return delay_of("thread-self");
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *entry = tasks ? readdir(tasks) : NULL; entry;
         entry = readdir(tasks)) {
        snprintf(task, sizeof(task), "self/task/%.20s", entry->d_name);
        sum += entry->d_name[0] != '.' ? delay_of(task) : 0;
    }
    if (tasks)
        closedir(tasks);
    return sum;
}
