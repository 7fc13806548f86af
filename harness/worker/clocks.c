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

struct attn_reading attn_clocks_read(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_THREAD, &usage);
    return (struct attn_reading){.wall = attn_clock_seconds(CLOCK_MONOTONIC),
                                 .thread = attn_clock_seconds(CLOCK_THREAD_CPUTIME_ID),
                                 .process = attn_clock_seconds(CLOCK_PROCESS_CPUTIME_ID),
                                 .given = usage.ru_nvcsw};
}

uint64_t attn_clocks_switches(bool process)
{
    struct rusage usage = {0};
    getrusage(process ? RUSAGE_SELF : RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nivcsw;
}

/* Seconds for which threads of this process have waited for a processor; 0 where the kernel does
 * not say. */
double attn_clocks_delayed(void)
{
    char path[64], line[128];
    double sum = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *task = tasks ? readdir(tasks) : NULL; task; task = readdir(tasks)) {
        snprintf(path, sizeof(path), "/proc/self/task/%.20s/schedstat", task->d_name);
        FILE *file = task->d_name[0] != '.' ? fopen(path, "re") : NULL;
        char *next = line;
        if (file && fgets(line, sizeof(line), file)) {
            (void)strtoull(line, &next, 10); /* for which it has computed */
            sum += 1e-9 * (double)strtoull(next, NULL, 10);
        }
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return sum;
}
