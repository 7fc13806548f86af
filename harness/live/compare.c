/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c - pairs of fresh workers, until the rule decides. */
#include "live/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/entropy.h"
#include "live/player.h"
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

/* Sides of about one speed have batches of as many runs: what the first run of a batch costs would
 * else be a difference between them. True if that changed a number. */
static bool equalise(int64_t iterations[2])
{
    const int64_t least = iterations[0] < iterations[1] ? iterations[0] : iterations[1];
    const int64_t most = iterations[0] + iterations[1] - least;
    if (least == most || most > 2 * least)
        return false;
    iterations[0] = iterations[1] = least;
    return true;
}

/* One pair, or none if the workers must begin again with another number of runs. *ended: there will
 * be no other, because a side has failed or the work was stopped. */
static int measure_pair(struct match *match, bool *ended, char *why, size_t size)
{
    /* All pairs by one clock, or their numbers would not be of one kind. */
    const uint32_t *clock =
        match->result->n_pairs > 0 ? &match->result->pairs[0].figures.clock : NULL;
    const struct attn_cycles_world world = {.turns = attn_player_world(),
                                            .random = attn_entropy(),
                                            .clock = clock,
                                            .least_s = match->options->pair_s};
    struct attn_player players[2];
    struct attn_seat seats[2];
    const struct attn_side sides[2] = {attn_player_side(&players[0]),
                                       attn_player_side(&players[1])};
    struct attn_live_sample first[2];
    struct attn_pair_figures figures;
    struct attn_claim claim;
    const uint32_t threads = (uint32_t)match->session->settings.threads;
    const double look = fmin(LOOK_S, LOOK_SHARE * match->options->pair_s);
    if (attn_claim_take(threads, look, PATIENCE_S, &claim, why, size))
        return -1;
    const int begins = (int)(world.random & 1);
    for (int turn = 0; turn < 2; turn++) {
        const int s = begins ^ turn;
        attn_seat_init(&seats[s], match->session, match->result->sides[s]);
        seats[s].processors = claim.processors;
        if (match->options->confine[1] != ATTN_CONFINE_AUTO)
            attn_confine_choose(match->options->confine[s]);
        attn_player_enter(&players[s], &seats[s], &match->variants, &match->iterations[s],
                          &first[s]);
    }
    const bool ready = players[0].live && players[1].live;
    const bool again = ready && equalise(match->iterations);
    attn_claim_enter(&claim);
    const bool done = ready && !again && attn_cycles_run(sides, first, &world, &figures) == 0;
    attn_claim_leave(&claim);
    if (done)
        record_pair(match, &figures, &claim);
    for (int s = 0; s < 2; s++) {
        attn_player_leave(&players[s], &match->variants, &match->entries[s]);
        attn_seat_free(&seats[s]);
    }
    attn_claim_give(&claim);
    *ended = attn_interrupted != 0;
    for (int s = 0; s < 2 && !*ended; s++)
        if (players[s].outcome.status != ATTN_PASS) {
            *ended = true;
            return failed(match, s, &players[s].outcome, why, size);
        }
    if (!*ended && !done && !again) {
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
        const size_t pairs = result->n_pairs;
        status = measure_pair(match, &ended, why, size);
        if (status || ended)
            break;
        if (result->n_pairs == pairs)
            continue;
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
    for (int s = 0; s < 2; s++)
        if (!attn_status_holds(match->entries[s].verdict.status))
            return &match->entries[s];
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
