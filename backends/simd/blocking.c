/* SPDX-License-Identifier: Apache-2.0 */
/* blocking.c - see blocking.h */
#include "blocking.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TILE_SHARE(bytes)  ((bytes) / 4)
#define ITEM_SHARE(bytes)  ((bytes)*11 / 16)
#define SCORE_SHARE(bytes) ((bytes)*3 / 8)

#define MOST_CACHES 8 /* lists end at 4 or 5 */

/* One word of a file. Returns false if there is none. */
static bool read_word(const char *root, int cpu, int index, const char *name, char word[32])
{
    char path[512];
    snprintf(path, sizeof path, "%s/cpu%d/cache/index%d/%s", root, cpu, index, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool found = fscanf(file, "%31s", word) == 1;
    fclose(file);
    return found;
}

/* A size such as "1024K"; 0 if a cache cannot have it. */
static int64_t parse_size(const char *word)
{
    char *unit;
    long size = strtol(word, &unit, 10);
    int64_t by = *unit == 'K' ? 1024 : *unit == 'M' ? 1024 * 1024 : 0;
    return size > 0 && size <= 1024 * 1024 ? size * by : 0;
}

struct attn_caches attn_caches_read(const char *root)
{
    struct attn_caches caches = {32 * 1024, 1024 * 1024};
    int cpu = sched_getcpu();
    char level[32], type[32], size[32];
    for (int n = 0; n < MOST_CACHES; n++) {
        if (!read_word(root, cpu > 0 ? cpu : 0, n, "level", level) ||
            !read_word(root, cpu > 0 ? cpu : 0, n, "type", type) ||
            !read_word(root, cpu > 0 ? cpu : 0, n, "size", size) ||
            strcmp(type, "Instruction") == 0 || parse_size(size) < 16 * 1024)
            continue;
        if (strcmp(level, "1") == 0)
            caches.l1 = parse_size(size);
        else if (strcmp(level, "2") == 0)
            caches.l2 = parse_size(size);
    }
    return caches;
}

int64_t attn_blocking_tile(const struct attn_caches *caches)
{
    return TILE_SHARE(caches->l2) / (int64_t)sizeof(float);
}

int64_t attn_blocking_item(const struct attn_caches *caches)
{
    return ITEM_SHARE(caches->l2) / (int64_t)sizeof(float);
}

int64_t attn_blocking_scores(const struct attn_caches *caches)
{
    return SCORE_SHARE(caches->l1) / (int64_t)sizeof(float);
}
