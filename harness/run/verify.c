/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c - case by case, backend by backend. */
#include "run/verify.h"

#include <stdlib.h>
#include <string.h>

#include "case/operator.h"
#include "judge/every.h"
#include "run/account.h"
#include "run/age.h"
#include "run/declared_off.h"
#include "run/further.h"
#include "run/keep.h"
#include "run/progress.h"
#include "run/restore.h"
#include "run/retry.h"
#include "run/verify_one.h"

/* Says on which inputs it is so, if not on those of the case: NaN everywhere from a kernel that is
 * right on usual ones needs that word. */
static void put_reason(FILE *out, const struct attn_entry *entry)
{
    const char *reason = entry->verdict.reason, *fill = attn_fill_name(entry->fill);
    fputs("    ", out);
    if (!entry->failed_smaller && entry->fill != ATTN_FILL_NORMAL &&
        entry->fill != entry->c->fill && strncmp(reason, fill, strlen(fill)) != 0)
        fprintf(out, "fill=%s: ", fill);
    fprintf(out, "%s\n", reason);
}

static void print_result(FILE *out, const struct attn_entry *entry,
                         const struct attn_session *session)
{
    if (!out)
        return;
    const struct attn_judgement *v = &entry->verdict;
    const bool colour = attn_colour_wanted(out);
    char label[ATTN_CASE_LINE_MAX], repro[ATTN_REPRO_MAX], ratio[16] = "-";
    int made, apply;
    if (v->rows_checked > 0)
        snprintf(ratio, sizeof ratio, "%.3f", v->max_ratio);
    attn_progress_clear();
    fprintf(out, "%s%-10s%s %8s  %-12s %s", colour ? attn_colour_of(v->status) : "",
            attn_status_name(v->status), colour ? ATTN_COLOUR_END : "", ratio,
            entry->contestant ? entry->contestant->info.name : "reference",
            attn_case_label(entry->c, label, sizeof label));
    attn_account_count(entry, &made, &apply);
    if (apply > 0)
        fprintf(out, "  checks: %d of %d", made, apply);
    if (entry->power.measured)
        fprintf(out, "  power: %d of %d", attn_power_refused(&entry->power),
                attn_power_of(&entry->power));
    if (v->slack > 0)
        fprintf(out, "  grade: %.2g slack: %.2g", v->grade, v->slack);
    if (v->rows_checked > 0 && entry->contestant && attn_case_op(entry->c)->stochastic)
        fprintf(out, "  bound: stochastic");
    if (attn_status_holds(v->status))
        attn_declared_off_print(out, &entry->plan, entry->c);
    fputc('\n', out);
    if (v->status == ATTN_PASS)
        return;
    if (*v->reason)
        put_reason(out, entry);
    if (v->status == ATTN_SKIP && !entry->harmless)
        fprintf(out, "    this skip is in no list of expected skips, so it counts\n");
    if (v->status != ATTN_SKIP) {
        attn_entry_repro(entry, session->settings.threads, repro, sizeof repro);
        fprintf(out, "    rerun: %s\n", repro);
    }
    if (entry->smallest)
        fprintf(out, "    smallest: %s\n", entry->smallest);
}

int attn_verify_finish(struct attn_session *session, struct attn_entry *entry, FILE *out, char *why,
                       size_t size)
{
    print_result(out, entry, session);
    json_t *record = attn_verify_record(entry, session);
    if (record)
        attn_account_put(record, entry);
    free(entry->smallest);
    entry->smallest = NULL;
    if (attn_session_record(session, record)) {
        snprintf(why, size, "a record cannot be written: %m");
        return -1;
    }
    return 0;
}

/* Compares the reference itself with the pack's expected answers: an entry without a backend. */
static int verify_reference(struct attn_session *session, const struct attn_case *c,
                            const struct attn_instance *instance, struct attn_judge *judge,
                            FILE *out, char *why, size_t size)
{
    struct attn_entry entry = {
        .c = c, .verified = true, .harmless = true, .sample_seed = session->settings.sample_seed};
    attn_case_id(c, entry.id);
    if (attn_restore_has_reference(session, entry.id))
        return 0;
    attn_judge_reference(judge, &entry.verdict);
    if (entry.verdict.status == ATTN_SKIP || !instance->c.data)
        return 0;
    return attn_verify_finish(session, &entry, out, why, size);
}

/* Seconds since *began; resets it. */
static double seconds_since(double *began)
{
    const double now = attn_now(), seconds = now - *began;

    *began = now;
    return seconds;
}

/* What nobody knows yet, or what an earlier command has recorded. */
static void begin_entries(struct attn_session *session, struct attn_verification *v)
{
    for (size_t b = 0; b < session->roster.count; b++) {
        struct attn_entry *entry = &v->entries[b];
        attn_entry_clear(entry);
        memset(entry, 0, sizeof *entry);
        entry->c = v->c;
        entry->contestant = &session->roster.items[b];
        entry->sample_seed = session->settings.sample_seed;
        attn_case_id(v->c, entry->id);
        entry->restored = attn_restore_verdict(session, entry);
    }
}

/* What is left of a case: verdicts; timings of what holds. */
struct left {
    bool judging, timing;
};

static struct left what_is_left(const struct attn_session *session, struct attn_entry *entries)
{
    struct left left = {0};
    bool any = false;
    for (size_t b = 0; b < session->roster.count; b++) {
        const struct attn_entry *entry = &entries[b];
        const bool none = entry->contestant->info.exactness == ATTN_NONE;
        any = any || entry->restored;
        left.judging = left.judging || (!none && !entry->restored);
        left.timing = left.timing || (!entry->finished && (!none || entry->restored));
    }
    for (size_t b = 0; b < session->roster.count; b++) {
        struct attn_entry *entry = &entries[b];
        /* What computes nothing has no record of a verdict that holds: the others' say that it had
         * its turn. */
        if (any && !left.judging)
            entry->restored = entry->verified = true;
        left.judging = left.judging || !entry->restored;
    }
    return left;
}

