/* SPDX-License-Identifier: Apache-2.0 */
/* seat.c - starts and stops a backend's workers, and remembers its rates. */
#include "run/seat.h"

#include <math.h>
#include <stdlib.h>

#include "run/progress.h"

void attn_seat_init(struct attn_seat *seat, const struct attn_session *session,
                    const struct attn_contestant *contestant)
{
    *seat = (struct attn_seat){.session = session, .contestant = contestant};
}

static struct attn_outcome start(struct attn_seat *seat, int threads, struct attn_worker **worker)
{
    const struct attn_settings *s = &seat->session->settings;
    if (seat->contestant->missing || seat->contestant->lost) {
        struct attn_outcome outcome = {.status = seat->contestant->lost ? seat->contestant->lost
                                                                        : ATTN_SKIP};
        snprintf(outcome.reason, sizeof outcome.reason, "%s", seat->contestant->info.reason);
        return outcome;
    }
    struct attn_worker_config config = {
        .worker_path = seat->contestant->worker,
        .plugin_path = seat->contestant->plugin,
        .backend = seat->contestant->offered,
        .options = seat->contestant->options,
        .threads = threads,
        .processors = seat->processors,
        .log_path = *seat->session->log ? seat->session->log : NULL,
        .timeout_s = s->timeout_s,
        .rss_limit = s->memory,
        .foreground = s->debug,
    };
    const struct attn_outcome outcome = attn_worker_start(&config, worker);
    if (s->debug && outcome.status == ATTN_PASS)
        attn_progress_debug(seat->contestant->info.name, attn_worker_pid(*worker));
    return outcome;
}

struct attn_outcome attn_seat_worker(struct attn_seat *seat)
{
    return seat->worker ? (struct attn_outcome){.status = ATTN_PASS}
                        : start(seat, seat->session->settings.threads, &seat->worker);
}

struct attn_outcome attn_seat_supports(struct attn_seat *seat, const struct attn_instance *instance)
{
    struct attn_outcome outcome = attn_seat_worker(seat);
    if (outcome.status == ATTN_PASS) {
        outcome = attn_worker_supports(seat->worker, instance);
        attn_seat_after(seat, &outcome);
    }
    return outcome;
}

struct attn_outcome attn_seat_other(struct attn_seat *seat)
{
    if (seat->other || seat->other_tried)
        return (struct attn_outcome){.status = seat->other ? ATTN_PASS : ATTN_SKIP};
    seat->other_tried = true;
    if (seat->session->settings.debug) /* one worker is enough in the foreground */
        return (struct attn_outcome){.status = ATTN_SKIP};
    return start(seat, seat->session->settings.threads == 1 ? 2 : 1, &seat->other);
}

void attn_seat_after(struct attn_seat *seat, const struct attn_outcome *outcome)
{
    bool sound = outcome->status == ATTN_PASS || outcome->status == ATTN_SKIP ||
                 outcome->status == ATTN_FAIL;
    if (!sound)
        attn_seat_leave(seat);
}

void attn_seat_plan_free(struct attn_seat_plan *plan)
{
    if (!plan)
        return;
    attn_judge_free(plan->judge);
    attn_instance_free(plan->instance);
    attn_case_free(&plan->c);
    free(plan);
}

void attn_seat_leave(struct attn_seat *seat)
{
    attn_seat_plan_free(seat->age);
    seat->age = NULL;
    attn_worker_stop(seat->worker);
    attn_worker_stop(seat->other);
    seat->worker = seat->other = NULL;
    seat->other_tried = false;
}

void attn_seat_free(struct attn_seat *seat)
{
    attn_seat_leave(seat);
    free(seat->rates);
    seat->rates = NULL;
    seat->n_rates = 0;
    free(seat->answers);
    seat->answers = NULL;
    seat->n_answers = 0;
    free(seat->ages);
    seat->ages = NULL;
    seat->n_ages = 0;
}

