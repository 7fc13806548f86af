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
/* Growth of memory is looked for twice for this long, in processor time. */
static const double growth_s = 0.15;
/* Multiply-adds of the reference. */
static const double budget = 1e7;

static void fail(struct attn_entry *entry, enum attn_check check, const struct attn_case *c,
                 enum attn_status status, const char *when, const char *reason)
{
    char line[ATTN_CASE_LINE_MAX];
    const unsigned bit = 1u << check;
    attn_case_canonical(c, line, sizeof line);
    entry->checks_done |= bit;
    entry->checks_ok &= ~bit;
    entry->verdict.status = status;
    snprintf(entry->verdict.reason, sizeof entry->verdict.reason,
             "%s: a plan of '%.80s'%s%s: %.320s", attn_check_name(check), line, *when ? " " : "",
             when, reason);
}

/* Has this operator, score and type been asked about? */
static bool is_known(const struct attn_seat *seat, const struct attn_seat_age *kind)
{
    for (size_t k = 0; k < seat->n_ages; k++)
        if (memcmp(&seat->ages[k], kind, sizeof *kind) == 0)
            return true;
    return false;
}

static void note(struct attn_seat *seat, const struct attn_seat_age *kind)
{
    struct attn_seat_age *grown =
        is_known(seat, kind) ? NULL : realloc(seat->ages, (seat->n_ages + 1) * sizeof *grown);
    if (!grown) /* then it is asked about again */
        return;
    seat->ages = grown;
    seat->ages[seat->n_ages++] = *kind;
}

/* Is a first run on the case right? */
static bool is_right_at_once(struct attn_seat *seat, const struct attn_seat_plan *age)
{
    struct attn_plan_info info;
    struct attn_judgement verdict;
    double seconds;
    const struct attn_outcome outcome =
        attn_worker_verify(seat->worker, age->instance, ATTN_PLACE_END, 1, &info, &seconds);
    attn_seat_after(seat, &outcome);
    if (outcome.status != ATTN_PASS)
        return false;
    attn_examine_outputs(age->judge, &info.numerics, false, &verdict);
    return attn_status_holds(verdict.status);
}

/* How a plan of a case is run. */
struct ageing {
    struct attn_session *session;
    struct attn_seat *seat;
    struct attn_entry *entry; /* receives a failure */
    bool many;                /* not for growth alone */
    bool keep;                /* the plan stays */
    bool early;
};

/* Runs a plan many times, then with the inputs of a twin. SKIP: the backend refuses the case. FAIL
 * without a failure in the entry: it is early, and a first run is wrong already. */
static enum attn_status run_many(const struct ageing *how, struct attn_seat_plan *age,
                                 struct attn_instance *twin, struct attn_judge *judge)
{
    struct attn_judgement verdict;
    struct attn_plan_info info;
    struct attn_outcome outcome = attn_seat_worker(how->seat);
    if (outcome.status != ATTN_PASS)
        return ATTN_SKIP;
    outcome =
        attn_worker_renew(how->seat->worker, age->instance, twin, RUNS, runs_s, how->keep, &info);
    attn_seat_after(how->seat, &outcome);
    age->since = attn_now();
    age->numerics = info.numerics;
    if (outcome.status == ATTN_SKIP || attn_interrupted)
        return ATTN_SKIP;
    if (outcome.status != ATTN_PASS) {
        fail(how->entry, ATTN_CHECK_NEW_DATA, &age->c, outcome.status, "run some hundred times",
             outcome.reason);
        return ATTN_PASS;
    }
    attn_examine_outputs(judge, &info.numerics, false, &verdict);
    how->entry->verdict.delta += verdict.delta;
    if (attn_status_holds(verdict.status))
        return ATTN_PASS;
    if (how->early && !is_right_at_once(how->seat, age))
        return ATTN_FAIL;
    fail(how->entry, ATTN_CHECK_NEW_DATA, &age->c, verdict.status, "after some hundred runs",
         verdict.reason);
    return ATTN_PASS;
}

/* Makes the inputs and their twin, and what judges them. */
static enum attn_status run_case(const struct ageing *how, struct attn_seat_plan *age)
{
    char why[256];
    struct attn_judgement none;
    struct attn_judge *judge = NULL;
    struct attn_instance *twin = NULL;
    enum attn_status status = ATTN_SKIP;
    const int threads = how->session->settings.host_threads;
    age->instance = attn_instance_for(how->session, &age->c, NULL, &none);
    if (age->instance &&
        attn_twin_create(age->instance, true, threads, &twin, why, sizeof why) == 0 &&
        attn_judge_create(age->instance, budget, threads, &age->judge, why, sizeof why) == 0 &&
        attn_judge_create(twin, budget, threads, &judge, why, sizeof why) == 0)
        status = how->many ? run_many(how, age, twin, judge) : ATTN_PASS;
    attn_judge_free(judge);
    attn_instance_free(twin);
    return status;
}

