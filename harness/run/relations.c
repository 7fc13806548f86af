/* SPDX-License-Identifier: Apache-2.0 */
/* relations.c - runs the problems of each relation on each backend, and enters what comes of it. */
#include "run/relations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/power.h"
#include "reference/bound.h"
#include "run/account.h"
#include "run/relation.h"
#include "run/verify_one.h"

/* Relations are tried on cases of up to this many cells and bytes of operands, and on backends that
 * run them within this time. As with further fills, the faults that they look for show at any
 * size. */
static const double most_cells = 0x1p24, most_bytes = 0x1p24, most_s = 0.1;
/* Multiply-adds of the bounds of all gradients, which the reference computes for each relation. */
static const double most_bounds = 0x1p30;
/* As many reruns as fit into the first time, within these limits; short runs may go on, for the
 * second time and up to the last limit. Once a backend has spent the third time on long series in a
 * session, the fourth time takes the place of the first: bits that change do so on many cases. */
static const double rerun_s = 0.25, short_rerun_s = 0.01, long_reruns_s = 3, later_rerun_s = 0.03;
enum { RERUNS_MIN = 3, RERUNS_USUAL = 50, RERUNS_MAX = 400 };

/* Where steps may leave the range of their types, nothing is known of results. */
static bool may_try(const struct attn_entry *entry)
{
    return entry->end_ok && entry->plan.has_numerics && entry->verdict.unknown == 0 &&
           entry->contestant->info.exactness == ATTN_EXACT &&
           attn_status_holds(entry->verdict.status);
}

/* Multiply-adds of the bounds of a case's results. 0: norms alone say how far they may be off. */
static double bounds_cost(const struct attn_problem *p)
{
    const struct ref_op *op = ref_op_find(p->op);
    double cost = 0;
    for (int o = 0; attn_tensor_find(p, ATTN_GRAD_OUT) && op->outputs[o].role; o++) {
        const int64_t units = op->outputs[o].leader == o ? ref_output_units(p, o) : 0;
        cost += (double)units * ref_output_cost(p, o);
        if (units > 0 && op->group_cost)
            cost += (double)(p->b * p->hkv) * op->group_cost(p, o);
    }
    return cost;
}

bool attn_relations_cheap(const struct attn_instance *instance, const struct attn_entry *entry)
{
    const struct attn_case *c = &instance->c;
    const double cells = (double)c->b * (double)c->hq * (double)c->sq * (double)c->sk;
    return !(c->view & ATTN_VIEW_HUGE) && cells <= most_cells &&
           (double)instance->bytes <= most_bytes && entry->seconds < most_s &&
           bounds_cost(&instance->problem) <= most_bounds;
}

/* Is it worth trying on this backend? */
static bool is_worth(const struct attn_instance *instance, const struct attn_entry *entry,
                     bool costly)
{
    return may_try(entry) &&
           (attn_relations_cheap(instance, entry) || (costly && entry->seconds < ATTN_COSTLY_S));
}

bool attn_relations_fit(const struct attn_instance *instance, const struct attn_entry *entry,
                        enum attn_check check)
{
    struct attn_relation_work work = {.base = instance, .numerics = entry->plan.numerics};
    if (!entry->plan.has_numerics || entry->verdict.unknown > 0)
        return false;
    if (check == ATTN_CHECK_RERUN)
        return work.numerics.deterministic;
    const struct attn_relation *relation = attn_relation_of(&instance->problem, check);
    return check == ATTN_CHECK_LEAKS || check == ATTN_CHECK_NEW_DATA ||
           (relation && relation->fits(&work));
}

static void miss(struct attn_entry *entry, enum attn_check check, enum attn_why why)
{
    attn_account_miss(entry, ATTN_PART_CHECKS + (int)check, why);
}

