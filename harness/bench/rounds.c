/* SPDX-License-Identifier: Apache-2.0 */
/* rounds.c - fresh workers time the cases of a block, round by round. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/block.h"
#include "reference/philox.h"

/* With two, a worker can tell a kernel that updates an earlier result. */
enum { COLD_SAMPLES = 1, LONG_SAMPLES = 2 };

/* A backend's turn in a round. */
struct turn {
    struct attn_session *session;
    struct attn_seat *seat;
    int round;
    char *why; /* receives what went wrong */
    size_t size;
};

/* The run that was seen while it was verified may have waited for a processor. */
static void take_shorter(struct attn_entry *entry, const struct attn_bench_reply *reply)
{
    for (int i = 0; i < reply->n; i++)
        if (1e-9 * reply->samples_ns[i] < entry->seconds)
            entry->seconds = 1e-9 * reply->samples_ns[i];
}

static int time_once(const struct turn *turn, struct attn_variants *variants,
                     struct attn_entry *entry, enum attn_cache cache)
{
    struct attn_session *session = turn->session;
    struct attn_seat *seat = turn->seat;
    const struct attn_settings *s = &session->settings;
    char *why = turn->why;
    const size_t size = turn->size;
    if (!entry->rounds[cache] &&
        !(entry->rounds[cache] = calloc((size_t)s->rounds, sizeof **entry->rounds))) {
        snprintf(why, size, "no memory for %d rounds", s->rounds);
        return -1;
    }
    struct attn_bench_params params = {.cold = cache == ATTN_COLD,
                                       .min_time = s->min_time_s,
                                       .samples = entry->seconds > ATTN_LONG_RUN_S ? LONG_SAMPLES
                                                  : cache == ATTN_COLD             ? COLD_SAMPLES
                                                                                   : s->samples,
                                       .twin = variants->twin,
                                       .spots = variants->spots,
                                       .n_spots = variants->n_spots,
                                       .mixed = variants->mixed,
                                       .scrambles = variants->scrambles};
    struct attn_bench_reply reply;
    const struct attn_plan_info verified = entry->plan;
    bool same = true;
    const double began = attn_now();
    struct attn_outcome outcome = attn_seat_worker(seat);
    if (outcome.status == ATTN_PASS) {
        outcome = attn_worker_bench(seat->worker, variants->base, &params, &reply, &entry->plan);
        same = attn_entry_keep_numerics(entry, &verified);
        attn_seat_after(seat, &outcome);
    }
    if (attn_interrupted) /* the signal cut the result short */
        return 0;
    const double timed = attn_now();
    entry->timing_s[cache] += timed - began;
    if (outcome.status != ATTN_PASS)
        return attn_block_failed(session, entry, outcome.status, outcome.reason, why, size);
    uint32_t exactness = entry->contestant->info.exactness;
    if (exactness != ATTN_NONE) {
        struct attn_judgement again;
        if (!same)
            return attn_block_failed(session, entry, ATTN_FAIL, ATTN_OTHER_NUMERICS, why, size);
        attn_variants_judge(variants, &reply, &entry->plan.numerics, exactness == ATTN_APPROXIMATE,
                            &again);
        if (again.status == ATTN_FAIL || again.status == ATTN_ERROR)
            return attn_block_failed(session, entry, again.status, again.reason, why, size);
    }
    const struct attn_round_seconds seconds = {timed - began, attn_now() - timed};
    entry->judging_s[cache] += seconds.judging;
    struct attn_round *kept = &entry->rounds[cache][entry->n_rounds[cache]++];
    entry->device = reply.after;
    kept->n = reply.n;
    memcpy(kept->samples_ns, reply.samples_ns, sizeof kept->samples_ns);
    kept->cpu_ns = attn_least_known(reply.cpu_ns, (size_t)reply.n);
    take_shorter(entry, &reply);
    if (attn_session_record(
            session, attn_round_record(entry, session, cache, turn->round, &reply, seconds))) {
        snprintf(why, size, "a record cannot be written: %m");
        return -1;
    }
    return 0;
}

