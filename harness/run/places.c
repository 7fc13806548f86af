/* SPDX-License-Identifier: Apache-2.0 */
/* places.c - paths of the programs, plugins and data that belong together. */
#include "run/places.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int attn_path_join(char path[ATTN_PATH_MAX], const char *dir, const char *name)
{
    int n = snprintf(path, ATTN_PATH_MAX, "%s/%s", dir, name);
    return n < 0 || n >= ATTN_PATH_MAX ? -1 : 0;
}

/* Paths below the current folder are given from there: they appear in case lines, records and
 * reports, which then read the same on every machine. */
static void shorten(char path[ATTN_PATH_MAX])
{
    char here[ATTN_PATH_MAX];
    if (!getcwd(here, sizeof here))
        return;
    size_t n = strlen(here);
    if (n > 1 && !strncmp(path, here, n) && path[n] == '/')
        memmove(path, path + n + 1, strlen(path + n + 1) + 1);
}

int attn_places_find(struct attn_places *places, char *why, size_t size)
{
    char exe[ATTN_PATH_MAX], prefix[ATTN_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) {
        snprintf(why, size, "/proc/self/exe can not be read: %s", strerror(errno));
        return -1;
    }
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    *slash = '\0'; /* PREFIX/bin */
    memcpy(prefix, exe, sizeof prefix);
    slash = strrchr(prefix, '/');
    if (slash)
        *slash = '\0';
    if (attn_path_join(places->worker, exe, "attnbench-worker") ||
        attn_path_join(places->plugins, prefix, "lib/attnbench") ||
        attn_path_join(places->cases, prefix, "share/attnbench/cases") ||
        attn_path_join(places->packs, prefix, "share/attnbench/packs") ||
        attn_path_join(places->reports, prefix, "share/attnbench/reports") ||
        attn_path_join(places->skeleton, prefix, "share/attnbench/template")) {
        snprintf(why, size, "the program's own path is too long");
        return -1;
    }
    shorten(places->cases);
    shorten(places->packs);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int has_suffix(const char *name, const char *suffix)
{
    size_t n = strlen(name), s = strlen(suffix);
    return name[0] != '.' && n > s && !strcmp(name + n - s, suffix);
}

size_t attn_names_in(const char *dir, const char *suffix, char ***names)
{
    size_t count = 0, capacity = 0;
    *names = NULL;
    DIR *folder = opendir(dir);
    if (!folder)
        return 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!has_suffix(entry->d_name, suffix))
            continue;
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            char **grown = realloc(*names, capacity * sizeof *grown);
            if (!grown)
                break;
            *names = grown;
        }
        if (!((*names)[count] = strdup(entry->d_name)))
            break;
        count++;
    }
    closedir(folder);
    if (count)
        qsort(*names, count, sizeof **names, by_name);
    return count;
}

void attn_names_free(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

int attn_make_folder(const char *path)
{
    char partial[ATTN_PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof partial) {
        errno = n ? ENAMETOOLONG : ENOENT;
        return -1;
    }
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(partial, path, i);
        partial[i] = '\0';
        if (mkdir(partial, 0777) && errno != EEXIST)
            return -1;
    }
    return 0;
}