static void enter(struct attn_entry *entry, enum attn_check check, enum attn_status status,
                  const char *reason)
{
    const bool ok = status == ATTN_PASS;
    entry->checks_done |= 1u << check;
    entry->checks_ok = (entry->checks_ok & ~(1u << check)) | (unsigned)ok << check;
    if (ok)
        return;
    entry->verdict.status = status;
    snprintf(entry->verdict.reason, sizeof entry->verdict.reason, "%s: %s", attn_check_name(check),
             reason);
}

/* A check computes a problem of its own, of other sizes perhaps: says which. */
static void add_problem(const struct attn_case *c, const struct attn_relation_work *work,
                        char *text, size_t size)
{
    char line[ATTN_CASE_LINE_MAX], own[ATTN_CASE_LINE_MAX];
    const size_t used = strlen(text);
    attn_case_canonical(c, line, sizeof line);
    attn_case_canonical(&work->base->c, own, sizeof own);
    if (strcmp(line, own) != 0)
        snprintf(text + used, size - used, "; this check computes '%.200s', with inputs of its own",
                 line);
}

/* The worker that a relation needs: the seat's, or one with another number of threads. NULL: there
 * is no such worker; the relation then gets no verdict. */
static struct attn_worker *worker_for(struct attn_seat *seat, enum attn_check check)
{
    const struct attn_outcome outcome =
        check == ATTN_CHECK_THREADS ? attn_seat_other(seat) : attn_seat_worker(seat);
    if (outcome.status != ATTN_PASS)
        return NULL;
    return check == ATTN_CHECK_THREADS ? seat->other : seat->worker;
}

static struct attn_outcome run_part(const struct attn_session *session, struct attn_seat *seat,
                                    enum attn_check check, struct attn_instance *instance,
                                    struct attn_results *results)
{
    struct attn_worker *worker = worker_for(seat, check);
    struct attn_plan_info info;
    double seconds;
    if (!worker)
        return (struct attn_outcome){.status = ATTN_SKIP};
    struct attn_outcome outcome =
        attn_worker_verify(worker, instance, ATTN_PLACE_END, 1, &info, &seconds);
    if (check != ATTN_CHECK_THREADS)
        attn_seat_after(seat, &outcome);
    if (outcome.status != ATTN_PASS)
        return outcome;
    if (attn_results_take(instance, results) != 0) {
        attn_results_free(results);
        outcome.status = ATTN_SKIP;
        return outcome;
    }
    results->numerics = info.numerics;
    results->threads = session->settings.host_threads;
    return outcome;
}

/* One relation on one backend. The backend's results of the case itself are in `work`. */
static void try_relation(const struct attn_session *session, const struct attn_relation *relation,
                         struct attn_seat *seat, struct attn_instance *parts[],
                         struct attn_relation_work *work, struct attn_entry *entry)
{
    char text[448];
    const bool exact = relation->exact(work);
    const enum ref_fill_kind kind = relation->structured ? REF_FILL_STRUCTURED : REF_FILL_GENERIC;
    struct attn_outcome outcome = {.status = ATTN_PASS};
    bool ready = exact || work->was.bounded || relation->derived ||
                 attn_results_bound(&work->was, &work->numerics, work->base->kind, false) == 0;
    work->counted_row = 0;
    for (int n = 0; ready && n < relation->parts && outcome.status == ATTN_PASS; n++) {
        const bool fed = n > 0 && relation->feed;
        if (fed)
            relation->feed(work, n, parts[n]);
        outcome = run_part(session, seat, relation->check, parts[n], &work->is[n]);
        work->is[n].inner = work->part_inner[n];
        work->is[n].given = !relation->derived;
        work->is[n].handed = fed ? &work->is[n - 1] : NULL;
        work->is[n].attention = relation->by_attention ? parts[relation->parts - 1] : NULL;
        ready = outcome.status != ATTN_PASS || exact ||
                attn_results_bound(&work->is[n], &work->numerics, kind, relation->constant_v) == 0;
    }
    if (outcome.status == ATTN_SKIP)
        miss(entry, relation->check,
             relation->check == ATTN_CHECK_THREADS ? ATTN_WHY_WORKER : ATTN_WHY_REFUSED);
    else if (!ready)
        miss(entry, relation->check, ATTN_WHY_MEMORY);
    if (ready && outcome.status == ATTN_PASS) {
        const bool ok = attn_relation_holds(relation, work, text, sizeof text);
        if (!exact)
            entry->verdict.delta += ref_delta(&work->numerics, work->base->kind) +
                                    relation->parts * ref_delta(&work->numerics, kind);
        if (ok && work->sees_scale)
            attn_power_refuse_scales(&entry->power);
        if (!ok)
            add_problem(&parts[relation->parts - 1]->c, work, text, sizeof text);
        enter(entry, relation->check, ok ? ATTN_PASS : ATTN_FAIL, text);
    } else if (outcome.status != ATTN_PASS && outcome.status != ATTN_SKIP) {
        enter(entry, relation->check, outcome.status, outcome.reason);
    }
    for (int n = 0; n < relation->parts; n++)
        attn_results_free(&work->is[n]);
}

