/* SPDX-License-Identifier: Apache-2.0 */
/* paired.c - rounds of turns: which cases and backends have them, with fresh workers in each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/paired_pass.h"
#include "bench/settle.h"
#include "bench/turns_record.h"
#include "results/field.h"
#include "run/restore.h"

/* How long the idlest processors are looked for: ticks of the kernel take 10 ms. */
#define LOOK_S 0.06
/* How long a round waits for processors that another attnbench has claimed. It goes on without
 * them, and says so: two runs beside each other must both end in their time. */
#define PATIENCE_S 0.5

/* Rounds of turns, over the others: they cost less, and more of them make intervals narrow. With a
 * budget, which ends them, more are worth the time. */
enum { TURNS_TIMES = 2, TURNS_TIMES_BUDGET = 4 };

/* So many rounds are to fit into the budget. A fifth to a half of them are disturbed, and the
 * interval of eight is 1.7 times their spread, that of five 2.5 times. */
enum { ROUNDS_WANTED = 12 };

/* With a budget, a backend so many times as slow as the fastest has no turns, which go to more
 * cases. */
#define HOPELESS 4

int attn_pass_rounds_most(const struct attn_settings *s)
{
    const int times = s->budget_s > 0 ? TURNS_TIMES_BUDGET : TURNS_TIMES;
    const int most = s->rounds > 1 ? times * s->rounds : 1;
    return most < ATTN_ROUNDS_MAX ? most : ATTN_ROUNDS_MAX;
}

bool attn_pass_can_play(const struct attn_pass *pass, size_t i, size_t b)
{
    const struct attn_entry *entry = attn_pass_entry(pass, i, b);
    return entry->timed && !entry->enough && entry->contestant->info.exactness != ATTN_NONE &&
           entry->n_rounds[ATTN_HOT] > 0 && !*attn_pass_rounds(pass, i, b)->why_not;
}

bool attn_pass_takes_part(const struct attn_pass *pass, size_t i, size_t b)
{
    const struct attn_paired_rounds *p = attn_pass_rounds(pass, i, b);
    return attn_pass_can_play(pass, i, b) &&
           p->n < attn_pass_rounds_most(&pass->session->settings) && !(pass->wanting && p->settled);
}

/* Is there a backend that has not had all its rounds of a case that was chosen? */
static bool has_turns(const struct attn_pass *pass, size_t i)
{
    for (size_t b = 0; b < pass->session->roster.count && pass->choices[i].chosen; b++)
        if (attn_pass_takes_part(pass, i, b))
            return true;
    return false;
}

int attn_pass_rounds_planned(const struct attn_pass *pass)
{
    const int most = attn_pass_rounds_most(&pass->session->settings);
    return most < ROUNDS_WANTED ? most : ROUNDS_WANTED;
}

static int rounds_made(const struct attn_pass *pass, size_t i)
{
    int made = 0;
    for (size_t b = 0; b < pass->session->roster.count; b++)
        made = attn_pass_rounds(pass, i, b)->n > made ? attn_pass_rounds(pass, i, b)->n : made;
    return made;
}

/* Are the ratios of all its backends known? The fastest is none of the settled. */
static bool is_settled(const struct attn_pass *pass, size_t i)
{
    size_t open = 0, settled = 0;
    for (size_t b = 0; b < pass->session->roster.count; b++)
        if (attn_pass_can_play(pass, i, b)) {
            settled += attn_pass_rounds(pass, i, b)->settled;
            open += !attn_pass_rounds(pass, i, b)->settled;
        }
    return settled > 0 && open == 1;
}

/* How many of those planned a case wants still. */
static int rounds_wanted(const struct attn_pass *pass, size_t i)
{
    const int planned = attn_pass_rounds_planned(pass), made = rounds_made(pass, i);
    return made < planned && !is_settled(pass, i) ? planned - made : 0;
}

/* What all rounds so far took over what they were expected to take. */
static double turns_cost(const struct attn_pass *pass)
{
    double took = 0, expected = 0;
    for (size_t i = 0; i < pass->block->count; i++)
        for (size_t b = 0; b < pass->session->roster.count; b++) {
            const struct attn_paired_rounds *p = attn_pass_rounds(pass, i, b);
            if (p->n > 0) {
                took += p->seconds / p->n;
                expected += attn_pass_side_cost(attn_pass_entry(pass, i, b));
            }
        }
    return expected > 0 ? took / expected : 1;
}

/* What a round of turns of a case takes: as those before did, or as it is expected to. */
static double cost_of(const struct attn_pass *pass, size_t i, double times)
{
    double sum = 0;
    for (size_t b = 0; b < pass->session->roster.count; b++)
        if (attn_pass_takes_part(pass, i, b)) {
            const struct attn_paired_rounds *p = attn_pass_rounds(pass, i, b);
            sum += p->n > 0 ? p->seconds / p->n
                            : times * attn_pass_side_cost(attn_pass_entry(pass, i, b));
        }
    return sum;
}

