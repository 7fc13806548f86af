/* SPDX-License-Identifier: Apache-2.0 */
/* retry.c - one try at a smaller size: is it the same failure? */
#include "run/retry.h"

#include <stdio.h>
#include <string.h>

#include "explain/reproducer.h"
#include "explain/shrink.h"
#include "run/progress.h"
#include "run/relations.h"
#include "run/verify_one.h"

/* No try begins after this time. A verdict takes milliseconds at the sizes that tries reach. */
static const double most_seconds = 60;

struct retry {
    struct attn_seat *seat;
    const struct attn_entry *failed;
    double until;
    unsigned check; /* bit of the relation that failed; 0: the numbers, a promise, a crash */
    struct attn_entry last; /* of the last try that failed in the same way; its case is freed */
};

bool attn_retry_wanted(const struct attn_entry *entry)
{
    const enum attn_status s = entry->verdict.status;
    return s == ATTN_FAIL || s == ATTN_CRASH || s == ATTN_TIMEOUT || s == ATTN_OOM ||
           s == ATTN_ERROR;
}

static bool has_failed(const struct attn_entry *entry, enum attn_check check)
{
    return (entry->checks_done & ~entry->checks_ok) >> check & 1;
}

/* Wrong numbers (rows were judged) are another failure than a broken promise. */
static bool alike(const struct attn_judgement *a, const struct attn_judgement *b)
{
    return a->status == b->status && (a->rows_checked > 0) == (b->rows_checked > 0);
}

/* Bits of the relations that an entry has failed. */
static unsigned broken_relations(const struct attn_entry *entry)
{
    const unsigned choices = (1u << ATTN_CHECK_CHOICES) - 1;
    return entry->checks_done & ~entry->checks_ok & choices;
}

/* Tries only the relation that failed, only on this seat. */
static void try_relation(struct retry *r, struct attn_instance *instance, struct attn_entry *entry)
{
    struct attn_session alone = *r->seat->session; /* nothing in the copy is owned */
    alone.roster.count = 1;
    alone.settings.checks = r->check;
    attn_relations_verify(&alone, r->seat, instance, entry, true);
}

/* One try of a legal case. */
static bool fails(void *context, const struct attn_case *c)
{
    struct retry *r = context;
    const struct attn_session *session = r->seat->session;
    struct attn_entry entry = {
        .c = c, .contestant = r->seat->contestant, .sample_seed = session->settings.sample_seed};
    struct attn_judge *judge = NULL;
    char why[256];
    struct attn_instance *instance = attn_instance_for(session, c, NULL, &entry.verdict);
    if (instance && attn_judge_create(instance, ATTN_FILL_BUDGET, session->settings.host_threads,
                                      &judge, why, sizeof why) == 0) {
        attn_verify_entry(r->seat, instance, judge, &entry);
        if (r->check)
            try_relation(r, instance, &entry);
    }
    attn_judge_free(judge);
    attn_instance_free(instance);
    if (!attn_retry_wanted(&entry) || has_failed(&entry, ATTN_CHECK_UNKNOWNS) ||
        !alike(&entry.verdict, &r->failed->verdict) || broken_relations(&entry) != r->check)
        return false;
    r->last = entry;
    r->last.c = NULL;
    return true;
}

static bool over(void *context)
{
    const struct retry *r = context;
    return attn_interrupted || attn_now() >= r->until;
}

static void kept(void *context, int tries, const char *line)
{
    const struct retry *r = context;
    attn_progress_shrink(r->seat->contestant->info.name, tries, line);
}

/* The file for the part of a pack that still fails: FILE.safetensors next to the session's
 * reproducer FILE.c. False, with the reason: there is no such file. */
