/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - the command line: one table of verbs and one of options, which parsing, --help,
 * did-you-mean, the manual page and the shell completion all read. */
#ifndef ATTN_COMMAND_H
#define ATTN_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "report/compare.h"
#include "run/roster.h"
#include "run/session.h"
#include "run/suite.h"

enum { ATTN_ARGS_MAX = 256 };

struct attn_command;

struct attn_verb {
    const char *name;
    const char *arguments; /* "[CASES...]" */
    const char *summary;   /* one line */
    const char *details;   /* for --help: paragraphs; may be "" */
    enum attn_exit (*run)(struct attn_command *command, const struct attn_paths *paths);
};

/* One row is all there is to say of an option. */
struct attn_flag {
    const char *name;
    char letter;          /* of its short form; 0: none */
    const char *argument; /* NULL: takes none. "hot|cold": one of these; FILE, DIR and NAME[...] (a
                             backend) can be completed; anything else is only a word for people */
    unsigned verbs;       /* those that take it; see attn_flag_belongs */
    /* Puts what the option says into the command. text: its argument, which may be cut into parts,
     * or NULL. Returns ATTN_EXIT_OK, or ATTN_EXIT_USAGE with the message in (why, size). */
    enum attn_exit (*take)(const struct attn_flag *flag, char *text, struct attn_command *command,
                           char *why, size_t size);
    size_t at; /* offset in the command, for functions that put it wherever a row says */
    int most;  /* the largest number, for take_count */
    const char *help;
};

/* Everything a command line can say. Lists point into argv. */
struct attn_command {
    const struct attn_verb *verb;
    const char *arguments[ATTN_ARGS_MAX]; /* what is no option */
    size_t n_arguments;
    const char *backends[ATTN_ARGS_MAX], *plugins[ATTN_ARGS_MAX];
    size_t n_backends, n_plugins;
    const char *out, *junit;
    const char *baseline; /* of verify */
    double drift;
    struct attn_settings settings;
    struct attn_suite_wish suite;
    struct attn_compare_options compare;
    struct attn_report_options report;
    bool json, resume, dry_run, matrix, help;
};

extern const struct attn_verb attn_verbs[]; /* terminated by a NULL name */
enum { ATTN_FLAGS_MAX = 64 };
extern const struct attn_flag
    attn_flags[]; /* at most ATTN_FLAGS_MAX, with a NULL name at the end */

/* What the program is for, what CASES are, and what each exit code means: sentences of --help and
 * of the manual page. */
extern const char attn_purpose[], attn_about_cases[];
enum { ATTN_EXIT_CODES = ATTN_EXIT_BASELINE + 1 };
extern const char *const attn_exit_meanings[ATTN_EXIT_CODES];

bool attn_flag_belongs(const struct attn_flag *flag, const struct attn_verb *verb);

/* Fills *command from argv. Returns ATTN_EXIT_OK, or ATTN_EXIT_USAGE with the message in
 * (why, size). */
enum attn_exit attn_command_parse(int argc, char **argv, struct attn_command *command, char *why,
                                  size_t size);

/* Help of the whole program (verb NULL) or of one verb, on stdout. */
void attn_command_help(const struct attn_verb *verb);

/* "10m" "90s" "1h" "250ms" "90" (seconds). Returns -1 when it is no duration. */
double attn_duration_parse(const char *text);

/* Says one line on stderr, "attnbench: ..." and gives `code` back. */
enum attn_exit attn_complain(enum attn_exit code, const char *text);

/* A value on stdout, indented; takes the reference. */
void attn_print_json(json_t *value);

/* Records on stdout, one a line. */
void attn_print_records(const json_t *records);

/* Cases on stdout: their lines alone, a table with id and name, or JSON. */
enum attn_print { ATTN_PRINT_LINES, ATTN_PRINT_TABLE, ATTN_PRINT_JSON };
void attn_print_cases(const struct attn_case_list *cases, enum attn_print form);

/* Is the worker there; says on stderr why not. Returns 0 or -1. */
int attn_worker_check(const struct attn_paths *paths);

/* Backends and cases of a command into a session that the caller closes. */
enum attn_exit attn_session_begin(struct attn_command *command, const struct attn_paths *paths,
                                  struct attn_session *session);

/* How often each status occurred, on stdout. */
void attn_print_counts(const struct attn_session *session);

/* Every operator: inputs, outputs and keys, on stdout. */
enum attn_exit attn_list_ops(bool json);

enum attn_exit attn_verb_list(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_verify(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_bench(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_report(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_run(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_compare(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_doctor(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_new_backend(struct attn_command *command, const struct attn_paths *paths);

#endif
