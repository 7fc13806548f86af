/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c - pairs of fresh workers, until the rule decides. */
#include "live/compare.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/entropy.h"
#include "host/live.h"
#include "run/variants.h"
#include "run/verify.h"

/* How long a pair waits for processors that another attnbench has claimed. */
#define PATIENCE_S 60.0

/* How long is looked for the idlest processors: ticks of the kernel take 10 ms. Less where pairs
 * are short. */
#define LOOK_S     0.06
#define LOOK_SHARE 0.2

/* One comparison under way. */
struct match {
    struct attn_session *session;
    const struct attn_live_options *options;
    struct attn_entry entries[2];
    struct attn_variants variants;
    int64_t iterations[2]; /* runs of a batch, as the first pair has found them; 0: not yet */
    struct attn_live_result *result;
};

/* A contestant in a pair. */
struct player {
    struct attn_seat seat;
    struct attn_live *live;
    bool parked; /* its threads would take the other's processors: they are stopped meanwhile */
    struct attn_outcome outcome;
    struct attn_bench_reply reply;
    struct attn_judgement verdict;
};

static void signal_player(const struct player *player, int number)
{
    const long pid = player->parked ? attn_worker_pid(player->seat.worker) : 0;
    if (pid > 0)
        kill(-(pid_t)pid, number);
}

static int batch(void *context, bool exchange, struct attn_live_sample *sample)
{
    struct player *player = context;
    signal_player(player, SIGCONT);
    player->outcome = attn_live_batch(player->live, exchange, sample);
    signal_player(player, SIGSTOP);
    return player->outcome.status == ATTN_PASS ? 0 : -1;
}

static double world_now(void *context)
{
    (void)context;
    return attn_now();
}

static void world_pause(void *context, double seconds)
{
    (void)context;
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * seconds)}, NULL);
}

static bool world_stopped(void *context)
{
    (void)context;
    return attn_interrupted != 0;
}

/* Starts a fresh worker on the claimed processors, with a plan ready in it. */
static void enter(struct match *match, int side, const struct attn_claim *claim,
                  struct player *player, struct attn_live_sample *first)
{
    const struct attn_live_params params = {.iterations = match->iterations[side],
                                            .twin = match->variants.twin,
                                            .spots = match->variants.spots,
                                            .n_spots = match->variants.n_spots,
                                            .mixed = match->variants.mixed};
    attn_seat_init(&player->seat, match->session, match->result->sides[side]);
    player->seat.processors = claim->processors;
    player->outcome = attn_seat_worker(&player->seat);
    if (player->outcome.status == ATTN_PASS)
        player->outcome = attn_live_begin(player->seat.worker, match->variants.base, &params,
                                          &player->live, first);
    /* Threads of a pool may spin while they have nothing to do. */
    player->parked = match->session->settings.threads > 1 && !match->session->settings.debug;
    if (player->live)
        signal_player(player, SIGSTOP);
    if (player->live && match->iterations[side] == 0)
        match->iterations[side] = first->iterations;
}

/* Ends a player's timing and judges what it has computed. */
static void leave(struct match *match, int side, struct player *player)
{
    struct attn_entry *entry = &match->entries[side];
    const uint32_t exactness = entry->contestant->info.exactness;
    signal_player(player, SIGCONT);
    player->parked = false;
    if (player->live)
        player->outcome = attn_live_end(player->live, &player->reply, &entry->plan);
    player->live = NULL;
    attn_seat_free(&player->seat);
    if (player->outcome.status != ATTN_PASS || exactness == ATTN_NONE || attn_interrupted)
        return;
    attn_variants_judge(&match->variants, &player->reply, &entry->plan.numerics,
                        exactness == ATTN_APPROXIMATE, &player->verdict);
    if (player->verdict.status != ATTN_FAIL && player->verdict.status != ATTN_ERROR)
        return;
    player->outcome.status = player->verdict.status;
    snprintf(player->outcome.reason, sizeof player->outcome.reason, "%.511s",
             player->verdict.reason);
}

/* What went wrong while timed is a verdict of its own, and ends the comparison. */
static int failed(struct match *match, int side, const struct attn_outcome *outcome, char *why,
                  size_t size)
{
    struct attn_entry *entry = &match->entries[side];
    struct attn_live_result *result = match->result;
    char name[600];
    entry->broke_timed = true;
    entry->verdict.status = outcome->status;
    entry->harmless = outcome->status == ATTN_SKIP;
    snprintf(entry->verdict.reason, sizeof entry->verdict.reason, "while timed: %.480s",
             outcome->reason);
    snprintf(result->reason, sizeof result->reason, "%.100s, %s %.480s",
             attn_live_name(entry->contestant, name, sizeof name),
             attn_status_name(outcome->status), entry->verdict.reason);
    return attn_verify_finish(match->session, entry, NULL, why, size);
}

static void record_pair(struct match *match, const struct attn_pair_figures *figures,
                        const struct attn_claim *claim)
{
    struct attn_live_pair *pair = &match->result->pairs[match->result->n_pairs++];
    pair->figures = *figures;
    pair->n_processors = claim->n;
    memcpy(pair->processors, claim->processors, sizeof pair->processors);
    pair->alone = claim->alone;
    pair->steal = attn_claim_steal(claim);
    if (getloadavg(&pair->load, 1) != 1)
        pair->load = -1;
}

