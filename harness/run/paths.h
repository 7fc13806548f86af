/* SPDX-License-Identifier: Apache-2.0 */
/* paths.h - finds the parts of an installed or built attnbench, relative to the program itself:
 * PREFIX/bin/attnbench, PREFIX/lib/attnbench/{attnbench-worker,NAME.so,...}, and
 * PREFIX/share/attnbench/{cases,packs,reports,template,python}. The names bin, lib and share are
 * those that the build was given (GNUInstallDirs). A build folder is such a prefix. No path is
 * absolute, so a tree still works after it was moved. */
#ifndef ATTN_PATHS_H
#define ATTN_PATHS_H

#include <stdbool.h>
#include <stddef.h>

enum { ATTN_PATH_MAX = 4096 };

struct attn_paths {
    char worker[ATTN_PATH_MAX];
    char plugins[ATTN_PATH_MAX];
    char cases[ATTN_PATH_MAX];
    char packs[ATTN_PATH_MAX];
    char reports[ATTN_PATH_MAX];
    char skeleton[ATTN_PATH_MAX]; /* the backends that new-backend copies, by language */
    char include[ATTN_PATH_MAX];  /* attnbench/backend.h is below it */
    char python[ATTN_PATH_MAX];   /* the Python package attnbench is below it; not in a wheel */
};

/* Returns 0, or -1 with the reason. */
int attn_paths_find(struct attn_paths *paths, char *why, size_t size);

/* The worker that a plugin is served by: NAME.worker beside NAME.so, if that is a program, else the
 * usual one. A plugin for which a process of its own kind is needed (an interpreter, say) brings
 * one; it gets the argument and the descriptor of attnbench-worker, and speaks its protocol. */
void attn_paths_worker(const struct attn_paths *paths, const char *plugin,
                       char worker[ATTN_PATH_MAX]);

/* Writes "DIR/NAME" into a buffer of ATTN_PATH_MAX. Returns 0, or -1: it does not fit. */
int attn_path_join(char path[ATTN_PATH_MAX], const char *dir, const char *name);

/* Names in `dir` that end in `suffix`, sorted. Free them with attn_names_free. Returns 0, or -1
 * with errno and no names; ENOENT: there is no such folder. */
int attn_names_in(const char *dir, const char *suffix, char ***names, size_t *count);
void attn_names_free(char **names, size_t count);

/* Is there a program of this name on PATH? */
bool attn_on_path(const char *program);

/* Makes a folder and its parents. Returns 0, or -1 with errno. */
int attn_make_folder(const char *path);

#endif