/* Is a case to have turns in this round? */
static bool is_due(const struct attn_pass *pass, size_t i)
{
    return has_turns(pass, i) && !(pass->wanting && rounds_wanted(pass, i) == 0);
}

/* Starts the workers of a round before its cases, so that none of these is charged with it: a
 * library may take seconds. What goes wrong is said where the worker is needed. */
static void start_workers(struct attn_pass *pass)
{
    const double began = attn_now();
    for (size_t b = 0; b < pass->session->roster.count; b++) {
        bool needed = false;
        for (size_t i = 0; i < pass->block->count; i++)
            needed = needed || (is_due(pass, i) && attn_pass_takes_part(pass, i, b));
        if (needed && !attn_interrupted)
            attn_seat_worker(&pass->seats[b]);
    }
    pass->starting_s = attn_now() - began;
}

/* One round: fresh workers, all chosen cases; as long as some want rounds, these alone. Cases that
 * would end after `until` are left out, but not in the first round. *any: was there one? */
static int time_round(struct attn_pass *pass, double until, double left_s, bool *any)
{
    struct attn_session *session = pass->session;
    const size_t n = session->roster.count;
    const double times = turns_cost(pass);
    const int most = attn_pass_rounds_most(&session->settings); /* more, where cases were put off */
    char ignored[256];
    int result = 0;
    pass->wanting = false;
    for (size_t i = 0; i < pass->block->count; i++)
        pass->wanting = pass->wanting || (has_turns(pass, i) && rounds_wanted(pass, i) > 0);
    if (attn_claim_take((uint32_t)session->settings.threads, LOOK_S, PATIENCE_S, &pass->claim,
                        ignored, sizeof ignored))
        pass->claim = (struct attn_claim){.n = 0};
    for (size_t b = 0; b < n; b++) {
        attn_seat_init(&pass->seats[b], session, &session->roster.items[b]);
        pass->seats[b].processors = pass->claim.n > 0 ? pass->claim.processors : NULL;
    }
    start_workers(pass);
    *any = false;
    for (size_t i = 0; i < pass->block->count && result == 0 && !attn_interrupted; i++) {
        if (!is_due(pass, i) || (pass->round > 0 && attn_now() + cost_of(pass, i, times) > until))
            continue;
        *any = true;
        attn_progress_round(pass->block->progress, pass->round, most, left_s, ATTN_PROGRESS_TURNS,
                            attn_pass_entry(pass, i, 0)->c);
        result = attn_pass_time_case(pass, i);
    }
    for (size_t b = 0; b < n; b++)
        attn_seat_free(&pass->seats[b]);
    attn_claim_give(&pass->claim);
    return result;
}

/* The median of the hot rounds of a backend that takes part; INFINITY: there is none. */
static double median_of(const struct attn_pass *pass, size_t i, size_t b)
{
    struct attn_summary s;
    return attn_pass_takes_part(pass, i, b) &&
                   attn_entry_summary(attn_pass_entry(pass, i, b), ATTN_HOT, &s)
               ? s.median
               : INFINITY;
}

/* Leaves out of a case's turns what is far slower than the fastest. The next one stays. */
static void leave_out_hopeless(struct attn_pass *pass, size_t i)
{
    double first = INFINITY, second = INFINITY;
    for (size_t b = 0; b < pass->session->roster.count; b++) {
        const double median = median_of(pass, i, b);
        second = fmin(second, fmax(first, median));
        first = fmin(first, median);
    }
    for (size_t b = 0; b < pass->session->roster.count; b++) {
        const double median = median_of(pass, i, b);
        if (isfinite(median) && median > fmax(HOPELESS * first, second))
            snprintf(attn_pass_rounds(pass, i, b)->why_not,
                     sizeof attn_pass_rounds(pass, i, b)->why_not,
                     "with a budget it has no turns: the fastest takes less than 1/%d of its time",
                     HOPELESS);
    }
}

/* Of the time for rounds, what goes to those that are put off. */
#define PUT_OFF_SHARE 0.25

/* Looks which backends of a case are settled. Returns 0, or -1: no memory. */
static int settle_case(const struct attn_pass *pass, size_t i)
{
    const size_t all = pass->session->roster.count;
    struct attn_paired_rounds **playing = calloc(all, sizeof(struct attn_paired_rounds *));
    size_t n = 0;
    for (size_t b = 0; b < all && playing; b++)
        if (attn_pass_can_play(pass, i, b))
            playing[n++] = attn_pass_rounds(pass, i, b);
    const int result = playing ? attn_settle(playing, n) : -1;
    if (result)
        snprintf(pass->why, pass->size, "no memory for the ratios of %zu backends", all);
    free(playing);
    return result;
}

/* Chooses cases, as long as there is time for the rounds that all of them want. Returns 0, or -1:
 * no memory. */
