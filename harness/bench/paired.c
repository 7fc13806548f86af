/* SPDX-License-Identifier: Apache-2.0 */
/* paired.c - rounds of turns: fresh workers, all backends of a case live at once. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/block.h"
#include "bench/choose.h"
#include "bench/settle.h"
#include "bench/turns_record.h"
#include "host/entropy.h"
#include "host/memory.h"
#include "live/player.h"
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

/* So many rounds are to fit into the budget. A fifth to a half of them are disturbed, and the
 * interval of eight is 1.7 times their spread, that of five 2.5 times. */
enum { ROUNDS_WANTED = 12 };

/* With a budget, a backend so many times as slow as the fastest has no turns, which go to more
 * cases. */
#define HOPELESS 4

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

/* One round of a block. */
struct pass {
    int round;
    bool wanting;      /* cases want some of those planned, which have them alone */
    double starting_s; /* what the workers of the last round took to start */
    struct attn_session *session;
    struct attn_block *block;
    struct attn_seat *seats; /* [backends] */
    struct attn_claim claim; /* n 0: none */
    struct attn_choice choices[ATTN_BLOCK_CASES];
    struct attn_group_plan plan; /* batches of a round */
    char *why;                   /* receives what went wrong */
    size_t size;
};

/* A backend of a group. */
struct member {
    size_t backend;
    struct attn_player player;
    struct attn_group_side figures;
    bool entered;
};

static struct attn_entry *entry_of(const struct pass *pass, size_t i, size_t b)
{
    return attn_block_entry(pass->block, pass->session->roster.count, i, b);
}

static struct attn_paired_rounds *rounds_of(const struct pass *pass, size_t i, size_t b)
{
    return &pass->block->paired[i * pass->session->roster.count + b];
}

static int rounds_most(const struct attn_settings *s)
{
    const int times = s->budget_s > 0 ? TURNS_TIMES_BUDGET : TURNS_TIMES;
    const int most = s->rounds > 1 ? times * s->rounds : 1;
    return most < ATTN_ROUNDS_MAX ? most : ATTN_ROUNDS_MAX;
}

/* Can a backend have turns of a case? */
static bool can_play(const struct pass *pass, size_t i, size_t b)
{
    const struct attn_entry *entry = entry_of(pass, i, b);
    return entry->timed && !entry->enough && entry->contestant->info.exactness != ATTN_NONE &&
           entry->n_rounds[ATTN_HOT] > 0 && !*rounds_of(pass, i, b)->why_not;
}

/* Is it to have more of them? */
static bool takes_part(const struct pass *pass, size_t i, size_t b)
{
    const struct attn_paired_rounds *p = rounds_of(pass, i, b);
    return can_play(pass, i, b) && p->n < rounds_most(&pass->session->settings) &&
           !(pass->wanting && p->settled);
}

/* Is there a backend that has not had all its rounds of a case that was chosen? */
static bool has_turns(const struct pass *pass, size_t i)
{
    for (size_t b = 0; b < pass->session->roster.count && pass->choices[i].chosen; b++)
        if (takes_part(pass, i, b))
            return true;
    return false;
}

/* So many rounds of a case the budget is planned for. */
static int rounds_planned(const struct pass *pass)
{
    const int most = rounds_most(&pass->session->settings);
    return most < ROUNDS_WANTED ? most : ROUNDS_WANTED;
}

static int rounds_made(const struct pass *pass, size_t i)
{
    int made = 0;
    for (size_t b = 0; b < pass->session->roster.count; b++)
        made = rounds_of(pass, i, b)->n > made ? rounds_of(pass, i, b)->n : made;
    return made;
}

/* Are the ratios of all its backends known? The fastest is none of the settled. */
static bool is_settled(const struct pass *pass, size_t i)
{
    size_t open = 0, settled = 0;
    for (size_t b = 0; b < pass->session->roster.count; b++)
        if (can_play(pass, i, b)) {
            settled += rounds_of(pass, i, b)->settled;
            open += !rounds_of(pass, i, b)->settled;
        }
    return settled > 0 && open == 1;
}

/* How many of those planned a case wants still. */
static int rounds_wanted(const struct pass *pass, size_t i)
{
    const int planned = rounds_planned(pass), made = rounds_made(pass, i);
    return made < planned && !is_settled(pass, i) ? planned - made : 0;
}