/* One pair. *ended: there will be no other, because a side has failed or the work was stopped. */
static int measure_pair(struct match *match, bool *ended, char *why, size_t size)
{
    /* All pairs by one clock, or their numbers would not be of one kind. */
    const uint32_t *clock =
        match->result->n_pairs > 0 ? &match->result->pairs[0].figures.clock : NULL;
    const struct attn_cycles_world world = {.now = world_now,
                                            .pause = world_pause,
                                            .stopped = world_stopped,
                                            .random = attn_entropy(),
                                            .clock = clock,
                                            .least_s = match->options->pair_s};
    struct player players[2] = {{.live = NULL}, {.live = NULL}};
    const struct attn_side sides[2] = {{batch, &players[0]}, {batch, &players[1]}};
    struct attn_live_sample first[2];
    struct attn_pair_figures figures;
    struct attn_claim claim;
    const uint32_t threads = (uint32_t)match->session->settings.threads;
    const double look = fmin(LOOK_S, LOOK_SHARE * match->options->pair_s);
    if (attn_claim_take(threads, look, PATIENCE_S, &claim, why, size))
        return -1;
    const int begins = (int)(world.random & 1);
    for (int turn = 0; turn < 2; turn++)
        enter(match, begins ^ turn, &claim, &players[begins ^ turn], &first[begins ^ turn]);
    const bool ready = players[0].live && players[1].live;
    const bool done = ready && attn_cycles_run(sides, first, &world, &figures) == 0;
    if (done)
        record_pair(match, &figures, &claim);
    for (int s = 0; s < 2; s++)
        leave(match, s, &players[s]);
    attn_claim_give(&claim);
    *ended = attn_interrupted != 0;
    for (int s = 0; s < 2 && !*ended; s++)
        if (players[s].outcome.status != ATTN_PASS) {
            *ended = true;
            return failed(match, s, &players[s].outcome, why, size);
        }
    if (!*ended && !done) {
        snprintf(why, size, "no memory for the cycles of a pair");
        return -1;
    }
    return 0;
}

static int measure(struct match *match, char *why, size_t size)
{
    struct attn_live_result *result = match->result;
    struct attn_paired *paired = &result->paired;
    const double began = attn_now();
    int status = 0;
    bool ended = false;
    while (paired->verdict == ATTN_PAIRED_GO_ON && !ended && status == 0) {
        status = measure_pair(match, &ended, why, size);
        if (status || ended)
            break;
        attn_paired_add(paired, result->pairs[result->n_pairs - 1].figures.ratio);
        if (paired->verdict == ATTN_PAIRED_GO_ON && attn_session_over(match->session)) {
            paired->verdict = ATTN_PAIRED_UNCLEAR;
            result->out_of_time = true;
        }
    }
    result->seconds = attn_now() - began;
    result->compared = status == 0 && !ended;
    if (attn_interrupted)
        snprintf(result->reason, sizeof result->reason, "interrupted");
    return status;
}

/* Why there is nothing to compare; NULL: both sides may be timed. */
static const struct attn_entry *not_timed(const struct match *match)
{
    for (int s = 0; s < 2; s++) {
        const enum attn_status status = match->entries[s].verdict.status;
        if (status != ATTN_PASS && status != ATTN_MISTRUSTED && status != ATTN_APPROX)
            return &match->entries[s];
    }
    return NULL;
}

int attn_live_compare(struct attn_session *session, const struct attn_case *c,
                      const struct attn_live_options *options, struct attn_live_result *result,
                      char *why, size_t size)
{
    struct match match = {.session = session, .options = options, .result = result};
    struct attn_seat seats[2];
    char name[600];
    *result = (struct attn_live_result){
        .c = c, .sides = {&session->roster.items[0], &session->roster.items[1]}};
    attn_case_id(c, result->id);
    attn_paired_begin(&result->paired, log1p(options->margin));
    for (int s = 0; s < 2; s++)
        attn_seat_init(&seats[s], session, result->sides[s]);
    struct attn_verification v = {.c = c, .seats = seats, .entries = match.entries};
    int status = attn_verify_case(session, &v, NULL, why, size);
    for (int s = 0; s < 2; s++)
        attn_seat_free(&seats[s]);
    const struct attn_entry *bad = status == 0 ? not_timed(&match) : NULL;
    if (attn_interrupted) {
        snprintf(result->reason, sizeof result->reason, "interrupted");
    } else if (bad) {
        snprintf(result->reason, sizeof result->reason, "%.100s: %s: %.480s",
                 attn_live_name(bad->contestant, name, sizeof name),
                 attn_status_name(bad->verdict.status), bad->verdict.reason);
    } else if (status == 0 && v.instance) {
        attn_variants_create(v.instance, v.judge, session->settings.host_threads, &match.variants);
        status = measure(&match, why, size);
        attn_variants_free(&match.variants);
    }
    attn_judge_free(v.judge);
    attn_instance_free(v.instance);
    for (int s = 0; s < 2; s++)
        attn_entry_clear(&match.entries[s]);
    return status;
}

enum attn_exit attn_live_exit(const struct attn_live_result *result)
{
    if (!result->compared)
        return ATTN_EXIT_OK;
    return result->paired.verdict == ATTN_PAIRED_SLOWER    ? ATTN_EXIT_REGRESSION
           : result->paired.verdict == ATTN_PAIRED_UNCLEAR ? ATTN_EXIT_INCONCLUSIVE
                                                           : ATTN_EXIT_OK;
}
