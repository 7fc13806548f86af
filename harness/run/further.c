/* SPDX-License-Identifier: Apache-2.0 */
/* further.c - fills and relations, on the case itself or on a smaller one. */
#include "run/further.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/account.h"
#include "run/age.h"
#include "run/relations.h"
#include "run/renew.h"
#include "run/smaller.h"
#include "run/verify_one.h"

/* Fills are tried on cases of up to this many cells, and on backends that run them within this
 * time; others get a smaller case, because the faults that fills look for show at any size. Only
 * census proves more when there are more keys, and it counts them all in less time than a run
 * takes. */
static const double fill_cells = 0x1p24, fill_s = 0.1, census_s = 30.0, every_s = 120.0;
/* A smaller case has at most this many cells and bytes of operands, and a run of it should take
 * this long. */
static const double smaller_cells = 0x1p20, smaller_bytes = 0x1p23, smaller_s = 0.02;

static bool may_check(const struct attn_entry *entry)
{
    return entry->end_ok && entry->contestant->info.exactness == ATTN_EXACT &&
           attn_status_holds(entry->verdict.status);
}

static bool fills_cheap(const struct attn_entry *entry)
{
    const struct attn_case *c = entry->c;
    const double cells = (double)c->b * (double)c->hq * (double)c->sq * (double)c->sk;
    return cells <= fill_cells && entry->seconds < fill_s;
}

/* A fill for some backends of a case. */
struct filling {
    struct attn_session *session;
    struct attn_seat *seats;
    struct attn_entry *entries;
    bool costly; /* up to ATTN_COSTLY_S a run */
};

static bool may_fill(const struct filling *f, size_t b, enum attn_fill fill)
{
    const struct attn_entry *entry = &f->entries[b];
    if (!may_check(entry) || entry->fills_done >> fill & 1)
        return false;
    if (attn_fill_is_whole(fill) && attn_entry_sampled(entry))
        return entry->seconds < every_s;
    return attn_fill_is_due(fill, false) &&
           (fills_cheap(entry) || (f->costly && entry->seconds < ATTN_COSTLY_S) ||
            (fill == ATTN_FILL_CENSUS && entry->seconds < census_s));
}

static void fill_one(const struct filling *f, size_t b, struct attn_instance *instance,
                     struct attn_judge *judge, struct attn_power_trials **trials,
                     enum attn_fill fill)
{
    struct attn_entry *entry = &f->entries[b];
    struct attn_judgement verdict;
    struct attn_entry trial = *entry; /* plan and times stay those of the case itself */
    attn_verify_placement(&f->seats[b], instance, judge, ATTN_PLACE_END, &trial, &verdict);
    entry->checks_done |= trial.checks_done;
    entry->checks_ok &= trial.checks_ok;
    entry->fills_done |= 1u << fill;
    entry->fills_ok |= (unsigned)attn_status_holds(verdict.status) << fill;
    if (!attn_status_holds(verdict.status))
        entry->fill = fill;
    attn_verify_power(trials, judge, &verdict, entry);
    attn_judgement_merge(&entry->verdict, &verdict);
}

/* The same sizes under another fill, on every backend that has passed so far. */
static void verify_fill(const struct filling *f, const struct attn_instance *like,
                        const struct attn_case *c)
{
    char why[256];
    struct attn_judgement none;
    struct attn_judge *judge = NULL;
    struct attn_power_trials *trials = NULL;
    const size_t n = f->session->roster.count;
    struct attn_instance *instance = attn_instance_for(f->session, c, like, &none);
    if (instance && attn_judge_create(instance, ATTN_FILL_BUDGET, f->session->settings.host_threads,
                                      &judge, why, sizeof why) == 0)
        for (size_t b = 0; b < n && !attn_interrupted; b++)
            if (may_fill(f, b, c->fill))
                fill_one(f, b, instance, judge, &trials, c->fill);
    for (size_t b = 0; b < n && !judge; b++)
        if (may_fill(f, b, c->fill))
            attn_account_miss(&f->entries[b], ATTN_PART_FILLS + (int)c->fill,
                              attn_session_over(f->session) ? ATTN_WHY_BUDGET : ATTN_WHY_MEMORY);
    attn_power_trials_free(trials);
    attn_judge_free(judge);
    attn_instance_free(instance);
}

static void verify_fills(const struct filling *f, const struct attn_instance *instance)
{
    const struct attn_case *c = &instance->c;
    if (c->fill != ATTN_FILL_NORMAL || c->data)
        return;
    struct attn_case filled = *c; /* nothing in the copy is owned */
    for (enum attn_fill fill = ATTN_FILL_CENSUS; fill < ATTN_FILL_COUNT; fill++) {
        bool any = false;
        for (size_t b = 0; b < f->session->roster.count; b++)
            any = any || may_fill(f, b, fill);
        filled.fill = fill;
        if (any && f->session->settings.fills >> fill & 1 && attn_fill_fits(c, fill, NULL, 0))
            verify_fill(f, instance, &filled);
    }
}

/* ---- the smaller case ---- */