/* The backend that the others are compared with: the fastest of the rounds before. It stays for all
 * rounds, as long as it can: ratios to another one could not be joined with those there are. */
static size_t anchor_of(const struct pass *pass, size_t i, const size_t *backends, size_t n)
{
    size_t *anchor = &pass->block->anchors[i];
    double least = INFINITY;
    if (*anchor > 0 && can_play(pass, i, *anchor - 1))
        return *anchor - 1;
    *anchor = backends[0] + 1;
    for (size_t k = 0; k < n; k++) {
        struct attn_summary s;
        if (attn_entry_summary(entry_of(pass, i, backends[k]), ATTN_HOT, &s) && s.median < least) {
            least = s.median;
            *anchor = backends[k] + 1;
        }
    }
    return *anchor - 1;
}

/* How many workers may hold this case at once: two at least, or nothing could be compared. */
static size_t capacity_of(const struct pass *pass, size_t i, const size_t *backends, size_t n)
{
    const struct attn_case *c = entry_of(pass, i, backends[0])->c;
    const double available = MEMORY_SHARE * (double)attn_memory_available();
    double workspace = 0;
    for (size_t k = 0; k < n; k++)
        workspace = fmax(workspace, (double)entry_of(pass, i, backends[k])->plan.workspace_bytes);
    const double fit =
        available / (WORKER_BYTES + OPERANDS_TIMES * (double)attn_case_bytes(c) + workspace);
    return fit >= (double)n ? n : fit > 2 ? (size_t)fit : 2;
}

/* Leaves a plan in the worker of each member, in random order. Returns how many have one. */
static size_t enter_all(const struct pass *pass, size_t i, struct member *members, size_t n,
                        uint64_t random, struct attn_live_sample *first)
{
    size_t entered = 0;
    for (size_t k = 0; k < n; k++) {
        const size_t m = (k + random) % n;
        struct member *member = &members[m];
        attn_player_enter(&member->player, &pass->seats[member->backend],
                          attn_block_variants(pass->session, pass->block, i),
                          &rounds_of(pass, i, member->backend)->iterations, &first[m]);
        member->entered = member->player.live != NULL;
        entered += member->entered;
    }
    return entered;
}

/* Adds a round of a backend to those there are, whose number is below rounds_most. NULL: no memory.
 */
static struct attn_paired_round *add_round(const struct pass *pass, size_t i, size_t anchor,
                                           size_t b, const struct attn_paired_round *made)
{
    struct attn_paired_rounds *p = rounds_of(pass, i, b);
    const struct attn_contestant *to = &pass->session->roster.items[anchor];
    if (!p->rounds)
        p->rounds = calloc((size_t)rounds_most(&pass->session->settings), sizeof *p->rounds);
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

static const struct attn_paired_round *
keep_round(const struct pass *pass, size_t i, const struct member *anchor, struct member *member)
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
        add_round(pass, i, anchor->backend, member->backend, &made);
    if (round)
        member->figures.batches = NULL;
    return round;
}

/* What went wrong in a member is its verdict. Only memory may be short because others are live:
 * then its turns end, and the figures of its other rounds stay. */
static int settle(const struct pass *pass, size_t i, const struct member *anchor, bool keep,
                  struct member *member, const struct attn_paired_round **kept)
{
    const struct attn_outcome *outcome = &member->player.outcome;
    if (attn_interrupted)
        return 0;
    if (outcome->status == ATTN_OOM || outcome->short_of) {
        struct attn_paired_rounds *p = rounds_of(pass, i, member->backend);
        snprintf(p->why_not, sizeof p->why_not, "%.255s", outcome->reason);
        return 0;
    }
    if (outcome->status != ATTN_PASS)
        return attn_block_failed(pass->session, entry_of(pass, i, member->backend), outcome->status,
                                 outcome->reason, pass->why, pass->size);
    if (keep && member->entered && !member->figures.failed)
        *kept = keep_round(pass, i, anchor, member);
    return 0;
}

/* One record of all that was kept of a group: a run that is cut off has all of it, or nothing. */
static int record_round(const struct pass *pass, size_t i, const struct member *members, size_t n,
                        const struct attn_paired_round *const *kept, double seconds)
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
            pass->session, attn_turns_record(entry_of(pass, i, anchor), pass->session, sides, count,
                                             rounds_of(pass, i, anchor)->put_off, seconds));
    if (result)
        snprintf(pass->why, pass->size, "a record cannot be written: %m");
    free(sides);
    return result;
}

