/* SPDX-License-Identifier: Apache-2.0 */
/* paired_round.c - one round of turns of a case: all its backends live at once. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/paired_pass.h"
#include "bench/turns_record.h"
#include "host/entropy.h"
#include "host/memory.h"

/* Batches of a side in a round, at least, unless its runs are long: with fewer, what disturbs one
 * of them disturbs the round. */
enum { BATCHES_LEAST = 8, BATCHES_LEAST_BUDGET = 4 };
/* Time for the batches of a side, at least. (Measured: the ratios of rounds with 2 or 3 undisturbed
 * cycles were off by 1 % in the median, those with 6 or more by half of that.) With a budget, which
 * few rounds use up, more is worth it: starting workers takes 0.1 s a side, anyway. */
#define BATCHES_S        0.016
#define BATCHES_BUDGET_S 0.08
/* From here on a run is long. */
#define LONG_BUDGET_S 0.06

/* Before a case has a round, its anchor is looked at alone. If that takes longer than in its best
 * round by this factor, so many times, the case is put off to a later round. */
#define CALM 1.04
enum { LOOKS = 3 };

/* Of the memory that is available, the part that live workers may take together. */
#define MEMORY_SHARE 0.5
/* What a live worker takes besides operands and workspace, a library's code included. */
#define WORKER_BYTES 3e8
/* Two sets of inputs in the worker, both shared with the host, and the outputs. */
#define OPERANDS_TIMES 6.0

/* A backend of a group. */
struct member {
    size_t backend;
    struct attn_player player;
    struct attn_group_side figures;
    bool entered;
};

/* The backend that the others are compared with: the fastest of the rounds before. It stays for all
 * rounds, as long as it can: ratios to another one could not be joined with those there are. */
static size_t anchor_of(const struct attn_pass *pass, size_t i, const size_t *backends, size_t n)
{
    size_t *anchor = &pass->block->anchors[i];
    double least = INFINITY;
    if (*anchor > 0 && attn_pass_can_play(pass, i, *anchor - 1))
        return *anchor - 1;
    *anchor = backends[0] + 1;
    for (size_t k = 0; k < n; k++) {
        struct attn_summary s;
        if (attn_entry_summary(attn_pass_entry(pass, i, backends[k]), ATTN_HOT, &s) &&
            s.median < least) {
            least = s.median;
            *anchor = backends[k] + 1;
        }
    }
    return *anchor - 1;
}

/* How many workers may hold this case at once: two at least, or nothing could be compared. */
static size_t capacity_of(const struct attn_pass *pass, size_t i, const size_t *backends, size_t n)
{
    const struct attn_case *c = attn_pass_entry(pass, i, backends[0])->c;
    const double available = MEMORY_SHARE * (double)attn_memory_available();
    double workspace = 0;
    for (size_t k = 0; k < n; k++)
        workspace =
            fmax(workspace, (double)attn_pass_entry(pass, i, backends[k])->plan.workspace_bytes);
    const double fit =
        available / (WORKER_BYTES + OPERANDS_TIMES * (double)attn_case_bytes(c) + workspace);
    return fit >= (double)n ? n : fit > 2 ? (size_t)fit : 2;
}

/* Leaves a plan in the worker of each member, in random order. Returns how many have one. */
static size_t enter_all(const struct attn_pass *pass, size_t i, struct member *members, size_t n,
                        uint64_t random, struct attn_live_sample *first)
{
    size_t entered = 0;
    for (size_t k = 0; k < n; k++) {
        const size_t m = (k + random) % n;
        struct member *member = &members[m];
        attn_player_enter(&member->player, &pass->seats[member->backend],
                          attn_block_variants(pass->session, pass->block, i),
                          &attn_pass_rounds(pass, i, member->backend)->iterations, &first[m]);
        member->entered = member->player.live != NULL;
        entered += member->entered;
    }
    return entered;
}

struct attn_paired_round *attn_pass_add(const struct attn_pass *pass, size_t i, size_t anchor,
                                        size_t b, const struct attn_paired_round *made)
{
    struct attn_paired_rounds *p = attn_pass_rounds(pass, i, b);
    const struct attn_contestant *to = &pass->session->roster.items[anchor];
    if (!p->rounds)
        p->rounds =
            calloc((size_t)attn_pass_rounds_most(&pass->session->settings), sizeof *p->rounds);
    if (!p->rounds)
        return NULL;
    /* Ratios to an anchor that has failed since cannot be joined with others. */
    for (int r = 0; r < p->n && p->anchor != to; r++)
        p->rounds[r].no_ratio = true;
    p->anchor = to;
    struct attn_paired_round *round = &p->rounds[p->n++];
    *round = *made;
    /* All ratios by one clock, or they would not be of one kind. */
    round->no_ratio = round->side.ratio_clock != p->rounds[0].side.ratio_clock;
    return round;
}