/* Has a backend checks left that cost too much on the case, and that are asked for? */
static bool has_costly(const struct attn_session *session, const struct attn_instance *instance,
                       const struct attn_entry *entry)
{
    const unsigned choices = (1u << ATTN_CHECK_CHOICES) - 1;
    const struct attn_case *c = entry->c;
    if (!may_check(entry))
        return false;
    if (!entry->start_done)
        return true;
    if (c->fill != ATTN_FILL_NORMAL || c->data)
        return false;
    for (enum attn_fill f = ATTN_FILL_CENSUS; f < ATTN_FILL_COUNT; f++)
        if (attn_fill_is_due(f, false) && !fills_cheap(entry) &&
            session->settings.fills >> f & ~entry->fills_done >> f & 1 &&
            attn_fill_fits(c, f, NULL, 0))
            return true;
    return (session->settings.checks & choices) && !attn_relations_cheap(instance, entry);
}

/* What was made on the smaller case counts for the case. */
static void merge(struct attn_entry *entry, const struct attn_entry *small, const char *line)
{
    const unsigned broken = small->checks_done & ~small->checks_ok;
    entry->start_done = entry->start_done || small->start_done;
    entry->start_ok = entry->start_ok || small->start_ok;
    entry->fills_ok |= small->fills_ok & ~entry->fills_done;
    entry->fills_done |= small->fills_done;
    entry->checks_ok = (entry->checks_ok | (small->checks_ok & ~entry->checks_done)) & ~broken;
    entry->checks_done |= small->checks_done;
    for (int part = 0; part < ATTN_PART_COUNT; part++)
        attn_account_miss(entry, part, (enum attn_why)small->missed[part]);
    entry->power = small->power;
    if (small->verdict.status == ATTN_SKIP)
        return;
    struct attn_judgement verdict = small->verdict;
    if (!attn_status_holds(verdict.status)) {
        entry->failed_smaller = true;
        entry->fill = small->fill;
        snprintf(verdict.reason, sizeof verdict.reason, "on the smaller case '%.200s': %.280s",
                 line, small->verdict.reason);
    }
    attn_judgement_merge(&entry->verdict, &verdict);
}

/* The case's own inputs first: how long does a run take, and is the answer right? */
static void begin_smaller(struct attn_seat *seat, struct attn_instance *instance,
                          struct attn_judge *judge, struct attn_power_trials **trials,
                          struct attn_entry *small)
{
    attn_verify_entry(seat, instance, judge, small);
    attn_verify_power(trials, judge, &small->verdict, small);
    const enum attn_status status = small->verdict.status;
    const enum attn_why why = status == ATTN_SKIP ? ATTN_WHY_REFUSED_SMALLER
                              : small->end_ok && small->seconds >= ATTN_COSTLY_S ? ATTN_WHY_SLOW
                                                                                 : ATTN_WHY_NONE;
    if (status == ATTN_MISTRUSTED) /* a few rows may prove too little; the case itself was judged */
        small->verdict.status = ATTN_PASS;
    small->end_ok = small->end_ok && why == ATTN_WHY_NONE;
    for (int part = 0; part < ATTN_PART_COUNT && why != ATTN_WHY_NONE; part++)
        small->missed[part] = (unsigned char)why;
}

/* Fills and relations of the backends in `small`, which do without those that are done. */
static void verify_smaller(struct attn_session *session, struct attn_seat *seats,
                           const struct attn_case *c, struct attn_entry *small)
{
    char why[256];
    struct attn_judgement none;
    struct attn_judge *judge = NULL;
    struct attn_power_trials *trials = NULL;
    const size_t n = session->roster.count;
    struct attn_instance *instance = attn_instance_for(session, c, NULL, &none);
    if (instance && attn_judge_create(instance, ATTN_FILL_BUDGET, session->settings.host_threads,
                                      &judge, why, sizeof why) == 0) {
        for (size_t b = 0; b < n && !attn_interrupted; b++)
            if (small[b].c)
                begin_smaller(&seats[b], instance, judge, &trials, &small[b]);
        verify_fills(&(struct filling){session, seats, small, true}, instance);
        attn_relations_verify(session, seats, instance, small, true);
        attn_renew_verify(session, seats, instance, small);
    }
    for (size_t b = 0; b < n && !judge; b++)
        for (int part = 0; part < ATTN_PART_COUNT && small[b].c; part++)
            small[b].missed[part] = attn_session_over(session) ? ATTN_WHY_BUDGET : ATTN_WHY_MEMORY;
    attn_power_trials_free(trials);
    attn_judge_free(judge);
    attn_instance_free(instance);
}

/* The share of the work of a run that its slowest backend does in the time of a smaller case. */
static double share_for(const struct attn_session *session, const struct attn_instance *instance,
                        const struct attn_entry *entries)
{
    double slowest = smaller_s;
    for (size_t b = 0; b < session->roster.count; b++)
        if (has_costly(session, instance, &entries[b]))
            slowest = fmax(slowest, entries[b].seconds);
    return smaller_s / slowest;
}

