/* SPDX-License-Identifier: Apache-2.0 */
/* paths.c - paths of the programs, plugins and data that belong together. */
#include "run/paths.h"

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

/* Paths below the current folder are relative to it. They appear in case lines, records and
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

/* Cuts the last part off a path. Returns 0, or -1 if there is none. */
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
        snprintf(why, size, "/proc/self/exe cannot be read: %s", strerror(errno));
        return -1;
    }
    prefix[n] = '\0';
    int failed = parent(prefix);
    for (const char *part = ATTNBENCH_BIN_DIR; part && !failed; part = strchr(part + 1, '/'))
        failed = parent(prefix);
    if (failed)
        snprintf(why, size, "the program is not in a folder " ATTNBENCH_BIN_DIR);
    return failed;
}

int attn_paths_find(struct attn_paths *paths, char *why, size_t size)
{
    char prefix[ATTN_PATH_MAX];
    if (find_prefix(prefix, why, size))
        return -1;
    if (attn_path_join(paths->worker, prefix, ATTNBENCH_LIB_DIR "/attnbench-worker") ||
        attn_path_join(paths->plugins, prefix, ATTNBENCH_LIB_DIR) ||
        attn_path_join(paths->cases, prefix, ATTNBENCH_SHARE_DIR "/cases") ||
        attn_path_join(paths->packs, prefix, ATTNBENCH_SHARE_DIR "/packs") ||
        attn_path_join(paths->reports, prefix, ATTNBENCH_SHARE_DIR "/reports") ||
        attn_path_join(paths->skeleton, prefix, ATTNBENCH_SHARE_DIR "/template") ||
        attn_path_join(paths->python, prefix, ATTNBENCH_SHARE_DIR "/python") ||
        attn_path_join(paths->include, prefix, ATTNBENCH_INCLUDE_DIR)) {
        snprintf(why, size, "the program's own path is too long");
        return -1;
    }
    shorten(paths->cases);
    shorten(paths->packs);
    shorten(paths->include);
    return 0;
}

void attn_paths_worker(const struct attn_paths *paths, const char *plugin,
                       char worker[ATTN_PATH_MAX])
{
    const size_t n = strlen(plugin);
    const bool named = n > 3 && !strcmp(plugin + n - 3, ".so");
    const int length = snprintf(worker, ATTN_PATH_MAX, "%s%.*s.worker",
                                strchr(plugin, '/') ? "" : "./", named ? (int)n - 3 : 0, plugin);
    if (!named || length >= ATTN_PATH_MAX || access(worker, X_OK) != 0)
        snprintf(worker, ATTN_PATH_MAX, "%s", paths->worker);
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

struct names {
    char **items;
    size_t count, capacity;
};

/* Returns 0, or -1 with errno. */
static int add_name(struct names *names, const char *name)
{
    if (names->count == names->capacity) {
        const size_t capacity = names->capacity ? 2 * names->capacity : 16;
        char **grown = realloc(names->items, capacity * sizeof *grown);
        if (!grown)
            return -1;
        names->items = grown;
        names->capacity = capacity;
    }
    if (!(names->items[names->count] = strdup(name)))
        return -1;
    names->count++;
    return 0;
}

/* Returns 0, or -1 with errno. */
static int read_names(DIR *folder, const char *suffix, struct names *names)
{
    for (;;) {
        errno = 0; /* only errno tells the end from a failure */
        const struct dirent *entry = readdir(folder);
        if (!entry)
            return errno ? -1 : 0;
        if (has_suffix(entry->d_name, suffix) && add_name(names, entry->d_name))
            return -1;
    }
}

int attn_names_in(const char *dir, const char *suffix, char ***names, size_t *count)
{
    struct names found = {0};
    *names = NULL;
    *count = 0;
    DIR *folder = opendir(dir);
    if (!folder)
        return -1;
    const int result = read_names(folder, suffix, &found), error = errno;
    closedir(folder);
    if (result) {
        attn_names_free(found.items, found.count);
        errno = error;
        return -1;
    }
    if (found.count)
        qsort(found.items, found.count, sizeof *found.items, by_name);
    *names = found.items;
    *count = found.count;
    return 0;
}

void attn_names_free(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

bool attn_on_path(const char *program)
{
    const char *path = getenv("PATH");
    char *copy = path ? strdup(path) : NULL, *rest = copy, file[ATTN_PATH_MAX];
    bool found = false;
    for (char *folder; copy && !found && (folder = strsep(&rest, ":"));)
        found = attn_path_join(file, folder, program) == 0 && access(file, X_OK) == 0;
    free(copy);
    return found;
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
