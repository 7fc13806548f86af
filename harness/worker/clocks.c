/* SPDX-License-Identifier: Apache-2.0 */
/* clocks.c - what the kernel counts for this process. */
#include "worker/clocks.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

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

/* Reading both clocks takes 1 us. A virtual machine that is stopped in between, for milliseconds,
 * would make them differ as another thread's work does. */
#define TOGETHER_S 2e-5
enum { READINGS = 8 };

struct attn_reading attn_clocks_read(void)
{
    struct rusage usage = {0};
    struct attn_reading reading = {0};
    double after = INFINITY;
    getrusage(RUSAGE_THREAD, &usage);
    for (int n = 0; n < READINGS && after - reading.thread > TOGETHER_S; n++) {
        reading.wall = attn_clock_wall();
        reading.thread = attn_clock_seconds(CLOCK_THREAD_CPUTIME_ID);
        reading.process = attn_clock_process();
        after = attn_clock_seconds(CLOCK_THREAD_CPUTIME_ID);
    }
    reading.given = usage.ru_nvcsw;
    return reading;
}

double attn_clocks_fault(void)
{
    enum { TRIES = 4, PAGES = 256 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    double least = INFINITY;
    for (int n = 0; n < TRIES; n++) {
        volatile char *fresh =
            mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (fresh == MAP_FAILED)
            return 0;
        madvise((void *)fresh, PAGES * page, MADV_NOHUGEPAGE);
        const double start = attn_clock_seconds(CLOCK_THREAD_CPUTIME_ID);
        for (size_t p = 0; p < PAGES; p++)
            fresh[p * page] = 1;
        munmap((void *)fresh, PAGES * page);
        least = fmin(least, attn_clock_seconds(CLOCK_THREAD_CPUTIME_ID) - start);
    }
    return least / PAGES;
}

uint64_t attn_clocks_switches(bool process)
{
    struct rusage usage = {0};
    getrusage(process ? RUSAGE_SELF : RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nivcsw;
}

uint64_t attn_clocks_faults(bool process)
{
    struct rusage usage = {0};
    getrusage(process ? RUSAGE_SELF : RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_minflt;
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
