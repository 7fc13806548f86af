/* SPDX-License-Identifier: Apache-2.0 */
/* gnuplot.c - starts gnuplot on a definitions file and a script: no shell, no pipe. */
#include "report/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Waits for the child, and kills it at the limit. A look every few milliseconds: a picture takes
 * hundreds of them. */
static int wait_for(pid_t child, double limit_s)
{
    const struct timespec nap = {.tv_nsec = 5000000};
    struct timespec start, now;
    int status;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : ATTN_GNUPLOT_SIGNAL + WTERMSIG(status);
        if (ended < 0 && errno != EINTR)
            return -1;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec) >
            limit_s)
            break;
        nanosleep(&nap, NULL);
    }
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    errno = ETIMEDOUT;
    return -1;
}

/* Removes what lies where gnuplot is going to write: it would follow a link, and an old picture
 * could pass for a new one. */
static void make_room(const char *folder, const char *name)
{
    static const char *const ends[] = {"svg", "png"};
    enum { GRIDS = 10 }; /* of a heat-map at most */
    char path[4608];
    snprintf(path, sizeof path, "%s/%s.log", folder, name);
    unlink(path);
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        snprintf(path, sizeof path, "%s/%s.%s", folder, name, ends[e]);
        unlink(path);
        for (int grid = 0; grid < GRIDS; grid++) {
            snprintf(path, sizeof path, "%s/%s_%d.%s", folder, name, grid, ends[e]);
            unlink(path);
        }
    }
}

/* As a command of gnuplot: in single quotes only these themselves are special, and at the start a
 * tilde. Returns false if there is no room. */
static bool say_folder(const char *folder, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "cd '%s", *folder == '/' ? "" : "./");
    for (; *folder && n + 4 < size; folder++) {
        if (*folder == '\'')
            text[n++] = '\'';
        text[n++] = *folder;
    }
    snprintf(text + n, size - n, "'");
    return !*folder;
}

int attn_gnuplot_run(const char *folder, const char *name, const char *script, double limit_s)
{
    char definitions[80], log[4608], arg_folder[9216];
    snprintf(definitions, sizeof definitions, "%s.def.gp", name);
    if (snprintf(log, sizeof log, "%s/%s.log", folder, name) >= (int)sizeof log ||
        !say_folder(folder, arg_folder, sizeof arg_folder)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    char arg_program[] = "gnuplot", arg_default[] = "-d", arg_command[] = "-e", arg_script[32];
    snprintf(arg_script, sizeof arg_script, "%s", script);
    char *const argv[] = {arg_program, arg_default, arg_command, arg_folder,
                          definitions, arg_script,  NULL};
    make_room(folder, name);
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = posix_spawn_file_actions_init(&actions);
    if (status != 0) {
        errno = status;
        return -1;
    }
    /* One that found no memory is missing. */
    if ((status = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)) == 0 &&
        (status = posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC,
                                                   0644)) == 0 &&
        (status = posix_spawn_file_actions_adddup2(&actions, 1, 2)) == 0)
        status = posix_spawnp(&child, arg_program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (status != 0) {
        errno = status;
        return -1;
    }
    return wait_for(child, limit_s);
}