/* Runs the same plan again and again: is its answer always the same, and does it leave nothing
 * behind? */
static void try_repeats(const struct attn_session *session, struct attn_seat *seat,
                        struct attn_instance *instance, struct attn_entry *entry)
{
    const double seconds = fmax(entry->seconds, 1e-9);
    const double most_time = seat->rerun_s < long_reruns_s ? rerun_s : later_rerun_s;
    const double usual = fmin(fmax(most_time / seconds, RERUNS_MIN), RERUNS_USUAL);
    const int runs = (int)fmin(fmax(short_rerun_s / seconds, usual), RERUNS_MAX);
    const struct {
        enum attn_check check;
        bool wanted;
        int runs;
    } repeats[] = {{ATTN_CHECK_RERUN, entry->plan.numerics.deterministic, runs},
                   {ATTN_CHECK_LEAKS, true, 0}};
    for (size_t r = 0; r < sizeof repeats / sizeof *repeats; r++) {
        const enum attn_check check = repeats[r].check;
        struct attn_worker *worker = worker_for(seat, check);
        if (!repeats[r].wanted || !(session->settings.checks >> check & 1) || !worker ||
            !may_try(entry))
            continue;
        const struct attn_outcome outcome = attn_worker_repeat(worker, instance, repeats[r].runs);
        seat->rerun_s += repeats[r].runs * seconds;
        attn_seat_after(seat, &outcome);
        if (outcome.status != ATTN_SKIP)
            enter(entry, check, outcome.status, outcome.reason);
        else
            miss(entry, check, ATTN_WHY_REFUSED);
    }
}

/* A problem of a relation cannot be made for any backend. */
static void miss_all(const struct attn_session *session, const struct attn_relation *relation,
                     struct attn_relation_work *works, struct attn_entry *entries)
{
    for (size_t b = 0; b < session->roster.count; b++)
        if (works[b].base && relation->fits(&works[b]))
            miss(&entries[b], relation->check,
                 attn_session_over(session) ? ATTN_WHY_BUDGET : ATTN_WHY_MEMORY);
}

/* One relation on all backends. Its problems are made once. */
static void verify_relation(struct attn_session *session, struct attn_seat *seats,
                            const struct attn_relation *relation, struct attn_relation_work *works,
                            struct attn_entry *entries)
{
    struct attn_instance *parts[ATTN_RELATION_PARTS] = {NULL};
    struct attn_inner inners[ATTN_RELATION_PARTS] = {0};
    for (size_t b = 0; b < session->roster.count && !attn_interrupted; b++) {
        struct attn_relation_work *work = &works[b];
        /* What a check has shown with dense weights it need not show with chosen ones. */
        const bool done = work->inner && entries[b].checks_done >> relation->check & 1;
        if (!work->was.instance || !may_try(&entries[b]) || done || !relation->fits(work))
            continue;
        for (int n = 0; n < relation->parts; n++) {
            if (!parts[n])
                parts[n] = attn_relation_make(session, relation, work, n);
            work->part[n] = parts[n];
            if (!parts[n] || (work->inner && !relation->exact(work) && !inners[n].q &&
                              attn_inner_create(parts[n], &inners[n]) != 0)) {
                miss_all(session, relation, works, entries);
                goto out;
            }
            work->part_inner[n] = inners[n].q ? &inners[n] : NULL;
        }
        try_relation(session, relation, &seats[b], parts, work, &entries[b]);
    }
out:
    for (int n = 0; n < ATTN_RELATION_PARTS; n++) {
        attn_inner_free(&inners[n]);
        attn_instance_free(parts[n]);
    }
}