static void plan_batches(struct pass *pass, bool many)
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
static int run_group(struct pass *pass, struct member *members, size_t n,
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
static int time_group(struct pass *pass, size_t i, struct member *members, size_t n,
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
                          entry_of(pass, i, members[m].backend));
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
        rounds_of(pass, i, members[m].backend)->seconds += seconds;
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
static int look(struct pass *pass, size_t i, size_t anchor, bool *disturbed)
{
    const struct attn_paired_rounds *p = rounds_of(pass, i, anchor);
    double best = INFINITY;
    int result = 0;
    for (int r = 0; r < p->n; r++)
        best = fmin(best, p->rounds[r].side.low);
    *disturbed = p->n > 0 && 2 * p->put_off < rounds_planned(pass);
    for (int n = 0; n < LOOKS && *disturbed && result == 0 && can_play(pass, i, anchor); n++) {
        struct member member = {.backend = anchor};
        plan_batches(pass, false);
        result = time_group(pass, i, &member, 1, false);
        *disturbed = !(member.figures.low <= CALM * best);
    }
    for (size_t b = 0; b < pass->session->roster.count; b++)
        rounds_of(pass, i, b)->put_off += *disturbed;
    return result;
}

/* All backends of a case; in groups that share the anchor where memory is short. */
static int time_case(struct pass *pass, size_t i)
{
    const size_t all = pass->session->roster.count;
    size_t *backends = calloc(all, sizeof *backends), n = 0;
    struct member *members = calloc(all, sizeof *members);
    int result = backends && members ? 0 : -1;
    if (result)
        snprintf(pass->why, pass->size, "no memory for %zu backends", all);
    for (size_t b = 0; b < all && result == 0; b++)
        if (takes_part(pass, i, b))
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
                                    groups++ == 0 && takes_part(pass, i, anchor));
                count = 0;
                if (!can_play(pass, i, anchor)) /* it has failed */
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

/* What a side is expected to take in a round: a run comes before each batch. */
static double side_cost(const struct attn_entry *entry)
{
    struct attn_summary s;
    const bool known = attn_entry_summary(entry, ATTN_HOT, &s);
    const double run = known ? 1e-9 * s.median : 0;
    return SIDE_S +
           2 * (run > LONG_BUDGET_S ? run : fmax(BATCHES_BUDGET_S, BATCHES_LEAST_BUDGET * run));
}

/* What all rounds so far took over what they were expected to take. */
static double turns_cost(const struct pass *pass)
{
    double took = 0, expected = 0;
    for (size_t i = 0; i < pass->block->count; i++)
        for (size_t b = 0; b < pass->session->roster.count; b++) {
            const struct attn_paired_rounds *p = rounds_of(pass, i, b);
            if (p->n > 0) {
                took += p->seconds / p->n;
                expected += side_cost(entry_of(pass, i, b));
            }
        }
    return expected > 0 ? took / expected : 1;
}

/* What a round of turns of a case takes: as those before did, or as it is expected to. */
static double cost_of(const struct pass *pass, size_t i, double times)
{
    double sum = 0;
    for (size_t b = 0; b < pass->session->roster.count; b++)
        if (takes_part(pass, i, b)) {
            const struct attn_paired_rounds *p = rounds_of(pass, i, b);
            sum += p->n > 0 ? p->seconds / p->n : times * side_cost(entry_of(pass, i, b));
        }
    return sum;
}

/* Is a case to have turns in this round? */
static bool is_due(const struct pass *pass, size_t i)
{
    return has_turns(pass, i) && !(pass->wanting && rounds_wanted(pass, i) == 0);
}

/* Starts the workers of a round before its cases, so that none of these is charged with it: a
 * library may take seconds. What goes wrong is said where the worker is needed. */
static void start_workers(struct pass *pass)
{
    const double began = attn_now();
    for (size_t b = 0; b < pass->session->roster.count; b++) {
        bool needed = false;
        for (size_t i = 0; i < pass->block->count; i++)
            needed = needed || (is_due(pass, i) && takes_part(pass, i, b));
        if (needed && !attn_interrupted)
            attn_seat_worker(&pass->seats[b]);
    }
    pass->starting_s = attn_now() - began;
}

/* One round: fresh workers, all chosen cases; as long as some want rounds, these alone. Cases that
 * would end after `until` are left out, but not in the first round. *any: was there one? */
static int time_round(struct pass *pass, double until, double left_s, bool *any)
{
    struct attn_session *session = pass->session;
    const size_t n = session->roster.count;
    const double times = turns_cost(pass);
    int most = rounds_most(&session->settings); /* more, where cases were put off */
    char ignored[256];
    int result = 0;
    pass->wanting = false;
    most = pass->round < most ? most : pass->round + 1;
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
                            entry_of(pass, i, 0)->c);
        result = time_case(pass, i);
    }
    for (size_t b = 0; b < n; b++)
        attn_seat_free(&pass->seats[b]);
    attn_claim_give(&pass->claim);
    return result;
}

