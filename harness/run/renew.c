/* SPDX-License-Identifier: Apache-2.0 */
/* renew.c - a twin of the case in its place, on backend after backend. */
#include "run/renew.h"

#include <math.h>
#include <string.h>

#include "explain/examine.h"
#include "host/memory.h"
#include "pack/twin.h"
#include "run/account.h"
#include "run/verify_one.h"

/* Multiply-adds of the reference: whole answers of small cases, a sample of large ones. */
static const double budget = 3e7;
/* Backends whose run takes longer are asked on a smaller case (further.c). */
static const double most_s = 1.0;
/* Runs before the inputs change: as many as fit into the first time. A backend's first cases may
 * use more, the second time together. (age.c runs a plan some hundred times, on a tiny case.) */
static const double runs_s = 0.004, long_runs_s = 0.25;
enum { RUNS_MAX = 400 };

bool attn_renew_may(const struct attn_entry *entry)
{
    return entry->end_ok && entry->plan.has_numerics &&
           entry->contestant->info.exactness == ATTN_EXACT &&
           attn_status_holds(entry->verdict.status);
}

static bool may_renew(const struct attn_entry *entry)
{
    return attn_renew_may(entry) && entry->seconds < most_s &&
           !(entry->checks_done >> ATTN_CHECK_NEW_DATA & 1);
}

static void fail(struct attn_entry *entry, enum attn_status status, const char *what,
                 const char *reason)
{
    entry->verdict.status = status;
    snprintf(entry->verdict.reason, sizeof entry->verdict.reason, "%s: %s%.380s",
             attn_check_name(ATTN_CHECK_NEW_DATA), what, reason);
}

static void renew(struct attn_seat *seat, struct attn_instance *instance,
                  struct attn_instance *twin, struct attn_judge *judge, struct attn_entry *entry)
{
    const unsigned bit = 1u << ATTN_CHECK_NEW_DATA;
    struct attn_judgement again;
    struct attn_outcome outcome = attn_seat_worker(seat);
    if (outcome.status == ATTN_PASS) {
        const double most = RUNS_MAX * entry->seconds * seat->session->settings.threads;
        const double left = fmin(long_runs_s - seat->renewed_s, 2 * most);
        seat->renewed_s += fmax(fmin(left, most), 0);
        outcome = attn_worker_renew(seat->worker, instance, twin, RUNS_MAX, fmax(left, runs_s),
                                    false, NULL);
        attn_seat_after(seat, &outcome);
    }
    if (outcome.status == ATTN_SKIP)
        return;
    entry->checks_done |= bit;
    if (outcome.status != ATTN_PASS) {
        fail(entry, outcome.status, "", outcome.reason);
        return;
    }
    attn_examine_outputs(judge, &entry->plan.numerics, false, &again);
    const bool ok = attn_status_holds(again.status);
    entry->checks_ok |= ok ? bit : 0;
    const enum attn_status was = entry->verdict.status;
    attn_judgement_merge(&entry->verdict, &again);
    if (!ok)
        fail(entry, again.status,
             "not the result of the inputs that replaced those of bind: ", again.reason);
    else /* the data are not the case's own, so what they prove is not its verdict */
        entry->verdict.status = was;
}

/* The twin, in the host, in the shared mapping and as outputs. */
static bool has_room(const struct attn_session *session, const struct attn_instance *instance)
{
    const uint64_t have =
        session->settings.memory ? session->settings.memory : attn_memory_available();
    return instance->bytes < have / 5;
}

void attn_renew_verify(struct attn_session *session, struct attn_seat *seats,
                       struct attn_instance *instance, struct attn_entry *entries)
{
    char why[256];
    bool any = false;
    struct attn_instance *twin = NULL;
    struct attn_judge *judge = NULL;
    for (size_t b = 0; b < session->roster.count; b++)
        any = any || may_renew(&entries[b]);
    if (!any || !(session->settings.checks >> ATTN_CHECK_NEW_DATA & 1))
        return;
    if (attn_session_over(session) || !has_room(session, instance)) {
        for (size_t b = 0; b < session->roster.count; b++)
            if (may_renew(&entries[b]))
                attn_account_miss(&entries[b], ATTN_PART_CHECKS + (int)ATTN_CHECK_NEW_DATA,
                                  attn_session_over(session) ? ATTN_WHY_BUDGET : ATTN_WHY_MEMORY);
        return;
    }
    const int threads = session->settings.host_threads;
    if (attn_twin_create(instance, true, threads, &twin, why, sizeof why) == 0 &&
        attn_judge_create(twin, budget, threads, &judge, why, sizeof why) == 0)
        for (size_t b = 0; b < session->roster.count && !attn_interrupted; b++)
            if (may_renew(&entries[b]))
                renew(&seats[b], instance, twin, judge, &entries[b]);
    attn_judge_free(judge);
    attn_instance_free(twin);
}