/* Checks leave out what is skipped. */
static void hide_restored(const struct attn_session *session, struct attn_entry *entries)
{
    for (size_t b = 0; b < session->roster.count; b++)
        if (entries[b].restored) {
            entries[b].hidden = entries[b].verdict.status;
            entries[b].verdict.status = ATTN_SKIP;
        }
}

static void show_restored(const struct attn_session *session, struct attn_entry *entries)
{
    for (size_t b = 0; b < session->roster.count; b++)
        if (entries[b].restored)
            entries[b].verdict.status = entries[b].hidden;
}

/* Multiply-adds for the rows of the case as it is. */
static double budget_of(const struct attn_session *session, const struct attn_instance *instance)
{
    if (session->settings.budget_s > 0)
        return ATTN_FILL_BUDGET;
    return session->settings.fills && !attn_every_reaches(instance) ? ATTN_DENSE_BUDGET
                                                                    : ATTN_JUDGE_BUDGET;
}

int attn_verify_case(struct attn_session *session, struct attn_verification *v, FILE *out,
                     char *why, size_t size)
{
    const struct attn_case *c = v->c;
    struct attn_judgement none;
    struct attn_power_trials *trials = NULL;
    struct ref_approximation approximation = {0};
    double began = attn_now();
    v->judge = NULL;
    v->instance = NULL;
    begin_entries(session, v);
    const struct left left = what_is_left(session, v->entries);
    if (!left.judging && !left.timing)
        return 0;
    v->instance = attn_instance_for(session, c, NULL, &none);
    if (v->instance) {
        char reason[512] = ATTN_NO_OPERANDS;
        const size_t used = strlen(reason);
        if (attn_judge_create(v->instance, budget_of(session, v->instance),
                              session->settings.host_threads, &v->judge, reason + used,
                              sizeof reason - used)) {
            attn_judgement_set(&none, ATTN_ERROR, reason);
            attn_instance_free(v->instance);
            v->instance = NULL;
        }
    }
    for (size_t b = 0; v->instance && b < session->roster.count; b++) {
        v->entries[b].nnz = v->instance->nnz;
        v->entries[b].flops = v->instance->flops;
        v->entries[b].bytes = v->instance->bytes;
    }
    if (!left.judging)
        return 0;
    if (v->instance && (verify_reference(session, c, v->instance, v->judge, out, why, size) ||
                        attn_keep_reference(session, v->instance, why, size)))
        return -1;
    if (v->instance)
        attn_judge_approximation(v->judge, &approximation);
    for (size_t b = 0; b < session->roster.count; b++) {
        struct attn_entry *entry = &v->entries[b];
        if (entry->restored)
            continue;
        entry->approximation = approximation;
        if (v->instance) {
            attn_verify_entry(&v->seats[b], v->instance, v->judge, entry);
            attn_verify_power(&trials, v->judge, &entry->verdict, entry);
            if (!attn_interrupted && attn_keep_weights(session, v->instance, entry, why, size)) {
                attn_power_trials_free(trials);
                return -1;
            }
        } else {
            entry->verdict = none;
            entry->harmless = none.status == ATTN_SKIP;
        }
        entry->verifying_s = seconds_since(&began);
    }
    attn_power_trials_free(trials);
    hide_restored(session, v->entries);
    if (v->instance) {
        attn_further_checks(session, v->seats, v->instance, v->entries);
        v->entries[0].verifying_s += seconds_since(&began);
    }
    attn_age_end(session, v->seats, v->entries,
                 c == &session->cases.items[session->cases.count - 1]);
    show_restored(session, v->entries);
    for (size_t b = 0; b < session->roster.count; b++) {
        if (attn_interrupted) /* a verdict that we caused ourselves is none */
            return 0;
        struct attn_entry *entry = &v->entries[b];
        if (entry->restored)
            continue;
        bool silent =
            entry->contestant->info.exactness == ATTN_NONE && entry->verdict.status == ATTN_PASS;
        if (session->settings.shrink && attn_retry_wanted(entry))
            attn_retry_smaller(session, &v->seats[b], entry);
        if (!silent && attn_verify_finish(session, entry, out, why, size))
            return -1;
    }
    return 0;
}

int attn_verify_all(struct attn_session *session, FILE *out, char *why, size_t size)
{
    size_t n = session->roster.count;
    struct attn_seat *seats = calloc(n + 1, sizeof *seats);
    struct attn_entry *entries = calloc(n + 1, sizeof *entries);
    int result = seats && entries ? 0 : -1;
    if (result)
        snprintf(why, size, "no memory for %zu backends", n);
    struct attn_progress progress;
    attn_progress_begin(&progress, session->cases.count, session->settings.budget_s);
    for (size_t b = 0; b < n && seats; b++)
        attn_seat_init(&seats[b], session, &session->roster.items[b]);
    for (size_t i = 0; i < session->cases.count && result == 0; i++) {
        if (attn_interrupted)
            break;
        struct attn_verification v = {
            .c = &session->cases.items[i], .seats = seats, .entries = entries};
        attn_progress_step(&progress, i, i, v.c);
        result = attn_verify_case(session, &v, out, why, size);
        attn_judge_free(v.judge);
        attn_instance_free(v.instance);
    }
    attn_progress_clear();
    for (size_t b = 0; b < n && seats; b++)
        attn_seat_free(&seats[b]);
    for (size_t b = 0; b < n && entries; b++)
        attn_entry_clear(&entries[b]);
    free(seats);
    free(entries);
    return result;
}