/* Does memory grow with plans or runs? */
static void find_growth(const struct ageing *how, const struct attn_seat_plan *age)
{
    struct attn_outcome outcome = attn_seat_worker(how->seat);
    if (outcome.status != ATTN_PASS || !attn_seat_once(how->seat, &age->instance->problem))
        return;
    outcome = attn_worker_growth(how->seat->worker, age->instance, growth_s);
    attn_seat_after(how->seat, &outcome);
    if (outcome.status != ATTN_PASS && outcome.status != ATTN_SKIP && !attn_interrupted)
        fail(how->entry, ATTN_CHECK_LEAKS, &age->c, outcome.status, "", outcome.reason);
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

static enum attn_status begin(const struct ageing *how)
{
    enum attn_status status = ATTN_SKIP;
    for (int itself = 0; itself < 2 && status == ATTN_SKIP; itself++) {
        struct attn_seat_plan *age = calloc(1, sizeof *age);
        if (!age || choose_case(how->entry, itself, &age->c) != 0) {
            free(age);
            continue;
        }
        status = run_case(how, age);
        const bool holds = status == ATTN_PASS && attn_status_holds(how->entry->verdict.status);
        if (holds && how->session->settings.checks >> ATTN_CHECK_LEAKS & 1)
            find_growth(how, age);
        if (holds && how->keep && how->seat->worker)
            how->seat->age = age;
        else
            attn_seat_plan_free(age);
    }
    return status;
}

void attn_age_begin(struct attn_session *session, struct attn_seat *seats,
                    struct attn_entry *entries, bool early)
{
    const struct attn_settings *s = &session->settings;
    /* bench judges the runs that it times, and has no other use for a plan that is seconds old */
    const bool keeps = s->all_checks, many = !keeps || s->checks >> ATTN_CHECK_NEW_DATA & 1;
    if (!many && !(s->checks >> ATTN_CHECK_LEAKS & 1))
        return;
    for (size_t b = 0; b < session->roster.count && !attn_interrupted; b++) {
        struct attn_seat *seat = &seats[b];
        if (!attn_renew_may(&entries[b]) || entries[b].c->data || attn_session_over(session))
            continue;
        const struct attn_case *c = entries[b].c;
        const struct attn_seat_age kind = {c->op, c->score, c->dtype};
        const bool keep = keeps && many && !seat->age && !seat->age_done;
        const struct ageing how = {session, seat, &entries[b], many, keep, early};
        if ((!is_known(seat, &kind) || keep) && begin(&how) != ATTN_FAIL)
            note(seat, &kind);
    }
}

static void wait_until(double when)
{
    for (double left; (left = when - attn_now()) > 0 && !attn_interrupted;)
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * fmin(left, 0.1))}, NULL);
}

static void judge_old(struct attn_seat *seat, struct attn_seat_plan *age, struct attn_entry *entry)
{
    struct attn_judgement verdict;
    const struct attn_outcome outcome = attn_worker_aged(seat->worker, age->instance);
    attn_seat_after(seat, &outcome);
    seat->age_done = outcome.status != ATTN_SKIP;
    if (outcome.status == ATTN_SKIP || attn_interrupted)
        return;
    if (outcome.status != ATTN_PASS) {
        fail(entry, ATTN_CHECK_NEW_DATA, &age->c, outcome.status, "run two seconds later",
             outcome.reason);
        return;
    }
    attn_examine_outputs(age->judge, &age->numerics, false, &verdict);
    entry->verdict.delta += verdict.delta;
    if (!attn_status_holds(verdict.status))
        fail(entry, ATTN_CHECK_NEW_DATA, &age->c, verdict.status, "two seconds later",
             verdict.reason);
}

void attn_age_end(struct attn_session *session, struct attn_seat *seats, struct attn_entry *entries,
                  bool last)
{
    for (size_t b = 0; b < session->roster.count; b++) {
        struct attn_seat *seat = &seats[b];
        struct attn_seat_plan *age = seat->age;
        const bool holds = attn_status_holds(entries[b].verdict.status);
        const bool skipped = entries[b].verdict.status == ATTN_SKIP;
        /* The verdict should be that of a case that holds so far. */
        if (!age || (last ? !holds && !skipped : !holds || attn_now() < age->since + old_s))
            continue;
        wait_until(age->since + old_s);
        if (attn_interrupted)
            return;
        seat->age = NULL;
        judge_old(seat, age, &entries[b]);
        attn_seat_plan_free(age);
    }
}
