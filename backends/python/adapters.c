/* SPDX-License-Identifier: Apache-2.0 */
/* adapters.c - finds adapters by listing folders, and reads the little that must be known of them
 * before Python runs. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python.h"

int attn_python_folder(char *path, size_t size)
{
    Dl_info info;
    static const char here;
    if (!dladdr(&here, &info) || !info.dli_fname)
        return -1;
    const char *slash = strrchr(info.dli_fname, '/');
    const int length = slash ? (int)(slash - info.dli_fname) : 1;
    const int n = snprintf(path, size, "%.*s/python", length, slash ? info.dli_fname : ".");
    return n < 0 || (size_t)n >= size ? -1 : 0;
}

/* The name of a backend: [a-z][a-z0-9_]*, at most 31 characters. */
static bool name_of(const char *file, char name[32])
{
    const size_t n = strlen(file);
    if (n < 4 || n - 3 > 31 || strcmp(file + n - 3, ".py") != 0)
        return false;
    snprintf(name, 32, "%.*s", (int)(n - 3), file);
    return name[0] >= 'a' && name[0] <= 'z' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n - 3;
}

/* Is the name on the list "a,b,c"; NULL lists all. */
static bool wanted(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strcspn(at, ",") == n && strncmp(at, name, n) == 0)
            return true;
    return !list;
}

/* The first line of the module's docstring, and EXACTNESS = "...", both at the start of a line. */
static void read_head(struct attn_adapter *adapter)
{
    static const char *const levels[] = {"exact", "approximate", "none"};
    char line[256], level[16];
    bool described = false;
    FILE *file = fopen(adapter->path, "re");
    snprintf(adapter->description, sizeof(adapter->description), "adapter in Python");
    while (file && fgets(line, sizeof(line), file)) {
        if (!described && strncmp(line, "\"\"\"", 3) == 0) {
            line[strcspn(line, "\r\n")] = 0;
            char *end = strstr(line + 3, "\"\"\"");
            if (end)
                *end = 0;
            snprintf(adapter->description, sizeof(adapter->description), "%s", line + 3);
            described = true;
        }
        if (sscanf(line, "EXACTNESS = \"%15[a-z]\"", level) == 1)
            for (uint32_t l = 0; l < sizeof(levels) / sizeof(levels[0]); l++)
                if (strcmp(level, levels[l]) == 0)
                    adapter->exactness = l;
    }
    if (file)
        fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Adds the adapters of one folder; returns how many there are now. */
static uint32_t add_folder(const char *folder, struct attn_adapter *adapters, uint32_t n)
{
    struct dirent **files;
    const char *list = getenv("ATTNBENCH_PYTHON_BACKENDS");
    const int count = scandir(folder, &files, NULL, by_name);
    for (int f = 0; f < count; f++) {
        const char *file = files[f]->d_name;
        struct attn_adapter *adapter = &adapters[n < ATTN_ADAPTERS_MAX ? n : 0];
        char name[32];
        bool known = !name_of(file, name) || !wanted(list, name);
        for (uint32_t a = 0; a < n && !known; a++)
            known = strcmp(adapters[a].name, name) == 0;
        if (!known && n == ATTN_ADAPTERS_MAX) {
            fprintf(stderr, "python: %s/%s is left out: at most %d adapters are possible\n", folder,
                    file, ATTN_ADAPTERS_MAX);
        } else if (!known) {
            *adapter = (struct attn_adapter){.exactness = ATTN_EXACT};
            memcpy(adapter->name, name, sizeof(name));
            if ((size_t)snprintf(adapter->path, sizeof(adapter->path), "%s/%s", folder, file) <
                sizeof(adapter->path)) {
                read_head(adapter);
                n++;
            }
        }
        free(files[f]);
    }
    if (count >= 0)
        free(files);
    return n;
}

uint32_t attn_adapters_find(struct attn_adapter adapters[ATTN_ADAPTERS_MAX])
{
    char path[4096], *rest = NULL, *own;
    uint32_t n = 0;
    const char *folders = getenv("ATTNBENCH_PYTHON_ADAPTERS");
    char *list = folders ? strdup(folders) : NULL;
    for (own = list ? strtok_r(list, ":", &rest) : NULL; own; own = strtok_r(NULL, ":", &rest))
        n = add_folder(own, adapters, n);
    free(list);
    if (attn_python_folder(path, sizeof(path) - sizeof("/adapters")) == 0)
        n = add_folder(strcat(path, "/adapters"), adapters, n);
    return n;
}
