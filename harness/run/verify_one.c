/* SPDX-License-Identifier: Apache-2.0 */
/* verify_one.c - supports, limits, two placements; run, then judge. */
#include "run/verify_one.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "explain/examine.h"
#include "reference/bound.h"
#include "run/predict.h"
#include "run/relation.h"
#include "run/suite.h"

/* A run that took longer than this is not repeated in the second placement. */
static const double second_placement_s = 1.0;

/* The most comparisons with probabilistic bounds that are added up. On the case, the smaller one
 * and the tiny one: both placements, and inputs replaced after bind. Once: every relation with the
 * results of the case and of its parts, a plan of many runs and of some age, and fill=rounding.
 * (Other fills of a verdict have structure.) Operators with a state to hand on or with projections
 * of keys, and gradients, have few relations besides: those three do not count. */
_Static_assert(3 * 3 + (ATTN_CHECK_THREADS + 1 - 3) * (1 + ATTN_RELATION_PARTS) + 2 + 1 <=
                   REF_COMPARISONS,
               "the shares of all comparisons are at most delta");

void attn_judgement_merge(struct attn_judgement *kept, const struct attn_judgement *next)
{
    const double max = fmax(kept->max_ratio, next->max_ratio);
    const double grade = kept->grade, slack = kept->slack;
    const int64_t counted = kept->rows_counted, every = kept->rows_every, keys = kept->keys_every;
    const double delta = kept->delta + next->delta;
    if (!attn_status_holds(next->status) ||
        (kept->status == ATTN_PASS && next->status != ATTN_PASS))
        *kept = *next;
    kept->max_ratio = max;
    kept->grade = grade;
    kept->slack = slack;
    assert(delta <= REF_DELTA);
    kept->delta = delta;
    kept->rows_counted = next->rows_counted > counted ? next->rows_counted : counted;
    kept->rows_every = next->rows_every > every ? next->rows_every : every;
    kept->keys_every = next->keys_every > keys ? next->keys_every : keys;
}

/* A run that reached its end has kept every promise. */
static void enter_promises(struct attn_entry *entry, const struct attn_outcome *outcome)
{
    for (unsigned p = ATTN_PROMISE_INPUTS; p <= ATTN_PROMISE_STATE; p++) {
        const unsigned bit = 1u << (ATTN_CHECK_INPUTS + p - ATTN_PROMISE_INPUTS);
        if (outcome->broken == p)
            entry->checks_ok &= ~bit;
        else if (outcome->status == ATTN_PASS && !(entry->checks_done & bit))
            entry->checks_ok |= bit;
        else
            continue;
        entry->checks_done |= bit;
    }
}

void attn_verify_placement(struct attn_seat *seat, struct attn_instance *instance,
                           struct attn_judge *judge, enum attn_placement placement,
                           struct attn_entry *entry, struct attn_judgement *verdict)
{
    struct attn_outcome outcome = attn_seat_worker(seat);
    double seconds = 0;
    if (outcome.status == ATTN_PASS) {
        outcome = attn_worker_verify(seat->worker, instance, placement, 1, &entry->plan, &seconds);
        attn_seat_after(seat, &outcome);
    }
    enter_promises(entry, &outcome);
    if (outcome.status != ATTN_PASS) {
        attn_judgement_set(verdict, outcome.status, outcome.reason);
        return;
    }
    entry->seconds = entry->seconds > 0 ? fmin(entry->seconds, seconds) : seconds;
    uint32_t exactness = entry->contestant->info.exactness;
    if (exactness == ATTN_NONE)
        attn_judgement_set(verdict, ATTN_PASS, "");
    else if (!entry->plan.has_numerics)
        attn_judgement_set(verdict, ATTN_ERROR,
                           "the plan declares no numerics, so it has no bound");
    else
        attn_examine_outputs(judge, &entry->plan.numerics, exactness == ATTN_APPROXIMATE, verdict);
}

