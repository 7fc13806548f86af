/* SPDX-License-Identifier: Apache-2.0 */
/* affinity.c - distinct physical cores first. */
#include "host/affinity.h"

#include <stdio.h>
#include <stdlib.h>

uint32_t attn_affinity_core(const char *topology, uint32_t processor)
{
    char path[4200], text[64];
    snprintf(path, sizeof(path), "%s/cpu%u/topology/thread_siblings_list", topology, processor);
    FILE *file = fopen(path, "re");
    if (!file)
        return processor;
    char *line = fgets(text, sizeof(text), file);
    fclose(file);
    char *end = text;
    const long core = line ? strtol(text, &end, 10) : -1;
    return end != text && core >= 0 && core < CPU_SETSIZE ? (uint32_t)core : processor;
}

int attn_affinity_choose(const char *topology, const cpu_set_t *allowed, uint32_t threads,
                         uint32_t *processors, char *why, size_t size)
{
    const int available = CPU_COUNT(allowed);
    if (threads < 1 || threads > (uint32_t)available) {
        snprintf(why, size, "%u threads were asked for, but only %d processors may be used",
                 threads, available);
        return -1;
    }
    cpu_set_t cores, taken;
    CPU_ZERO(&cores);
    CPU_ZERO(&taken);
    uint32_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t p = 0; p < CPU_SETSIZE && n < threads; p++) {
            if (!CPU_ISSET(p, allowed) || CPU_ISSET(p, &taken))
                continue;
            const uint32_t core = attn_affinity_core(topology, p);
            if (pass == 0 && CPU_ISSET(core, &cores))
                continue;
            CPU_SET(core, &cores);
            CPU_SET(p, &taken);
            processors[n++] = p;
        }
    }
    return 0;
}
