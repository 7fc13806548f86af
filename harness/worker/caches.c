/* SPDX-License-Identifier: Apache-2.0 */
/* caches.c - cache sizes as the kernel knows them. glibc's sysconf multiplies the last level by the
 * parts of a package that a virtual machine does not see: ten times too much where it was tried. */
#include "worker/caches.h"

#include <stdio.h>
#include <stdlib.h>

/* First line of a file of cache `index`, into (text, size); "" where there is none. */
static void read_field(int index, const char *field, char *text, int size)
{
    char path[96];
    text[0] = '\0';
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, field);
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    if (!fgets(text, size, file))
        text[0] = '\0';
    fclose(file);
}

size_t attn_caches(size_t bytes[ATTN_CACHES_MAX])
{
    size_t n = 0;
    for (int index = 0; index < 2 * ATTN_CACHES_MAX && n < ATTN_CACHES_MAX; index++) {
        char type[32], text[32], *unit;
        read_field(index, "type", type, sizeof(type));
        read_field(index, "size", text, sizeof(text));
        const size_t size = strtoul(text, &unit, 10); /* 0 where there is no number */
        if (type[0] == 'I' || size == 0)              /* Instruction */
            continue;
        bytes[n++] = *unit == 'M' ? size << 20 : *unit == 'K' ? size << 10 : size;
    }
    return n;
}

size_t attn_last_cache_bytes(void)
{
    size_t bytes[ATTN_CACHES_MAX];
    const size_t n = attn_caches(bytes);
    return n > 0 ? bytes[n - 1] : (size_t)32 << 20;
}