void attn_verify_power(struct attn_power_trials **trials, const struct attn_judge *judge,
                       const struct attn_judgement *verdict, struct attn_entry *entry)
{
    struct attn_evidence evidence;
    if (attn_status_holds(verdict->status) && entry->plan.has_numerics &&
        entry->contestant->info.exactness == ATTN_EXACT && attn_judge_evidence(judge, &evidence))
        attn_power_measure(trials, &evidence, &entry->plan.numerics, &entry->power);
}

/* Does `supports` refuse what has no meaning? A backend that computes nothing may accept it. */
static bool refuses_unknowns(struct attn_seat *seat, const struct attn_instance *instance,
                             struct attn_entry *entry)
{
    const unsigned bit = 1u << ATTN_CHECK_UNKNOWNS;
    if (entry->contestant->info.exactness == ATTN_NONE)
        return true;
    const struct attn_outcome outcome = attn_seat_unknowns(seat, instance);
    if (outcome.status == ATTN_PASS || outcome.status == ATTN_FAIL) {
        entry->checks_done |= bit;
        entry->checks_ok |= outcome.status == ATTN_PASS ? bit : 0;
    }
    if (outcome.status != ATTN_PASS)
        attn_judgement_set(&entry->verdict, outcome.status, outcome.reason);
    return outcome.status == ATTN_PASS;
}

/* Is a refusal of a problem, or of its operands, no fault: on a list, or not of the suite. */
static bool may_refuse(const struct attn_seat *seat, const struct attn_entry *entry)
{
    return !attn_suite_is_standard(seat->session->paths, entry->c) ||
           attn_expected_skip(entry->contestant->skips, entry->contestant->n_skips,
                              entry->c->name) != NULL;
}

void attn_verify_entry(struct attn_seat *seat, struct attn_instance *instance,
                       struct attn_judge *judge, struct attn_entry *entry)
{
    entry->verified = true;
    entry->nnz = instance->nnz;
    entry->flops = instance->flops;
    entry->bytes = instance->bytes;
    struct attn_outcome outcome = attn_seat_worker(seat);
    if (outcome.status == ATTN_SKIP) /* this machine lacks what the backend needs */
        entry->harmless = true;
    if (outcome.status == ATTN_PASS) {
        outcome = attn_worker_supports(seat->worker, instance);
        attn_seat_after(seat, &outcome);
        if (outcome.status == ATTN_SKIP)
            entry->harmless = may_refuse(seat, entry);
    }
    if (outcome.status != ATTN_PASS) {
        attn_judgement_set(&entry->verdict, outcome.status, outcome.reason);
        return;
    }
    if (!refuses_unknowns(seat, instance, entry))
        return;
    /* The case that a smaller one stands in for was within the limit. */
    if (!entry->stands_in && attn_predict_refuses(seat, instance, &entry->verdict)) {
        entry->harmless = true;
        return;
    }
    attn_verify_placement(seat, instance, judge, ATTN_PLACE_END, entry, &entry->verdict);
    if (entry->verdict.status == ATTN_SKIP)
        entry->harmless = may_refuse(seat, entry);
    if (entry->verdict.rows_checked > 0)
        attn_judge_grade(judge, &entry->verdict);
    entry->end_done = true;
    entry->end_ok = attn_status_holds(entry->verdict.status);
    seat->was_wrong = seat->was_wrong || !entry->end_ok;
    attn_predict_saw(seat, instance, entry->seconds);
    if (!entry->end_ok || entry->seconds > second_placement_s ||
        entry->contestant->info.exactness == ATTN_NONE)
        return;
    struct attn_judgement second;
    attn_verify_placement(seat, instance, judge, ATTN_PLACE_START, entry, &second);
    entry->start_done = true;
    entry->start_ok = attn_status_holds(second.status);
    attn_judgement_merge(&entry->verdict, &second);
}
