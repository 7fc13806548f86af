/* SPDX-License-Identifier: Apache-2.0 */
/* paths.h - where the parts of an installed or built attnbench lie, from the program's own place:
 * PREFIX/bin/attnbench, PREFIX/lib/attnbench/{attnbench-worker,NAME.so,...}, and
 * PREFIX/share/attnbench/{cases,packs,reports,template}, where bin, lib and share are the names
 * that the build was given (GNUInstallDirs). A build folder is such a prefix. Nothing is looked for
 * by an absolute path: a tree that is moved works where it then lies. */
#ifndef ATTN_PATHS_H
#define ATTN_PATHS_H

#include <stddef.h>

enum { ATTN_PATH_MAX = 4096 };

struct attn_paths {
    char worker[ATTN_PATH_MAX];
    char plugins[ATTN_PATH_MAX];
    char cases[ATTN_PATH_MAX];
    char packs[ATTN_PATH_MAX];
    char reports[ATTN_PATH_MAX];
    char skeleton[ATTN_PATH_MAX]; /* the backend that new-backend copies */
};

/* Returns 0, or -1 with the reason. */
int attn_paths_find(struct attn_paths *paths, char *why, size_t size);

/* "DIR/NAME" into a buffer of ATTN_PATH_MAX; -1 when it does not fit. */
int attn_path_join(char path[ATTN_PATH_MAX], const char *dir, const char *name);

/* Names in `dir` that end in `suffix`, sorted; freed with attn_names_free. Returns 0, or -1 with
 * errno and no names: ENOENT where the folder is not there. */
int attn_names_in(const char *dir, const char *suffix, char ***names, size_t *count);
void attn_names_free(char **names, size_t count);

/* Makes a folder and its parents. Returns 0, or -1 with errno. */
int attn_make_folder(const char *path);

#endif