/* Has a case cold timings? With a budget for many cases only where they differ most from hot ones,
 * and a run is more than a call. */
static bool is_cold(const struct attn_session *session, const struct attn_case *c)
{
    const struct attn_settings *s = &session->settings;
    const bool all =
        s->cold_asked || s->budget_s <= 0 || session->cases.count <= ATTN_BLOCK_FEW_CASES;
    return s->cold && (all || (!attn_block_is_small(c) &&
                               attn_seat_by_memory(attn_case_flops(c, attn_case_cells(c)),
                                                   attn_case_bytes(c))));
}

/* Is a round of an entry to be made? Not if an earlier command has made it. */
static bool is_wanted(const struct attn_session *session, const struct attn_entry *entry,
                      enum attn_cache cache, int round)
{
    const bool none = entry->contestant->info.exactness == ATTN_NONE;
    return entry->timed && !entry->enough && entry->n_rounds[cache] <= round &&
           (cache == ATTN_HOT
                ? session->settings.hot || none
                : !none && entry->seconds < ATTN_LONG_RUN_S && is_cold(session, entry->c));
}

static bool is_owed(const struct attn_session *session, const struct attn_entry *entry, int round)
{
    return is_wanted(session, entry, ATTN_HOT, round) ||
           is_wanted(session, entry, ATTN_COLD, round);
}

/* Is any round of this number to be made? */
static bool any_owed(const struct attn_session *session, const struct attn_block *block, int round)
{
    for (size_t e = 0; e < block->count * session->roster.count; e++)
        if (is_owed(session, &block->entries[e], round))
            return true;
    return false;
}

/* One backend's turn in a round: a fresh worker, all cases of the block but those left out (NULL:
 * none are). None begins after `until`. */
static int take_turn(struct attn_session *session, struct attn_block *block, size_t b, int round,
                     const bool *left_out, double until, double left_s, char *why, size_t size)
{
    const struct attn_settings *s = &session->settings;
    size_t n = session->roster.count;
    struct attn_seat seat;
    attn_seat_init(&seat, session, &session->roster.items[b]);
    const struct turn turn = {session, &seat, round, why, size};
    int result = 0;
    for (size_t i = 0; i < block->count && result == 0 && !attn_interrupted; i++) {
        struct attn_entry *entry = attn_block_entry(block, n, i, b);
        bool none = entry->contestant->info.exactness == ATTN_NONE;
        if (!is_owed(session, entry, round) || (left_out && left_out[i]) || attn_now() > until)
            continue;
        struct attn_variants *variants = attn_block_variants(session, block, i);
        /* Neither always comes after the other. */
        for (int k = 0; k < ATTN_CACHES && result == 0; k++) {
            const enum attn_cache cache = ((size_t)(round + k) + i) % 2 ? ATTN_COLD : ATTN_HOT;
            if (!is_wanted(session, entry, cache, round))
                continue;
            if (!none)
                attn_progress_round(block->progress, round, s->rounds, left_s,
                                    entry->contestant->info.name, entry->c);
            result = time_once(&turn, variants, entry, cache);
        }
    }
    attn_seat_free(&seat);
    return result;
}

/* A random order of the backends, new in each round; the same numbers on every machine. */
static void shuffle(size_t *order, size_t n, uint32_t block, uint32_t round)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) {
        uint32_t counter[4] = {(uint32_t)i, round, block, 0}, key[2] = {0x6f726465u, 0}, word[4];
        attn_philox4x32(counter, key, word);
        size_t k = word[0] % i, kept = order[i - 1];
        order[i - 1] = order[k];
        order[k] = kept;
    }
}

/* The cases from `first` on have no more rounds; those without any are not timed. */
static int give_up(struct attn_session *session, struct attn_block *block, size_t first, char *why,
                   size_t size)
{
    const size_t n = session->roster.count;
    char reason[128];
    int result = 0;
    snprintf(reason, sizeof reason, ATTN_TIME_USED_UP " (%g s)", session->settings.budget_s);
    for (size_t e = first * n; e < block->count * n && result == 0; e++) {
        struct attn_entry *entry = &block->entries[e];
        entry->enough = true;
        if (entry->timed && entry->n_rounds[ATTN_HOT] + entry->n_rounds[ATTN_COLD] == 0)
            result = attn_block_untimed(session, entry, reason, why, size);
    }
    return result;
}

