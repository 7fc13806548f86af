/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - what all parts of one command share: its settings, backends and cases, where its
 * records go, and the exit code that they lead to. */
#ifndef ATTN_SESSION_H
#define ATTN_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "case/case.h"
#include "host/clock.h"
#include "results/journal.h"
#include "results/status.h"
#include "run/paths.h"
#include "run/roster.h"
#include "run/shard.h"

struct attn_settings {
    int threads;        /* of a backend */
    int host_threads;   /* of the reference and the fills */
    double timeout_s;   /* watchdog limit of one request */
    double budget_s;    /* for the whole command; 0: none */
    double run_limit_s; /* a run predicted to take longer is skip (budget) */
    bool strict, debug;
    bool all_checks;        /* strict: a check that the command line leaves out is missing, too */
    bool shrink;            /* shrink each failing case to the smallest that still fails */
    const char *reproducer; /* file for the first of these as a C program; NULL: none */
    unsigned fills;         /* bit f: try enum attn_fill f on a case of fill=normal, if it fits */
    unsigned checks;        /* bit k: try enum attn_check k, if it fits */
    int rounds, samples;
    double min_time_s;
    bool hot, cold;
    bool cold_asked;      /* by the command line: of all cases, though there is a budget */
    bool count;           /* bench: count instructions, too (count.h) */
    uint64_t memory;      /* bytes that a case and a worker may use; 0: what is available */
    uint64_t sample_seed; /* which rows are judged where not all are; plugins do not know it */
};

/* What came of drawing random cases (random_cases.h). */
struct attn_draws {
    size_t drawn, taken;
    char ended[64];    /* why there are not as many as were wanted; "": there are */
    char refusal[340]; /* "NAME: why" of the last refusal; "": there was none */
};

struct attn_session {
    struct attn_settings settings;
    const struct attn_paths *paths;
    struct attn_roster roster;
    struct attn_case_list cases;
    struct attn_shard shard; /* of the cases; index 0: all of them */
    struct attn_selection selection;
    struct attn_draws draws;
    char folder[ATTN_PATH_MAX];  /* of the run; "": none */
    struct attn_journal journal; /* results.ndjson; none without a folder */
    char log[ATTN_PATH_MAX];     /* of the workers; "": none */
    json_t *earlier;             /* with --resume: what is done (restore.h); NULL: nothing */
    json_t *records;             /* every record of this command, for tables and JUnit */
    double began;                /* attn_now() */
    double reserved_s;           /* of the budget, for cases that come later */
    int counts[ATTN_STATUS_COUNT];
    enum attn_exit code;
    bool reproduced; /* settings.reproducer has been written */
};

void attn_settings_default(struct attn_settings *settings);

/* The reasons of checks that the command line leaves out. */
#define ATTN_WHY_TEXT_FILLS  "left out by --fills"
#define ATTN_WHY_TEXT_CHECKS "left out by --checks"

/* The reason of a skip for lack of time begins with the first of these, that of a missing timing
 * with one of the others. */
#define ATTN_NO_TIME_LEFT    "budget: the time given is used up"
#define ATTN_TIME_USED_UP    "the time given is used up"
#define ATTN_WAS_INTERRUPTED "interrupted"

/* Is the budget used up, but for what is reserved? */
bool attn_session_over(const struct attn_session *session);

/* Is its shard without a case? */
bool attn_session_empty(const struct attn_session *session);

/* Counts a verdict (a record of type verify) and raises the exit code accordingly. A skip whose
 * field `expected` is true (budget, memory, missing device, a listed one) leaves the code. */
void attn_session_claim(struct attn_session *session, const json_t *record);

/* Appends a record to the file, keeps it, and counts it as attn_session_claim does. Takes the
 * reference. Returns 0, or -1 with errno. */
int attn_session_record(struct attn_session *session, json_t *record);

/* Makes the run folder, and its journal with `run` as the first line (provenance.h), of which it
 * takes the reference. taken: what the message advises if the folder holds a run. Returns 0, or -1
 * with the reason. */
int attn_session_create(struct attn_session *session, const char *folder, json_t *run,
                        const char *taken, char *why, size_t size);

/* The paths of a run folder, which is made if needed. resume.h continues a run. */
int attn_session_folder(struct attn_session *session, const char *folder,
                        char results[ATTN_PATH_MAX], char *why, size_t size);

/* Marks that all work of the command is done. Returns 0, or -1 with the reason. */
int attn_session_end(struct attn_session *session, char *why, size_t size);

/* Writes a file of JSON into the run folder, in the place of an older one (results/replace.h).
 * Takes the reference; flags are those of jansson. Returns 0, or -1 with the reason. */
int attn_session_write(const struct attn_session *session, json_t *value, const char *name,
                       size_t flags, char *why, size_t size);

void attn_session_close(struct attn_session *session);

/* Set by the main program's handler of SIGINT and SIGTERM: stop between two requests. */
extern volatile int attn_interrupted;

#endif
