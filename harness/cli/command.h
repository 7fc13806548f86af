/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - the command line: one table of verbs and one of options. Parsing, --help,
 * did-you-mean, the manual page and the shell completion all read them. */
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

/* An option. Everything about it is in one row. */
struct attn_flag {
    const char *name;
    char letter;          /* of its short form; 0: none */
    const char *argument; /* NULL: none. "hot|cold": one of these; FILE, DIR and NAME[...] (a
                             backend) can be completed; anything else is only for people */
    unsigned verbs;       /* the verbs that accept it; see attn_flag_belongs */
    /* Stores the option in the command. text: its argument, which `take` may cut into parts, or
     * NULL. Returns ATTN_EXIT_OK, or ATTN_EXIT_USAGE with the message in (why, size). */
    enum attn_exit (*take)(const struct attn_flag *flag, char *text, struct attn_command *command,
                           char *why, size_t size);
    size_t at; /* offset in the command, for functions that store at any offset */
    int most;  /* the largest number, for take_count */
    const char *help;
};

/* Everything a command line can say. Lists point into argv. */
struct attn_command {
    const struct attn_verb *verb;
    const char *arguments[ATTN_ARGS_MAX]; /* everything except options */
    size_t n_arguments;
    const char *backends[ATTN_ARGS_MAX], *plugins[ATTN_ARGS_MAX];
    size_t n_backends, n_plugins;
    const char *out, *junit;
    const char *baseline;  /* of verify */
    const char *against;   /* of report */
    const char *within;    /* of compare: the run that both backends are in */
    const char *index;     /* of history */
    const char *language;  /* of new-backend */
    const char *format;    /* of export */
    const char *statement; /* of verify */
    const char *name;      /* of import */
    double drift;
    double pair_s;      /* of compare --live */
    double calibrate_s; /* of doctor --calibrate */
    int confine[2];     /* enum attn_confine, of host/confine.h; of B with --live, if it is not 0 */
    struct attn_settings settings;
    struct attn_suite_wish suite;
    struct attn_compare_options compare;
    struct attn_report_options report;
    bool json, resume, salvage, rows, dry_run, matrix, live, calibrate, help, version;
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
/* Of SIGINT, as a shell reports it. */
#define ATTN_EXIT_INTERRUPTED "what there is was printed; --resume goes on"

bool attn_flag_belongs(const struct attn_flag *flag, const struct attn_verb *verb);

/* Fills *command from argv. Returns ATTN_EXIT_OK, or ATTN_EXIT_USAGE with the message in
 * (why, size). */
enum attn_exit attn_command_parse(int argc, char **argv, struct attn_command *command, char *why,
                                  size_t size);

/* Help of the whole program (verb NULL) or of one verb, on stdout. */
void attn_command_help(const struct attn_verb *verb);

/* Prints one line on stderr, "attnbench: ...", and returns `code`. */
enum attn_exit attn_complain(enum attn_exit code, const char *text);

/* The last line of a comparison with one of the codes 3 to 5, or 6 where it timed something itself;
 * nothing for the others, of which something was said. Returns `code`. */
enum attn_exit attn_complain_compared(enum attn_exit code, bool live);

/* Reads a run, with --salvage as the command says. ATTN_EXIT_OK, or the code of what was complained
 * about. */
enum attn_exit attn_command_read(const struct attn_command *c, const char *path,
                                 struct attn_run_data *run);

/* Prints a value on stdout, indented. Takes the reference. */
void attn_print_json(json_t *value);

/* Prints records on stdout, one per line. */
void attn_print_records(const json_t *records);

/* Prints cases on stdout: only their lines, a table with id and name, or JSON. */
enum attn_print { ATTN_PRINT_LINES, ATTN_PRINT_TABLE, ATTN_PRINT_JSON };
void attn_print_cases(const struct attn_case_list *cases, enum attn_print form);

/* Says on stderr how many of the `of` cases are in the shard, if there is one. */
void attn_shard_note(const struct attn_shard *shard, size_t cases, size_t of);

/* Says on stderr how many random cases were drawn and how many passed over, if any were, and why
 * they are fewer than wanted. */
void attn_print_draws(const struct attn_draws *draws);

/* For FILE.py::FUNCTION on the command line: starts this program again by the Python package, which
 * knows functions. Returns if there is none, or nothing could be started, or the package has
 * started this program. */
void attn_functions_start(int argc, char **argv);

/* Can the worker be run? If not, says why on stderr. Returns 0 or -1. */
int attn_worker_check(const struct attn_paths *paths);

/* Loads the backends and cases of a command into a session. The caller closes it. */
enum attn_exit attn_session_begin(struct attn_command *command, const struct attn_paths *paths,
                                  struct attn_session *session);

/* Prints how often each status occurred, on stdout. */
void attn_print_counts(const struct attn_session *session);

/* A terminal's width where it cannot be asked for. */
#define ATTN_COLUMNS 80

/* The width of lines on stdout: COLUMNS if it is set, else the terminal's, else `otherwise`. */
int attn_terminal_columns(int otherwise);

/* Writes the report of a run. `out`: NULL for the folder report of the run. */
enum attn_exit attn_report_of(const struct attn_command *command, const char *run, const char *out,
                              const struct attn_paths *paths);

/* Prints the inputs, outputs and keys of every operator on stdout. */
enum attn_exit attn_list_ops(bool json);

/* Calibrates with the backend of -b, or the first of the roster that can. Prints the result, or
 * with
 * --json sets *result, which is the caller's. */
enum attn_exit attn_doctor_calibrate(const struct attn_command *command,
                                     const struct attn_paths *paths,
                                     const struct attn_roster *roster, json_t **result);

enum attn_exit attn_verb_list(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_verify(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_bench(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_report(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_run(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_compare(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_compare_live(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_doctor(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_new_backend(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_merge(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_history(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_export(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_statement(struct attn_command *command, const struct attn_paths *paths);
enum attn_exit attn_verb_import(struct attn_command *command, const struct attn_paths *paths);

#endif
