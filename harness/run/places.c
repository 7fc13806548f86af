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

#include "run/version.h"

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

/* Cuts the last part off a path. Returns 0, or -1 where there is none. */
static int parent(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return -1;
    *slash = '\0';
    return 0;
}

/* The prefix: the program's own path without its name and without the parts of ATTNBENCH_BIN_DIR.
 */
static int find_prefix(char prefix[ATTN_PATH_MAX], char *why, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", prefix, ATTN_PATH_MAX - 1);
    if (n <= 0) {
        snprintf(why, size, "/proc/self/exe can not be read: %s", strerror(errno));
        return -1;
    }
    prefix[n] = '\0';
    int failed = parent(prefix);
    for (const char *part = ATTNBENCH_BIN_DIR; part && !failed; part = strchr(part + 1, '/'))
        failed = parent(prefix);
    if (failed)
        snprintf(why, size, "the program does not lie in a folder " ATTNBENCH_BIN_DIR);
    return failed;
}

int attn_places_find(struct attn_places *places, char *why, size_t size)
{
    char prefix[ATTN_PATH_MAX];
    if (find_prefix(prefix, why, size))
        return -1;
    if (attn_path_join(places->worker, prefix, ATTNBENCH_LIB_DIR "/attnbench-worker") ||
        attn_path_join(places->plugins, prefix, ATTNBENCH_LIB_DIR) ||
        attn_path_join(places->cases, prefix, ATTNBENCH_SHARE_DIR "/cases") ||
        attn_path_join(places->packs, prefix, ATTNBENCH_SHARE_DIR "/packs") ||
        attn_path_join(places->reports, prefix, ATTNBENCH_SHARE_DIR "/reports") ||
        attn_path_join(places->skeleton, prefix, ATTNBENCH_SHARE_DIR "/template")) {
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
