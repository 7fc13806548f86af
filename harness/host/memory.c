/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - asks /proc/meminfo, and the kernel itself where that file is missing. */
#include "host/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

static uint64_t told(void)
{
    unsigned long long kib = 0;
    char line[256];
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && kib == 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, "MemAvailable:", 13) == 0)
            kib = strtoull(line + 13, NULL, 10);
    if (file)
        fclose(file);
    return kib < UINT64_MAX / 1024 ? kib * 1024 : 0;
}

bool attn_memory_is_told(void)
{
    return told() > 0;
}

uint64_t attn_memory_available(void)
{
    struct sysinfo info;
    const uint64_t bytes = told();
    if (bytes > 0)
        return bytes;
    if (sysinfo(&info) != 0)
        return UINT64_MAX / 4;
    const uint64_t half = info.totalram / 2, spare = info.freeram + info.bufferram;
    return (half > spare ? half : spare) * info.mem_unit;
}
