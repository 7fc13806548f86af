/* SPDX-License-Identifier: Apache-2.0 */
/* functions.c - functions of Python on the command line, which the Python package makes backends.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

/* Set for the package, and so for the program that the package starts. */
static const char started[] = "ATTNBENCH_FUNCTIONS";

static bool any_function(int argc, char **argv)
{
    for (int a = 2; a < argc; a++)
        if (strstr(argv[a], ".py::"))
            return true;
    return false;
}

/* The interpreter of adapters (backends/python/python.worker.in). */
static const char *interpreter(const struct attn_paths *paths, char beside[ATTN_PATH_MAX])
{
    const char *named = getenv("ATTNBENCH_PYTHON");
    if (named && *named)
        return named;
    const int joined = attn_path_join(beside, paths->plugins, "python/venv/bin/python3");
    return joined == 0 && access(beside, X_OK) == 0 ? beside : "/usr/bin/python3";
}

/* The package for modules that import it, before what else is searched. Returns 0, or -1. */
static int set_variables(const struct attn_paths *paths)
{
    const char *before = getenv("PYTHONPATH");
    char program[ATTN_PATH_MAX], *folders;
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0 || asprintf(&folders, "%s%s%s", paths->python, before && *before ? ":" : "",
                           before ? before : "") < 0)
        return -1;
    program[n] = '\0';
    const int failed = setenv("PYTHONPATH", folders, 1) ||
                       setenv("ATTNBENCH_PROGRAM", program, 1) || setenv(started, "1", 1);
    free(folders);
    return failed ? -1 : 0;
}

void attn_functions_start(int argc, char **argv)
{
    char package[ATTN_PATH_MAX], beside[ATTN_PATH_MAX], why[256];
    struct attn_paths paths;
    if (!any_function(argc, argv) || getenv(started) || attn_paths_find(&paths, why, sizeof why) ||
        attn_path_join(package, paths.python, "attnbench/__main__.py") ||
        access(package, R_OK) != 0)
        return;
    char **words = calloc((size_t)argc + 3, sizeof *words);
    if (!words || set_variables(&paths)) {
        free(words);
        return;
    }
    const char *python = interpreter(&paths, beside);
    words[0] = (char *)python;
    words[1] = "-m";
    words[2] = "attnbench";
    for (int a = 1; a < argc; a++)
        words[a + 2] = argv[a];
    execv(python, words);
    free(words);
}