static const struct attn_paired_round *keep_round(const struct attn_pass *pass, size_t i,
                                                  const struct member *anchor,
                                                  struct member *member)
{
    struct attn_paired_round made = {.round = pass->round,
                                     .side = member->figures,
                                     .n_processors = pass->claim.n,
                                     .alone = pass->claim.n > 0 && pass->claim.alone,
                                     .steal = attn_claim_steal(&pass->claim)};
    memcpy(made.processors, pass->claim.processors, sizeof made.processors);
    if (getloadavg(&made.load, 1) != 1)
        made.load = -1;
    const struct attn_paired_round *round =
        attn_pass_add(pass, i, anchor->backend, member->backend, &made);
    if (round)
        member->figures.batches = NULL;
    return round;
}

/* What went wrong in a member is its verdict. Only memory may be short because others are live:
 * then its turns end, and the figures of its other rounds stay. */
static int settle(const struct attn_pass *pass, size_t i, const struct member *anchor, bool keep,
                  struct member *member, const struct attn_paired_round **kept)
{
    const struct attn_outcome *outcome = &member->player.outcome;
    if (attn_interrupted)
        return 0;
    if (outcome->status == ATTN_OOM || outcome->short_of) {
        struct attn_paired_rounds *p = attn_pass_rounds(pass, i, member->backend);
        snprintf(p->why_not, sizeof p->why_not, "%.255s", outcome->reason);
        return 0;
    }
    if (outcome->status != ATTN_PASS)
        return attn_block_failed(pass->session, attn_pass_entry(pass, i, member->backend),
                                 outcome->status, outcome->reason, pass->why, pass->size);
    if (keep && member->entered && !member->figures.failed)
        *kept = keep_round(pass, i, anchor, member);
    return 0;
}

/* One record of all that was kept of a group: a run that is cut off has all of it, or nothing. */
static int record_round(const struct attn_pass *pass, size_t i, const struct member *members,
                        size_t n, const struct attn_paired_round *const *kept, double seconds)
{
    struct attn_turns_side *sides = calloc(n, sizeof *sides);
    size_t count = 0;
    int result = sides ? 0 : -1;
    for (size_t m = 0; m < n && result == 0; m++)
        if (kept[m])
            sides[count++] =
                (struct attn_turns_side){&pass->session->roster.items[members[m].backend], kept[m]};
    const size_t anchor = members[0].backend;
    if (result)
        errno = ENOMEM;
    else if (count > 0)
        result = attn_session_record(
            pass->session,
            attn_turns_record(attn_pass_entry(pass, i, anchor), pass->session, sides, count,
                              attn_pass_rounds(pass, i, anchor)->put_off, seconds));
    if (result)
        snprintf(pass->why, pass->size, "a record cannot be written: %m");
    free(sides);
    return result;
}

static void plan_batches(struct attn_pass *pass, bool many)
{
    const struct attn_settings *s = &pass->session->settings;
    const size_t least = many ? BATCHES_LEAST_BUDGET : BATCHES_LEAST, samples = (size_t)s->samples;
    pass->plan = (struct attn_group_plan){
        .seconds = fmax(s->min_time_s, many ? BATCHES_BUDGET_S : BATCHES_S),
        .least = samples > least ? samples : least,
        .long_s = many ? LONG_BUDGET_S : ATTN_LONG_RUN_S};
}

/* Runs the plan of a round with the members that have entered. Returns 0, or -1: no memory, or
 * stopped. */
static int run_group(struct attn_pass *pass, struct member *members, size_t n,
                     const struct attn_live_sample *first)
{
    const struct attn_turns_world world = attn_player_world();
    struct attn_side *sides = calloc(n, sizeof *sides);
    struct attn_live_sample *said = calloc(n, sizeof *said);
    struct attn_group_side *out = calloc(n, sizeof *out);
    size_t count = 0, k = 0;
    int result = sides && said && out ? 0 : -1;
    for (size_t m = 0; m < n && result == 0; m++)
        if (members[m].entered) {
            sides[count] = attn_player_side(&members[m].player);
            said[count++] = first[m];
        }
    attn_claim_enter(&pass->claim);
    if (result == 0)
        result = attn_group_run(sides, said, count, 0, &pass->plan, &world, out);
    attn_claim_leave(&pass->claim);
    for (size_t m = 0; m < n && result == 0; m++)
        if (members[m].entered)
            members[m].figures = out[k++];
    free(sides);
    free(said);
    free(out);
    return result;
}