/* Was a backend too slow even on a smaller case? */
static bool is_slow(const struct attn_entry *small)
{
    return !small->end_ok && small->missed[ATTN_PART_START] == ATTN_WHY_SLOW;
}

/* Makes the checks on the smaller case `c` for the backends that are `wanted`, and merges them into
 * their entries. With `again`, those that are too slow even there are wanted once more. */
static void check_on(struct attn_session *session, struct attn_seat *seats,
                     const struct attn_case *c, struct attn_entry *entries, bool *wanted,
                     bool again)
{
    const size_t n = session->roster.count;
    const unsigned renewed = 1u << ATTN_CHECK_NEW_DATA;
    char line[ATTN_CASE_LINE_MAX];
    struct attn_entry *small = calloc(n + 1, sizeof *small);
    for (size_t b = 0; small && b < n; b++)
        if (wanted[b])
            small[b] = (struct attn_entry){.c = c,
                                           .stands_in = true,
                                           .contestant = entries[b].contestant,
                                           .power = entries[b].power,
                                           .fills_done = entries[b].fills_done,
                                           .checks_done = entries[b].checks_done & renewed,
                                           .checks_ok = entries[b].checks_ok & renewed};
    attn_case_canonical(c, line, sizeof line);
    if (small)
        verify_smaller(session, seats, c, small);
    for (size_t b = 0; small && b < n; b++) {
        struct attn_entry *entry = &entries[b];
        if (!wanted[b] || (again && is_slow(&small[b])))
            continue;
        wanted[b] = false;
        entry->smaller = calloc(1, sizeof *entry->smaller);
        if (entry->smaller && attn_case_copy(entry->smaller, c)) {
            free(entry->smaller);
            entry->smaller = NULL;
        }
        if (entry->smaller)
            merge(entry, &small[b], line);
    }
    free(small);
}

/* A smaller case for the backends that need one, or the case itself if it cannot be made smaller.
 * Who is too slow there as well gets a tiny one. */
static void check_smaller(struct attn_session *session, struct attn_seat *seats,
                          struct attn_instance *instance, struct attn_entry *entries)
{
    const size_t n = session->roster.count;
    struct attn_case c, tiny;
    bool any = false, *wanted = calloc(n + 1, sizeof *wanted);
    if (!wanted)
        return;
    const bool other = attn_smaller_tiny(entries[0].c, &tiny) == 0;
    for (size_t b = 0; b < n; b++)
        wanted[b] = has_costly(session, instance, &entries[b]);
    if (attn_smaller_case(entries[0].c, share_for(session, instance, entries), smaller_cells,
                          smaller_bytes, &c) == 0) {
        check_on(session, seats, &c, entries, wanted, other);
        attn_case_free(&c);
    } else { /* it is small already */
        verify_fills(&(struct filling){session, seats, entries, true}, instance);
        attn_relations_verify(session, seats, instance, entries, true);
        for (size_t b = 0; b < n; b++)
            wanted[b] = wanted[b] && entries[b].seconds >= ATTN_COSTLY_S;
    }
    for (size_t b = 0; b < n; b++)
        any = any || wanted[b];
    if (other && any && !attn_interrupted)
        check_on(session, seats, &tiny, entries, wanted, false);
    if (other)
        attn_case_free(&tiny);
    free(wanted);
}

static unsigned checks_that_fit(const struct attn_instance *instance,
                                const struct attn_entry *entry)
{
    unsigned fits = 0;
    for (enum attn_check k = 0; k < ATTN_CHECK_CHOICES && entry->end_done; k++)
        fits |= (unsigned)attn_relations_fit(instance, entry, k) << k;
    return fits;
}

/* A pass that would have been one with usual mistakes in it proves too little; so does one without
 * most of its checks. */
static void mistrust(struct attn_entry *entry, bool by_power)
{
    char why[sizeof entry->verdict.reason];
    if (entry->verdict.status != ATTN_PASS ||
        ((!by_power || attn_power_enough(&entry->power, entry->verdict.slack, why, sizeof why)) &&
         attn_account_enough(entry, why, sizeof why)))
        return;
    entry->verdict.status = ATTN_MISTRUSTED;
    memcpy(entry->verdict.reason, why, sizeof why);
}

void attn_further_checks(struct attn_session *session, struct attn_seat *seats,
                         struct attn_instance *instance, struct attn_entry *entries)
{
    const size_t n = session->roster.count;
    bool costly = false;
    attn_age_begin(session, seats, entries, true);
    verify_fills(&(struct filling){session, seats, entries, false}, instance);
    attn_relations_verify(session, seats, instance, entries, false);
    attn_renew_verify(session, seats, instance, entries);
    for (size_t b = 0; b < n; b++)
        costly = costly || has_costly(session, instance, &entries[b]);
    if (costly && !attn_interrupted)
        check_smaller(session, seats, instance, entries);
    attn_age_begin(session, seats, entries, false);
    for (size_t b = 0; b < n; b++) {
        attn_account_close(session, checks_that_fit(instance, &entries[b]), &entries[b]);
        mistrust(&entries[b], session->settings.fills != 0);
    }
}