static int choose_cases(struct attn_pass *pass, double until)
{
    const double times = turns_cost(pass);
    for (size_t i = 0; i < pass->block->count; i++) {
        struct attn_choice *choice = &pass->choices[i];
        if (isfinite(until) && settle_case(pass, i))
            return -1;
        choice->made = rounds_made(pass, i);
        choice->cost = rounds_wanted(pass, i) * cost_of(pass, i, times) /
                       (choice->made > 1 ? 1 : 1 - PUT_OFF_SHARE);
    }
    /* Workers start in every round, whichever cases it has. */
    const double left = until - attn_now(),
                 starting = attn_pass_rounds_planned(pass) * pass->starting_s;
    attn_choose(pass->choices, pass->block->count, left - fmin(starting, left / 2));
    return 0;
}

/* Says of the cases that were not chosen why. */
static void leave_out_rest(const struct attn_pass *pass)
{
    for (size_t i = 0; i < pass->block->count; i++)
        for (size_t b = 0; b < pass->session->roster.count && !pass->choices[i].chosen; b++)
            if (attn_pass_takes_part(pass, i, b))
                snprintf(attn_pass_rounds(pass, i, b)->why_not,
                         sizeof attn_pass_rounds(pass, i, b)->why_not,
                         "the budget has no time for %d rounds of turns; a larger --budget has",
                         attn_pass_rounds_planned(pass));
}

/* Takes over a round of a case that an earlier command has recorded. Returns 0, or -1: no memory.
 */
static int restore_round(struct attn_pass *pass, size_t i, size_t anchor, const json_t *record)
{
    const double seconds = attn_field_number(record, "seconds");
    for (size_t b = 0; b < pass->session->roster.count; b++) {
        struct attn_paired_rounds *p = attn_pass_rounds(pass, i, b);
        const json_t *side = attn_turns_side_of(record, &pass->session->roster.items[b]);
        struct attn_paired_round round;
        p->put_off = (int)json_integer_value(json_object_get(record, "put_off"));
        if (!side || !attn_pass_can_play(pass, i, b) ||
            p->n >= attn_pass_rounds_most(&pass->session->settings))
            continue;
        if (attn_turns_round(record, side, &round))
            return -1;
        if (!attn_pass_add(pass, i, anchor, b, &round)) {
            free(round.side.batches);
            return -1;
        }
        p->iterations = round.side.figures.iterations;
        p->seconds += seconds > 0 ? seconds : 0;
        pass->round = pass->round > round.round ? pass->round : round.round + 1;
    }
    pass->block->anchors[i] = anchor + 1;
    return 0;
}

/* Takes over all of them. The records of a round are those of its anchor. */
static int restore_rounds(struct attn_pass *pass)
{
    const size_t n = pass->session->roster.count;
    for (size_t e = 0; e < pass->block->count * n; e++) {
        size_t r;
        json_t *record;
        json_array_foreach(attn_restore_records(pass->session, &pass->block->entries[e]), r, record)
        {
            if (strcmp(attn_field_text(record, "type"), "turns") == 0 &&
                restore_round(pass, e / n, e % n, record))
                return -1;
        }
    }
    return 0;
}

int attn_block_paired(struct attn_session *session, struct attn_block *block, double until,
                      char *why, size_t size)
{
    const struct attn_settings *s = &session->settings;
    const size_t n = session->roster.count;
    if (!s->hot || s->debug) /* a debugger wants one process at a time */
        return 0;
    block->paired = calloc(block->count * n, sizeof *block->paired);
    struct attn_pass pass = {.session = session,
                             .block = block,
                             .seats = calloc(n, sizeof *pass.seats),
                             .why = why,
                             .size = size};
    int result = block->paired && pass.seats ? 0 : -1;
    if (result == 0 && session->earlier)
        result = restore_rounds(&pass);
    if (result)
        snprintf(why, size, "no memory for %zu backends", n);
    const int restored = pass.round;
    for (size_t i = 0; i < block->count && result == 0; i++) {
        pass.choices[i].c = attn_block_entry(block, n, i, 0)->c;
        pass.choices[i].work = attn_family_work(&session->cases, pass.choices[i].c);
        if (isfinite(until))
            leave_out_hopeless(&pass, i);
    }
    const double began = attn_now();
    /* Each case is put off half as often as it has rounds, at most. */
    for (bool any = true; result == 0 && any && !attn_interrupted &&
                          (isfinite(until) || pass.round < 2 * attn_pass_rounds_most(s));
         pass.round++) {
        const int made = pass.round - restored;
        const int owed = attn_pass_rounds_most(s) - pass.round;
        const double now = attn_now();
        result = choose_cases(&pass, until);
        if (result == 0)
            result = time_round(&pass, until,
                                isfinite(until)        ? until - now
                                : made > 0 && owed > 0 ? (now - began) / made * owed
                                                       : -1,
                                &any);
    }
    if (result == 0)
        leave_out_rest(&pass);
    free(pass.seats);
    for (size_t e = 0; e < block->count * n && result == 0; e++)
        if (attn_paired_ratios(&block->paired[e])) {
            snprintf(why, size, "no memory for the ratios of %zu cases", block->count);
            result = -1;
        }
    return result;
}
