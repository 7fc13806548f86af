/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the host program: from a command line to an exit code. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "host/confine.h"
#include "results/record.h"
#include "run/version.h"

/* A signal to a job's processes often arrives twice: sent to all of them, and passed on by a shell
 * or launcher that got it, too. Nobody who waits for the program asks again that soon. */
static const double same_signal_s = 1;

/* The first signal stops the command between two requests and is passed on to the workers; a later
 * one ends the program at once. All that is called is async-signal-safe: NOLINTBEGIN */
static void on_signal(int number)
{
    static double first;
    if (attn_interrupted && attn_now() - first > same_signal_s) {
        signal(number, SIG_DFL);
        raise(number);
    }
    if (!attn_interrupted)
        first = attn_now();
    attn_interrupted = number;
    attn_workers_forward(number);
}
/* NOLINTEND */

static void install_handlers(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit is an error like a full disk */
}

/* Commands that go on with --resume say so themselves. */
static void say_interrupted(const struct attn_command *c, enum attn_exit code)
{
    if (c->verb->run != attn_verb_bench && c->verb->run != attn_verb_run)
        attn_complain(code, "interrupted: what there is was printed");
}

/* Fills closed ones among descriptors 0 to 2, so that no file of ours gets their number, and with
 * it what is printed. They are opened the wrong way round: what is printed to one still fails. */
static int fill_closed(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return -1;
    return 0;
}

/* In one log with stderr, lines of both stay whole and in order. */
static void keep_lines_whole(void)
{
    struct stat out, err;
    if (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
        out.st_dev == err.st_dev && out.st_ino == err.st_ino)
        setvbuf(stdout, NULL, _IOLBF, 0);
}

/* The exit code, unless what was printed did not arrive. */
static enum attn_exit check_printed(enum attn_exit code)
{
    if (fflush(stdout) || ferror(stdout))
        return attn_complain(ATTN_EXIT_INTERNAL, "standard output cannot be written");
    return code;
}

int main(int argc, char **argv)
{
    struct attn_command command;
    struct attn_paths paths;
    char why[1024];
    if (fill_closed())
        return ATTN_EXIT_INTERNAL;
    keep_lines_whole();
    attn_functions_start(argc, argv);
    enum attn_exit code = attn_command_parse(argc, argv, &command, why, sizeof why);
    if (code)
        return (int)attn_complain(code, why);
    if (command.version) {
        printf("attnbench " ATTNBENCH_VERSION " (" ATTNBENCH_COMMIT "), " ATTNBENCH_BUILD
               ", " ATTNBENCH_COMPILER "\n");
        return (int)check_printed(ATTN_EXIT_OK);
    }
    if (command.help) {
        attn_command_help(command.verb);
        return (int)check_printed(argc < 2 ? ATTN_EXIT_USAGE : ATTN_EXIT_OK);
    }
    if (attn_paths_find(&paths, why, sizeof why))
        return (int)attn_complain(ATTN_EXIT_INTERNAL, why);
    install_handlers();
    attn_confine_choose((enum attn_confine)command.confine[0]);
    code = command.verb->run(&command, &paths);
    code = check_printed(code);
    if (code == ATTN_EXIT_OK && attn_json_refusals() > 0)
        code = attn_complain(ATTN_EXIT_INTERNAL,
                             "no memory for all of the output: it lacks something");
    if (attn_interrupted) {
        say_interrupted(&command, code);
        signal(attn_interrupted, SIG_DFL);
        raise(attn_interrupted);
    }
    return (int)code;
}