static struct attn_seat_answer *answer_of(struct attn_seat *seat, const struct attn_problem *p)
{
    for (size_t a = 0; a < seat->n_answers; a++)
        if (seat->answers[a].op == p->op && seat->answers[a].score == p->score)
            return &seat->answers[a];
    return NULL;
}

bool attn_seat_once(struct attn_seat *seat, const struct attn_problem *problem)
{
    bool first = seat->n_answers > 0;
    for (size_t a = 0; a < seat->n_answers; a++)
        first = first && !(seat->answers[a].op == problem->op && seat->answers[a].grown);
    struct attn_seat_answer *answer = answer_of(seat, problem);
    if (first && answer)
        answer->grown = true;
    return first && answer;
}

struct attn_outcome attn_seat_unknowns(struct attn_seat *seat, const struct attn_instance *instance)
{
    const struct attn_problem *p = &instance->problem;
    const struct attn_seat_answer *known = answer_of(seat, p);
    if (known)
        return known->outcome;
    struct attn_outcome outcome = attn_seat_worker(seat);
    if (outcome.status != ATTN_PASS)
        return outcome;
    outcome = attn_worker_unknowns(seat->worker, instance);
    attn_seat_after(seat, &outcome);
    if (outcome.status != ATTN_PASS && outcome.status != ATTN_FAIL)
        return outcome;
    struct attn_seat_answer *grown =
        realloc(seat->answers, (seat->n_answers + 1) * sizeof *seat->answers);
    if (grown) { /* else the worker is asked again */
        seat->answers = grown;
        seat->answers[seat->n_answers++] =
            (struct attn_seat_answer){.op = p->op, .score = p->score, .outcome = outcome};
    }
    return outcome;
}

/* FLOPs a byte from which on arithmetic takes the time. Decoding has 0.5 to 16 (in f32 with heads
 * of their own, in bf16 with 8 queries a key head), prefill of 256 positions 64 and more. */
#define BY_ARITHMETIC 32

bool attn_seat_by_memory(double flops, uint64_t bytes)
{
    return flops < BY_ARITHMETIC * (double)bytes;
}

struct attn_seat_kind attn_seat_kind_of(const struct attn_problem *problem, uint32_t dtype,
                                        double flops, double dense, uint64_t bytes)
{
    return (struct attn_seat_kind){problem->op, problem->score, dtype,
                                   attn_seat_by_memory(flops, bytes), 4 * flops < dense};
}

static struct attn_seat_rate *rate_of(const struct attn_seat *seat,
                                      const struct attn_seat_kind *kind)
{
    for (size_t r = 0; r < seat->n_rates; r++) {
        const struct attn_seat_kind *k = &seat->rates[r].kind;
        if (k->op == kind->op && k->score == kind->score && k->dtype == kind->dtype &&
            k->by_memory == kind->by_memory && k->sparse == kind->sparse)
            return &seat->rates[r];
    }
    return NULL;
}

const struct attn_seat_rate *attn_seat_rate(const struct attn_seat *seat,
                                            const struct attn_seat_kind *kind)
{
    return rate_of(seat, kind);
}

void attn_seat_saw_run(struct attn_seat *seat, const struct attn_seat_kind *kind, double flops,
                       double seconds)
{
    struct attn_seat_rate *rate = rate_of(seat, kind);
    if (rate) {
        rate->runs++;
        rate->flops = fmax(rate->flops, flops / seconds);
        if (seconds > rate->seconds) {
            if (2 * rate->longest < flops) {
                rate->before_flops = rate->longest;
                rate->before_s = rate->seconds;
            }
            rate->seconds = seconds;
            rate->longest = flops;
        }
        return;
    }
    rate = realloc(seat->rates, (seat->n_rates + 1) * sizeof *rate);
    if (!rate)
        return;
    seat->rates = rate;
    seat->rates[seat->n_rates++] = (struct attn_seat_rate){
        .kind = *kind, .flops = flops / seconds, .runs = 1, .seconds = seconds, .longest = flops};
}