static bool place_of_pack(const struct attn_session *session, char to[ATTN_PATH_MAX], char *why,
                          size_t size)
{
    const char *c_file = session->settings.reproducer;
    if (!c_file || session->reproduced) {
        snprintf(why, size,
                 "a pack is shrunk into a file next to the first reproducer: give --reproducer");
        return false;
    }
    const size_t length = strlen(c_file), stem = length > 2 ? length - 2 : 0;
    const bool is_c = stem > 0 && strcmp(c_file + stem, ".c") == 0;
    if ((size_t)snprintf(to, ATTN_PATH_MAX, "%.*s.safetensors", (int)(is_c ? stem : length),
                         c_file) >= ATTN_PATH_MAX) {
        snprintf(why, size, "%s: the path is too long for a pack beside it", c_file);
        return false;
    }
    return true;
}

/* Why a program that runs a plan on one set of inputs would not show the failure; NULL: it does. */
static const char *why_unseen(const struct attn_entry *entry)
{
    const struct attn_judgement *v = &entry->verdict;
    if (has_failed(entry, ATTN_CHECK_LEAKS))
        return "no reproducer: what plans and runs leave behind is for 'verify' to count";
    if (has_failed(entry, ATTN_CHECK_NEW_DATA))
        return "no reproducer: it has one set of inputs, and the failure needs another one";
    if (v->status == ATTN_FAIL && v->rows_checked == 0 && !has_failed(entry, ATTN_CHECK_INPUTS) &&
        !has_failed(entry, ATTN_CHECK_BOUNDS) && !has_failed(entry, ATTN_CHECK_STATE))
        return "no reproducer: it has one run, and the failure lies between runs or beside them";
    return NULL;
}

/* Writes the reproducer of the shrunk case. */
static void reproduce(struct attn_session *session, const struct attn_entry *smallest)
{
    char why[ATTN_PATH_MAX + 64];
    const struct attn_failure failure = {
        .c = smallest->c,
        .backend = smallest->contestant->offered,
        .options = smallest->contestant->options,
        .verdict = &smallest->verdict,
        .numerics = smallest->plan.has_numerics ? &smallest->plan.numerics : NULL,
        .threads = session->settings.threads,
        .reruns = has_failed(smallest, ATTN_CHECK_RERUN)};
    if (why_unseen(smallest)) {
        attn_progress_note(why_unseen(smallest));
        return;
    }
    session->reproduced =
        attn_reproducer_write(session->settings.reproducer, &failure, why, sizeof why) == 0;
    if (session->reproduced)
        snprintf(why, sizeof why, "'%s' repeats this failure; its first lines say how to build it",
                 session->settings.reproducer);
    attn_progress_note(why);
}

void attn_retry_smaller(struct attn_session *session, struct attn_seat *seat,
                        struct attn_entry *entry)
{
    char pack[ATTN_PATH_MAX], why[256], repro[ATTN_REPRO_MAX];
    struct attn_case smallest;
    struct retry r = {.seat = seat,
                      .failed = entry,
                      .until = attn_now() + most_seconds,
                      .check = broken_relations(entry)};
    const struct attn_shrink_way way = {.c = entry->failed_smaller ? entry->smaller : entry->c,
                                        .fill = entry->fill,
                                        .pack = pack,
                                        .context = &r,
                                        .fails = fails,
                                        .over = over,
                                        .kept = kept};
    if (has_failed(entry, ATTN_CHECK_UNKNOWNS)) {
        attn_progress_note("not shrunk, and no reproducer: what 'supports' accepts does not depend "
                           "on the case");
        return;
    }
    if ((entry->c->data && !place_of_pack(session, pack, why, sizeof why)) ||
        !attn_shrink(&way, &smallest, why, sizeof why)) {
        attn_progress_note(why);
        return;
    }
    smallest.sample_seed = session->settings.sample_seed;
    r.last.c = &smallest;
    attn_entry_repro(&r.last, session->settings.threads, repro, sizeof repro);
    entry->smallest = strdup(repro);
    if (session->settings.reproducer && !session->reproduced)
        reproduce(session, &r.last);
    attn_case_free(&smallest);
}