/* How many cases, from the first, have time for a round. pace: seconds that a round of a case took
 * in the blocks before; 0: not known. */
static size_t affordable(const struct attn_session *session, const struct attn_block *block,
                         double pace)
{
    const double left = attn_block_end(session, block) - attn_now();
    if (!(pace > 0) || !(left < pace * (double)block->count))
        return block->count;
    return left > 0 ? (size_t)(left / pace) : 0;
}

/* Seconds left in the rounds, after `made` of them and `turns` of one more, which is made whole;
 * -1: not known yet. */
static double left_of(const struct attn_session *session, double began, int made, size_t turns,
                      int round, double until)
{
    const double part = (double)turns / (double)session->roster.count, done = made + part;
    const double now = attn_now(), one = (now - began) / done;
    const double all = one * (session->settings.rounds - round - part);
    return done > 0 ? fmax(one * (1 - part), fmin(all, until - now)) : -1;
}

int attn_block_rounds(struct attn_session *session, struct attn_block *block, double until,
                      double pace, char *why, size_t size)
{
    size_t n = session->roster.count;
    double began = attn_now();
    size_t *order = calloc(n, sizeof *order);
    int result = order ? 0 : -1;
    if (result)
        snprintf(why, size, "no memory for an order of backends");
    int made = 0; /* rounds of this command */
    for (int round = 0; round < session->settings.rounds && result == 0; round++) {
        double now = attn_now(), next = made ? (now - began) / made : 0;
        if (!any_owed(session, block, round))
            continue;
        if (round > 0 && now + next > until)
            break;
        if (made == 0) {
            const size_t kept = affordable(session, block, pace);
            result = give_up(session, block, kept, why, size);
            if (kept == 0)
                break;
        }
        shuffle(order, n, (uint32_t)block->first, (uint32_t)round);
        for (size_t t = 0; t < n && result == 0 && !attn_interrupted; t++)
            result = take_turn(session, block, order[t], round, NULL, INFINITY,
                               left_of(session, began, made, t, round, until), why, size);
        block->round_s = (attn_now() - began) / ++made;
    }
    free(order);
    return result;
}

/* What a round of a case takes on all backends that are owed one: as those so far did. */
static double cost_of_case(const struct attn_session *session, const struct attn_block *block,
                           size_t i, int round)
{
    double sum = 0;
    for (size_t b = 0; b < session->roster.count; b++) {
        const struct attn_entry *entry = attn_block_entry(block, session->roster.count, i, b);
        for (int cache = 0; cache < ATTN_CACHES; cache++)
            if (is_wanted(session, entry, (enum attn_cache)cache, round) &&
                entry->n_rounds[cache] > 0)
                sum += (entry->timing_s[cache] + entry->judging_s[cache]) / entry->n_rounds[cache];
    }
    return sum;
}

int attn_block_spare(struct attn_session *session, struct attn_block *block, double until,
                     char *why, size_t size)
{
    const size_t n = session->roster.count;
    size_t *order = calloc(n, sizeof *order);
    bool *left_out = calloc(block->count, sizeof *left_out);
    int result = order && left_out ? 0 : -1;
    if (result)
        snprintf(why, size, "no memory for an order of backends");
    for (int round = 1; round < session->settings.rounds && result == 0; round++) {
        double left = until - attn_now();
        bool any = false;
        for (size_t i = 0; i < block->count; i++) {
            const double cost = cost_of_case(session, block, i, round);
            left_out[i] = !(cost > 0 && cost <= left);
            left -= left_out[i] ? 0 : cost;
            any = any || !left_out[i];
        }
        shuffle(order, n, (uint32_t)block->first, (uint32_t)round);
        for (size_t t = 0; t < n && any && result == 0 && !attn_interrupted; t++)
            result = take_turn(session, block, order[t], round, left_out, until, until - attn_now(),
                               why, size);
    }
    free(order);
    free(left_out);
    return result;
}