/* One group of a case: members[0] is the anchor. */
static int time_group(struct attn_pass *pass, size_t i, struct member *members, size_t n,
                      bool keep_anchor)
{
    const uint64_t random = attn_entropy();
    const double began = attn_now();
    struct attn_live_sample *first = calloc(n, sizeof *first);
    bool ran = false;
    int result = first ? 0 : -1;
    attn_claim_restart(&pass->claim);
    if (first && enter_all(pass, i, members, n, random, first) > 0 && members[0].entered) {
        pass->plan.random = random;
        result = run_group(pass, members, n, first);
        ran = result == 0;
    }
    for (size_t m = 0; m < n; m++)
        attn_player_leave(&members[m].player, &pass->block->variants[i],
                          attn_pass_entry(pass, i, members[m].backend));
    free(first);
    if (result && !attn_interrupted) {
        snprintf(pass->why, pass->size, "no memory for the turns of %zu backends", n);
        return -1;
    }
    const double seconds = (attn_now() - began) / (double)n; /* of each */
    const struct attn_paired_round **kept = calloc(n, sizeof *kept);
    result = kept ? 0 : -1;
    if (result)
        snprintf(pass->why, pass->size, "no memory for the turns of %zu backends", n);
    for (size_t m = 0; m < n && result == 0; m++) {
        attn_pass_rounds(pass, i, members[m].backend)->seconds += seconds;
        result = settle(pass, i, &members[0], ran && (m > 0 || keep_anchor), &members[m], &kept[m]);
    }
    if (result == 0)
        result = record_round(pass, i, members, n, kept, seconds);
    free(kept);
    for (size_t m = 0; m < n; m++)
        free(members[m].figures.batches); /* of rounds that are not kept */
    return result;
}

/* Is the machine slower now than it was in the best round of this case? Its anchor tells. */
static int look(struct attn_pass *pass, size_t i, size_t anchor, bool *disturbed)
{
    const struct attn_paired_rounds *p = attn_pass_rounds(pass, i, anchor);
    double best = INFINITY;
    int result = 0;
    for (int r = 0; r < p->n; r++)
        best = fmin(best, p->rounds[r].side.low);
    *disturbed = p->n > 0 && 2 * p->put_off < attn_pass_rounds_planned(pass);
    for (int n = 0; n < LOOKS && *disturbed && result == 0 && attn_pass_can_play(pass, i, anchor);
         n++) {
        struct member member = {.backend = anchor};
        plan_batches(pass, false);
        result = time_group(pass, i, &member, 1, false);
        *disturbed = !(member.figures.low <= CALM * best);
    }
    for (size_t b = 0; b < pass->session->roster.count; b++)
        attn_pass_rounds(pass, i, b)->put_off += *disturbed;
    return result;
}

int attn_pass_time_case(struct attn_pass *pass, size_t i)
{
    const size_t all = pass->session->roster.count;
    size_t *backends = calloc(all, sizeof *backends), n = 0;
    struct member *members = calloc(all, sizeof *members);
    int result = backends && members ? 0 : -1;
    if (result)
        snprintf(pass->why, pass->size, "no memory for %zu backends", all);
    for (size_t b = 0; b < all && result == 0; b++)
        if (attn_pass_takes_part(pass, i, b))
            backends[n++] = b;
    if (n > 0) {
        const size_t anchor = anchor_of(pass, i, backends, n);
        const size_t capacity = capacity_of(pass, i, backends, n);
        size_t count = 0, groups = 0;
        bool disturbed;
        result = look(pass, i, anchor, &disturbed);
        plan_batches(pass, pass->session->settings.budget_s > 0);
        for (size_t k = 0; k < n && !disturbed && result == 0 && !attn_interrupted; k++) {
            if (count == 0)
                members[count++] = (struct member){.backend = anchor};
            if (backends[k] != anchor)
                members[count++] = (struct member){.backend = backends[k]};
            if ((count == capacity || k + 1 == n) && (count > 1 || groups == 0)) {
                result = time_group(pass, i, members, count,
                                    groups++ == 0 && attn_pass_takes_part(pass, i, anchor));
                count = 0;
                if (!attn_pass_can_play(pass, i, anchor)) /* it has failed */
                    break;
            }
        }
    }
    free(backends);
    free(members);
    return result;
}

/* What a side takes in a round besides its batches: it makes a plan, and is judged.
 * (Measured: 0.05 to 0.15.) */
#define SIDE_S 0.1

/* A run comes before each batch. */
double attn_pass_side_cost(const struct attn_entry *entry)
{
    struct attn_summary s;
    const bool known = attn_entry_summary(entry, ATTN_HOT, &s);
    const double run = known ? 1e-9 * s.median : 0;
    return SIDE_S +
           2 * (run > LONG_BUDGET_S ? run : fmax(BATCHES_BUDGET_S, BATCHES_LEAST_BUDGET * run));
}