/* The median of the hot rounds of a backend that takes part; INFINITY: there is none. */
static double median_of(const struct pass *pass, size_t i, size_t b)
{
    struct attn_summary s;
    return takes_part(pass, i, b) && attn_entry_summary(entry_of(pass, i, b), ATTN_HOT, &s)
               ? s.median
               : INFINITY;
}

/* Leaves out of a case's turns what is far slower than the fastest. The next one stays. */
static void leave_out_hopeless(struct pass *pass, size_t i)
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
            snprintf(rounds_of(pass, i, b)->why_not, sizeof rounds_of(pass, i, b)->why_not,
                     "with a budget it has no turns: the fastest takes less than 1/%d of its time",
                     HOPELESS);
    }
}

/* Of the time for rounds, what goes to those that are put off. */
#define PUT_OFF_SHARE 0.25

/* Looks which backends of a case are settled. Returns 0, or -1: no memory. */
static int settle_case(const struct pass *pass, size_t i)
{
    const size_t all = pass->session->roster.count;
    struct attn_paired_rounds **playing = calloc(all, sizeof(struct attn_paired_rounds *));
    size_t n = 0;
    for (size_t b = 0; b < all && playing; b++)
        if (can_play(pass, i, b))
            playing[n++] = rounds_of(pass, i, b);
    const int result = playing ? attn_settle(playing, n) : -1;
    if (result)
        snprintf(pass->why, pass->size, "no memory for the ratios of %zu backends", all);
    free(playing);
    return result;
}

/* Chooses cases, as long as there is time for the rounds that all of them want. Returns 0, or -1:
 * no memory. */
static int choose_cases(struct pass *pass, double until)
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
    const double left = until - attn_now(), starting = rounds_planned(pass) * pass->starting_s;
    attn_choose(pass->choices, pass->block->count, left - fmin(starting, left / 2));
    return 0;
}

/* Says of the cases that were not chosen why. */
static void leave_out_rest(const struct pass *pass)
{
    for (size_t i = 0; i < pass->block->count; i++)
        for (size_t b = 0; b < pass->session->roster.count && !pass->choices[i].chosen; b++)
            if (takes_part(pass, i, b))
                snprintf(rounds_of(pass, i, b)->why_not, sizeof rounds_of(pass, i, b)->why_not,
                         "the budget has no time for %d rounds of turns", rounds_planned(pass));
}

/* Takes over a round of a case that an earlier command has recorded. Returns 0, or -1: no memory.
 */
static int restore_round(struct pass *pass, size_t i, size_t anchor, const json_t *record)
{
    const double seconds = attn_field_number(record, "seconds");
    for (size_t b = 0; b < pass->session->roster.count; b++) {
        struct attn_paired_rounds *p = rounds_of(pass, i, b);
        const json_t *side = attn_turns_side_of(record, &pass->session->roster.items[b]);
        struct attn_paired_round round;
        p->put_off = (int)json_integer_value(json_object_get(record, "put_off"));
        if (!side || !can_play(pass, i, b) || p->n >= rounds_most(&pass->session->settings))
            continue;
        if (attn_turns_round(record, side, &round))
            return -1;
        if (!add_round(pass, i, anchor, b, &round)) {
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
static int restore_rounds(struct pass *pass)
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
    struct pass pass = {.session = session,
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
                          (isfinite(until) || pass.round < 2 * rounds_most(s));
         pass.round++) {
        const int made = pass.round - restored;
        const double now = attn_now(), next = made ? (now - began) / made : -1;
        result = choose_cases(&pass, until);
        if (result == 0)
            result = time_round(
                &pass, until, isfinite(until) ? until - now : next * (rounds_most(s) - pass.round),
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
