/* SPDX-License-Identifier: Apache-2.0 */
/* age.c - runs by the hundred on a tiny case, and a plan that grows old beside other checks.
 *
 * A kernel may count its runs, or look at the time, in a plan or in the process. Four hundred runs
 * of a tiny case cost milliseconds even where a run of the case itself takes a second. */
#include "run/age.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "explain/examine.h"
#include "pack/twin.h"
#include "run/renew.h"
#include "run/smaller.h"
#include "run/verify_one.h"

enum { RUNS = 400 };
/* As many runs as fit into this processor time. */
static const double runs_s = 1;
/* The least age of the plan that stays. */
static const double old_s = 2;
/* Where the tiny case is refused, cases with up to so many bytes of operands take its place. */
static const double most_bytes = 0x1p23;
/* Multiply-adds of the reference. */
static const double budget = 1e7;

static void fail(struct attn_entry *entry, const struct attn_case *c, enum attn_status status,
                 const char *when, const char *reason)
{
    char text[128], line[ATTN_CASE_LINE_MAX];
    attn_case_canonical(c, line, sizeof line);
    snprintf(text, sizeof text, "a plan of '%.80s' %s", line, when);
    attn_renew_fail(entry, status, text, reason);
}

/* Judges the outputs in the instance of a judge. */
static void judge_run(struct attn_entry *entry, const struct attn_case *c, struct attn_judge *judge,
                      const struct attn_numerics *numerics, const char *when)
{
    struct attn_judgement verdict;
    attn_examine_outputs(judge, numerics, false, &verdict);
    entry->verdict.delta += verdict.delta;
    if (!attn_judgement_holds(verdict.status))
        fail(entry, c, verdict.status, when, verdict.reason);
}

/* Has this operator, score and type been asked about? Notes it. */
static bool is_known(struct attn_seat *seat, const struct attn_problem *p)
{
    const struct attn_seat_kind key = {p->op, p->score, p->dtype};
    for (size_t k = 0; k < seat->n_ages; k++)
        if (memcmp(&seat->ages[k], &key, sizeof key) == 0)
            return true;
    struct attn_seat_kind *grown = realloc(seat->ages, (seat->n_ages + 1) * sizeof *grown);
    if (grown) { /* else it is asked about again */
        seat->ages = grown;
        seat->ages[seat->n_ages++] = key;
    }
    return false;
}

/* Runs a plan of the case many times, then with other inputs. SKIP: the backend refuses the case,
 * or there is no memory for it. The plan stays if `keep`. */
static enum attn_status run_many(struct attn_session *session, struct attn_seat *seat,
                                 struct attn_entry *entry, struct attn_seat_plan *age, bool keep)
{
    char why[256];
    struct attn_judgement none;
    struct attn_plan_info info;
    struct attn_judge *judge = NULL;
    struct attn_instance *twin = NULL;
    const int threads = session->settings.host_threads;
    struct attn_outcome outcome = {.status = ATTN_SKIP};
    age->instance = attn_instance_for(session, &age->c, &none);
    if (!age->instance || attn_twin_create(age->instance, true, threads, &twin, why, sizeof why) ||
        attn_judge_create(age->instance, budget, threads, &age->judge, why, sizeof why) ||
        attn_judge_create(twin, budget, threads, &judge, why, sizeof why))
        goto out;
    outcome = attn_seat_worker(seat);
    if (outcome.status != ATTN_PASS)
        goto out;
    outcome = attn_worker_renew(seat->worker, age->instance, twin, RUNS, runs_s, keep, &info);
    attn_seat_after(seat, &outcome);
    age->since = attn_now();
    age->numerics = info.numerics;
    if (outcome.status == ATTN_PASS)
        judge_run(entry, &age->c, judge, &info.numerics, "after some hundred runs");
    else if (outcome.status != ATTN_SKIP && !attn_interrupted)
        fail(entry, &age->c, outcome.status, "run some hundred times", outcome.reason);
out:
    attn_judge_free(judge);
    attn_instance_free(twin);
    return outcome.status;
}

/* The tiny case, or a copy of the case itself. 0, or -1. */
static int choose_case(const struct attn_entry *entry, bool itself, struct attn_case *c)
{
    struct attn_case plain = *entry->c; /* nothing in the copy is owned */
    plain.fill = ATTN_FILL_NORMAL;
    if (!itself)
        return attn_smaller_tiny(&plain, c);
    return entry->seconds < runs_s && (double)attn_case_bytes(&plain) <= most_bytes
               ? attn_case_copy(c, &plain)
               : -1;
}

static void begin(struct attn_session *session, struct attn_seat *seat, struct attn_entry *entry,
                  bool keep)
{
    enum attn_status status = ATTN_SKIP;
    for (int itself = 0; itself < 2 && status == ATTN_SKIP; itself++) {
        struct attn_seat_plan *age = calloc(1, sizeof *age);
        if (!age || choose_case(entry, itself, &age->c) != 0) {
            free(age);
            continue;
        }
        status = run_many(session, seat, entry, age, keep);
        if (keep && status == ATTN_PASS && attn_judgement_holds(entry->verdict.status))
            seat->age = age;
        else
            attn_seat_plan_free(age);
    }
}

void attn_age_begin(struct attn_session *session, struct attn_seat *seats,
                    struct attn_entry *entries)
{
    const struct attn_settings *s = &session->settings;
    /* bench judges the runs that it times, and has no other use for a plan that is seconds old */
    const bool keeps = s->all_checks;
    if (keeps && !(s->checks >> ATTN_CHECK_NEW_DATA & 1))
        return;
    for (size_t b = 0; b < session->roster.count && !attn_interrupted; b++) {
        struct attn_seat *seat = &seats[b];
        if (!attn_renew_may(&entries[b]) || entries[b].c->data || attn_session_over(session))
            continue;
        const bool keep = keeps && !seat->age && !seat->age_done;
        const struct attn_case *c = entries[b].c;
        const struct attn_problem key = {.op = c->op, .score = c->score, .dtype = c->dtype};
        if (!is_known(seat, &key) || keep)
            begin(session, seat, &entries[b], keep);
    }
}

static void wait_until(double when)
{
    for (double left; (left = when - attn_now()) > 0 && !attn_interrupted;)
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * fmin(left, 0.1))}, NULL);
}

void attn_age_end(struct attn_session *session, struct attn_seat *seats, struct attn_entry *entries,
                  bool last)
{
    for (size_t b = 0; b < session->roster.count; b++) {
        struct attn_seat *seat = &seats[b];
        struct attn_seat_plan *age = seat->age;
        const bool holds = attn_judgement_holds(entries[b].verdict.status);
        const bool skipped = entries[b].verdict.status == ATTN_SKIP;
        /* The verdict should be that of a case that holds so far. */
        if (!age || (last ? !holds && !skipped : !holds || attn_now() < age->since + old_s))
            continue;
        wait_until(age->since + old_s);
        if (attn_interrupted)
            return;
        seat->age = NULL;
        const struct attn_outcome outcome = attn_worker_aged(seat->worker, age->instance);
        attn_seat_after(seat, &outcome);
        seat->age_done = outcome.status != ATTN_SKIP;
        if (outcome.status == ATTN_PASS)
            judge_run(&entries[b], &age->c, age->judge, &age->numerics, "two seconds later");
        else if (outcome.status != ATTN_SKIP && !attn_interrupted)
            fail(&entries[b], &age->c, outcome.status, "run two seconds later", outcome.reason);
        attn_seat_plan_free(age);
    }
}