/* Inputs that relations begin with. */
struct base {
    struct attn_instance *instance;
    const struct attn_inner *inner; /* the attention inside it, if projections are exact; the plans
                                       are then not run again and again once more */
    bool costly;
};

/* All relations on a base. */
static void verify_base(struct attn_session *session, struct attn_seat *seats,
                        const struct base *base, struct attn_entry *entries)
{
    const size_t n = session->roster.count;
    struct attn_relation_work *works = calloc(n + 1, sizeof *works);
    for (size_t b = 0; works && b < n && !attn_interrupted; b++) {
        if (!is_worth(base->instance, &entries[b], base->costly))
            continue;
        works[b].base = base->instance;
        works[b].inner = base->inner;
        works[b].numerics = entries[b].plan.numerics;
        /* Failures here are reported elsewhere. */
        const enum attn_status status =
            run_part(session, &seats[b], ATTN_CHECK_COUNT, base->instance, &works[b].was).status;
        works[b].was.given = true;
        if (status == ATTN_PASS && !base->inner)
            try_repeats(session, &seats[b], base->instance, &entries[b]);
        works[b].was.inner = base->inner;
    }
    for (int r = 0; works && r <= ATTN_CHECK_THREADS; r++) {
        const struct attn_relation *relation =
            attn_relation_of(&base->instance->problem, (enum attn_check)r);
        if (relation && session->settings.checks >> r & 1)
            verify_relation(session, seats, relation, works, entries);
    }
    for (size_t b = 0; works && b < n; b++)
        attn_results_free(&works[b].was);
    free(works);
}

/* Multi-head attention once more, with projections that are exact: the allowance of attention then
 * holds for it. */
static void verify_projected(struct attn_session *session, struct attn_seat *seats,
                             const struct attn_case *c, struct attn_entry *entries, bool costly)
{
    struct attn_case whole = *c; /* nothing in the copy is owned */
    struct attn_judgement none;
    struct attn_inner inner;
    whole.fill = ATTN_FILL_WHOLE;
    struct attn_instance *instance = attn_fill_fits(c, ATTN_FILL_WHOLE, NULL, 0)
                                         ? attn_instance_for(session, &whole, NULL, &none)
                                         : NULL;
    if (instance && attn_inner_create(instance, &inner) == 0) {
        const struct base base = {instance, &inner, costly};
        verify_base(session, seats, &base, entries);
        attn_inner_free(&inner);
    }
    attn_instance_free(instance);
}

void attn_relations_verify(struct attn_session *session, struct attn_seat *seats,
                           struct attn_instance *instance, struct attn_entry *entries, bool costly)
{
    const struct attn_case *c = &instance->c;
    const unsigned choices = (1u << ATTN_CHECK_CHOICES) - 1;
    bool any = false;
    for (size_t b = 0; b < session->roster.count; b++)
        any = any || is_worth(instance, &entries[b], costly);
    if (!any || c->fill != ATTN_FILL_NORMAL || c->data || !(session->settings.checks & choices))
        return;
    const struct base own = {instance, NULL, costly};
    verify_base(session, seats, &own, entries);
    if (ref_op_is(c->op, REF_PROJECTED))
        verify_projected(session, seats, c, entries, costly);
}
