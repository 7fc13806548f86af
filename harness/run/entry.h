/* SPDX-License-Identifier: Apache-2.0 */
/* entry.h - one case on one backend: what is known about it, and the records made from that. */
#ifndef ATTN_ENTRY_H
#define ATTN_ENTRY_H

#include <jansson.h>
#include <stdbool.h>

#include "explain/power.h"
#include "host/worker.h"
#include "judge/judge.h"
#include "results/statistics.h"
#include "run/checks.h"
#include "run/session.h"

enum { ATTN_ROUNDS_MAX = 1000 };
enum attn_cache { ATTN_HOT, ATTN_COLD, ATTN_CACHES };

/* Samples of one round, as bench_reply gave them. */
struct attn_round {
    int n;
    double samples_ns[ATTN_SAMPLES_MAX];
    double cpu_ns; /* the least processor time of the samples; 0: unknown */
};

/* The least of n values, but those that are 0: unknown. 0: none is known. */
double attn_least_known(const double *values, size_t n);

/* Why a check that fits a case was not made (account.h). */
enum attn_why {
    ATTN_WHY_NONE,
    ATTN_WHY_FILLS,
    ATTN_WHY_CHECKS,
    ATTN_WHY_BUDGET,
    ATTN_WHY_MEMORY,
    ATTN_WHY_SLOW,
    ATTN_WHY_FAILED,
    ATTN_WHY_INTERRUPTED,
    ATTN_WHY_WORKER,
    ATTN_WHY_REFUSED_SMALLER,
    ATTN_WHY_REFUSED, /* so it does not apply to this backend */
    ATTN_WHY_COUNT
};
enum { ATTN_PARTS_MAX = 64 };

struct attn_entry {
    const struct attn_case *c;
    const struct attn_contestant *contestant;
    char id[ATTN_CASE_ID_LEN + 1];

    /* from verification */
    bool verified;           /* a verdict was reached */
    bool restored;           /* by an earlier command, whose records are taken over (restore.h) */
    bool finished;           /* nothing of it is left to be timed */
    enum attn_status hidden; /* its status, while checks of others are made */
    bool harmless;           /* a skip that never counts */
    struct attn_judgement verdict;
    struct attn_plan_info plan;
    bool end_ok, start_ok, end_done, start_done; /* the two placements */
    unsigned fills_done, fills_ok;               /* bit f: enum attn_fill f was tried, held */
    unsigned checks_done, checks_ok;             /* bit k: enum attn_check k was tried, held */
    uint64_t sample_seed;                        /* of the session */
    enum attn_fill fill;                         /* the fill that failed, if not the case's own */
    unsigned char missed[ATTN_PARTS_MAX]; /* enum attn_why of each part of account.h; 0: it was
                                             made, or does not apply */
    struct attn_case *smaller; /* the case on which checks were made that cost too much on `c`;
                                  NULL: none. Owned (attn_entry_clear) */
    struct attn_power power;   /* mistakes that the verdict would have refused */
    bool failed_smaller;       /* it failed on that case */
    bool stands_in;            /* `c` is such a smaller case */
    struct ref_approximation approximation; /* of the case; 0 rows: none */
    double seconds;                         /* fastest run seen */
    double verifying_s; /* wall clock; work shared by a case's backends counts for the first */
    bool kept;          /* its weights are in the run folder */
    char *smallest;     /* repro line of the shrunk case; attn_verify_finish frees it */

    const json_t *promised; /* numerics in the record of an earlier command; NULL: none */

    /* from timing */
    bool broke_timed;                       /* the verdict was reached while timed */
    bool timed;                             /* still taking part; cleared by a failure */
    bool enough;                            /* no more rounds: there is no time for them */
    struct attn_round *rounds[ATTN_CACHES]; /* [settings.rounds] or NULL */
    int n_rounds[ATTN_CACHES];
    /* wall clock of all rounds: in workers, and for judging the results */
    double timing_s[ATTN_CACHES], judging_s[ATTN_CACHES];
    bool benched[ATTN_CACHES];  /* its record is written */
    bool peak_done, count_done; /* the measurement is recorded */
    bool peak_known;
    uint64_t peak_bytes, taken_bytes; /* taken: of a device (attn_worker_peak) */
    struct attn_device device;        /* after the last timing; struct_size 0: unknown */
    char peak_reason[256];
    uint64_t instructions;  /* of one run, 0: not counted */
    char count_reason[256]; /* why not */
    int64_t nnz;
    double flops;
    uint64_t bytes;
    double harness_ns; /* cost of the harness itself on this case; 0: not measured */
};

#define ATTN_OTHER_NUMERICS "declares other numerics than when it was verified"

/* After a timing, whose plan has taken the place of `verified` in the entry: puts the numerics that
 * were verified back. A timing must meet the bound that the verdict is about, whatever its own plan
 * declares. False: an earlier command has verified, and its record has other numerics. */
bool attn_entry_keep_numerics(struct attn_entry *entry, const struct attn_plan_info *verified);

/* Was the case itself judged on some of its rows only? */
bool attn_entry_sampled(const struct attn_entry *entry);

/* Frees what an entry owns besides its rounds. */
void attn_entry_clear(struct attn_entry *entry);

/* The case, with its fill, on which an entry has failed. Nothing in the copy is owned. */
struct attn_case attn_entry_failed_case(const struct attn_entry *entry);

/* The line that reruns the entry, quoted for a shell: "attnbench verify -b NAME 'case'", or bench
 * for a fault that only a timing shows. */
enum { ATTN_REPRO_MAX = ATTN_CASE_LINE_MAX + 2 * ATTN_PATH_MAX };
void attn_entry_repro(const struct attn_entry *entry, int threads, char *text, size_t size);

/* Figures of the rounds of one cache state; false if there are none. */
bool attn_entry_summary(const struct attn_entry *entry, enum attn_cache cache,
                        struct attn_summary *summary);

/* Records (harness/results/README.md lists the fields). NULL: no memory. */
json_t *attn_verify_record(const struct attn_entry *entry, const struct attn_session *session);
struct attn_round_seconds {
    double timing, judging; /* of this round: in the worker; judging the outputs */
};
json_t *attn_round_record(const struct attn_entry *entry, const struct attn_session *session,
                          enum attn_cache cache, int round, const struct attn_bench_reply *reply,
                          struct attn_round_seconds seconds);
/* The fields of every record, with a type of its own. */
json_t *attn_common_record(const char *type, const struct attn_entry *entry,
                           const struct attn_session *session);
json_t *attn_peak_record(const struct attn_entry *entry, const struct attn_session *session);
json_t *attn_count_record(const struct attn_entry *entry, const struct attn_session *session);
json_t *attn_bench_record(const struct attn_entry *entry, const struct attn_session *session,
                          enum attn_cache cache);

/* Says why there is no timing of a case that was verified. */
json_t *attn_untimed_record(const struct attn_entry *entry, const struct attn_session *session,
                            const char *reason);

/* The name of an enum attn_exactness: "exact", "approximate" or "none". */
const char *attn_exactness_name(uint32_t exactness);

#endif
