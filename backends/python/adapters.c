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

bool attn_adapter_on_device(const struct attn_adapter *adapter)
{
    return strcmp(adapter->device, "cuda") == 0;
}

static void add_option(struct attn_adapter *adapter, const struct attn_option_spec *spec)
{
    const char *const parts[] = {spec->key, spec->choices, spec->default_value, spec->help};
    char(*text)[128] = adapter->text[adapter->n_options];
    for (int p = 0; p < 4; p++)
        snprintf(text[p], sizeof(text[p]), "%s", parts[p] ? parts[p] : "");
    adapter->options[adapter->n_options++] =
        (struct attn_option_spec){.key = text[0],
                                  .type = spec->type,
                                  .choices = spec->choices ? text[1] : NULL,
                                  .default_value = text[2],
                                  .help = text[3]};
}

/* OPTION_KERNEL = "flash|math"  # what it chooses. The first choice is the default. */
static void read_option(const char *line, struct attn_adapter *adapter)
{
    char key[32] = "", choices[128], first[128], help[128] = "";
    if (sscanf(line, "OPTION_%31[A-Z0-9_] = %*[\"']%127[a-z0-9_|]%*[\"'] # %127[^\n]", key, choices,
               help) < 2 ||
        adapter->n_options + 1 >= ATTN_ADAPTER_OPTIONS_MAX)
        return;
    for (char *at = key; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
    snprintf(first, sizeof(first), "%.*s", (int)strcspn(choices, "|"), choices);
    add_option(adapter, &(struct attn_option_spec){.key = key,
                                                   .type = ATTN_OPTION_CHOICE,
                                                   .choices = choices,
                                                   .default_value = first,
                                                   .help = help[0] ? help : "see the adapter"});
}

/* The first line of the module's docstring, and EXACTNESS = "...", DEVICE = "..." and
 * OPTION_NAME = "..." at the start of a line. */
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
        sscanf(line, "DEVICE = %*[\"']%15[a-z]", adapter->device);
        read_option(line, adapter);
    }
    if (attn_adapter_on_device(adapter))
        add_option(adapter, &(struct attn_option_spec){
                                .key = "device",
                                .type = ATTN_OPTION_INT,
                                .default_value = "0",
                                .help = "index of the GPU, as the CUDA driver counts"});
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
