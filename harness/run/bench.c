/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - times cases in blocks and rounds, and measures peak memory. */
#include "run/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "case/operator.h"
#include "reference/philox.h"
#include "run/count.h"
#include "run/machine.h"
#include "run/matrix.h"
#include "run/progress.h"
#include "run/roof.h"
#include "run/seat.h"
#include "run/suspect.h"
#include "run/variants.h"
#include "run/verify.h"

/* Each round of a block starts every backend again, which takes PyTorch seconds. */
enum { BLOCK_CASES = 48 };
/* Operands and references of a whole block are in memory at the same time. */
static const uint64_t block_bytes = 512ull << 20;
/* A run longer than this is sampled once per round, and not timed cold: it evicts its own first
 * operands. */
static const double long_run_s = 0.1;
enum { COLD_SAMPLES = 2 };
/* The fewest rounds, even if time is short: Student's t doubles the interval from 5 rounds to 3. */
enum { LEAST_ROUNDS = 3 };

struct block {
    size_t first, count;
    struct attn_instance *instances[BLOCK_CASES];
    struct attn_judge *judges[BLOCK_CASES];
    struct attn_variants variants[BLOCK_CASES]; /* base NULL: not made yet */
    struct attn_entry *entries;                 /* [count][backends] */
};

static struct attn_entry *entry_at(const struct block *block, size_t backends, size_t i, size_t b)
{
    return &block->entries[i * backends + b];
}

/* The number of cases from `first` on that form a block. */
static size_t block_size(const struct attn_session *session, size_t first)
{
    uint64_t bytes = 0;
    size_t n = 0;
    while (n < BLOCK_CASES && first + n < session->cases.count) {
        uint64_t next = attn_case_bytes(&session->cases.items[first + n]);
        next = next > UINT64_MAX / 2 ? UINT64_MAX : 2 * next; /* with its twin */
        if (n > 0 && (next > block_bytes || bytes + next > block_bytes))
            break;
        bytes = next > block_bytes ? block_bytes : bytes + next;
        n++;
    }
    return n;
}

static void block_free(struct block *block, size_t backends)
{
    for (size_t i = 0; i < block->count; i++) {
        attn_variants_free(&block->variants[i]);
        attn_judge_free(block->judges[i]);
        attn_instance_free(block->instances[i]);
        for (size_t b = 0; b < backends && block->entries; b++) {
            attn_entry_clear(entry_at(block, backends, i, b));
            for (int c = 0; c < ATTN_CACHES; c++)
                free(entry_at(block, backends, i, b)->rounds[c]);
        }
    }
    free(block->entries);
    memset(block, 0, sizeof *block);
}

/* Verifies the block and marks what passed for timing. A backend that computes nothing is timed
 * only on the first case: its cost does not depend on the case. */
static int block_verify(struct attn_session *session, struct block *block, struct attn_seat *seats,
                        struct attn_progress *progress, char *why, size_t size)
{
    size_t n = session->roster.count;
    block->entries = calloc(block->count * n, sizeof *block->entries);
    int result = block->entries ? 0 : -1;
    if (result)
        snprintf(why, size, "no memory for a block of %zu cases", block->count);
    for (size_t i = 0; i < block->count && result == 0 && !attn_interrupted; i++) {
        const struct attn_case *c = &session->cases.items[block->first + i];
        attn_progress_step(progress, block->first + i, block->first, c);
        struct attn_verification v = {.c = c, .seats = seats, .entries = entry_at(block, n, i, 0)};
        result = attn_verify_case(session, &v, NULL, why, size);
        block->instances[i] = v.instance;
        block->judges[i] = v.judge;
        for (size_t b = 0; b < n && result == 0; b++) {
            struct attn_entry *entry = entry_at(block, n, i, b);
            bool none = entry->contestant->info.exactness == ATTN_NONE;
            entry->timed =
                block->instances[i] && (!none || i == 0) &&
                (entry->verdict.status == ATTN_PASS || entry->verdict.status == ATTN_MISTRUSTED ||
                 entry->verdict.status == ATTN_APPROX);
        }
    }
    for (size_t b = 0; b < n; b++)
        attn_seat_leave(&seats[b]);
    return result;
}

/* A timing that went wrong is a verdict of its own, and ends the timing of this entry. */
static int timing_failed(struct attn_session *session, struct attn_entry *entry,
                         enum attn_status status, const char *reason, char *why, size_t size)
{
    entry->timed = false;
    entry->broke_timed = true;
    entry->verdict.status = status;
    snprintf(entry->verdict.reason, sizeof entry->verdict.reason, "while timed: %.480s", reason);
    entry->harmless = status == ATTN_SKIP;
    return attn_verify_finish(session, entry, NULL, why, size);
}

/* A backend's turn in a round. */
struct turn {
    struct attn_session *session;
    struct attn_seat *seat;
    int round;
    char *why; /* receives what went wrong */
    size_t size;
};

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
                                       .samples = entry->seconds > long_run_s ? 1
                                                  : cache == ATTN_COLD        ? COLD_SAMPLES
                                                                              : s->samples,
                                       .twin = variants->twin,
                                       .spots = variants->spots,
                                       .n_spots = variants->n_spots,
                                       .mixed = variants->mixed};
    struct attn_bench_reply reply;
    const double began = attn_now();
    struct attn_outcome outcome = attn_seat_worker(seat);
    if (outcome.status == ATTN_PASS) {
        outcome = attn_worker_bench(seat->worker, variants->base, &params, &reply, &entry->plan);
        attn_seat_after(seat, &outcome);
    }
    if (attn_interrupted) /* the signal cut the result short */
        return 0;
    const double timed = attn_now();
    entry->timing_s[cache] += timed - began;
    if (outcome.status != ATTN_PASS)
        return timing_failed(session, entry, outcome.status, outcome.reason, why, size);
    uint32_t exactness = entry->contestant->info.exactness;
    if (exactness != ATTN_NONE) {
        struct attn_judgement again;
        attn_variants_judge(variants, &reply, &entry->plan.numerics, exactness == ATTN_APPROXIMATE,
                            &again);
        if (again.status == ATTN_FAIL || again.status == ATTN_ERROR)
            return timing_failed(session, entry, again.status, again.reason, why, size);
    }
    entry->judging_s[cache] += attn_now() - timed;
    struct attn_round *kept = &entry->rounds[cache][entry->n_rounds[cache]++];
    entry->device = reply.after;
    kept->n = reply.n;
    memcpy(kept->samples_ns, reply.samples_ns, sizeof kept->samples_ns);
    if (attn_session_record(session,
                            attn_round_record(entry, session, cache, turn->round, &reply))) {
        snprintf(why, size, "a record cannot be written: %m");
        return -1;
    }
    return 0;
}

/* One backend's turn in a round: a fresh worker, all cases of the block. */
static int take_turn(struct attn_session *session, struct block *block, size_t b, int round,
                     char *why, size_t size)
{
    const struct attn_settings *s = &session->settings;
    size_t n = session->roster.count;
    struct attn_seat seat;
    attn_seat_init(&seat, session, &session->roster.items[b]);
    const struct turn turn = {session, &seat, round, why, size};
    int result = 0;
    for (size_t i = 0; i < block->count && result == 0 && !attn_interrupted; i++) {
        struct attn_entry *entry = entry_at(block, n, i, b);
        bool none = entry->contestant->info.exactness == ATTN_NONE;
        struct attn_variants *variants = &block->variants[i];
        if (entry->timed && !variants->base)
            attn_variants_create(block->instances[i], block->judges[i], s->host_threads, variants);
        if (entry->timed && (s->hot || none))
            result = time_once(&turn, variants, entry, ATTN_HOT);
        if (entry->timed && s->cold && !none && entry->seconds < long_run_s && result == 0)
            result = time_once(&turn, variants, entry, ATTN_COLD);
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

/* The weight of `count` cases from `first` on, by which the budget is shared: 1 per case, for
 * processes and caches, and 4 per GFLOP, up to 20, where a slow backend gets near its limit. */
static double weight(const struct attn_session *session, size_t first, size_t count)
{
    double sum = 0;
    for (size_t i = first; i < first + count; i++) {
        const struct attn_case *c = &session->cases.items[i];
        sum += 1 + fmin(4e-9 * attn_case_flops(c, attn_case_cells(c)), 20);
    }
    return sum;
}

/* The time at which the rounds of a block should end. Cases have shares of what is left of the
 * budget, so that rounds are given up before cases. */
static double block_until(const struct attn_session *session, const struct block *block)
{
    double budget = session->settings.budget_s, now = attn_now();
    if (budget <= 0)
        return INFINITY;
    return now + (session->began + budget - now) * weight(session, block->first, block->count) /
                     weight(session, block->first, session->cases.count - block->first);
}

/* The time that one round of case i takes, according to the first round. */
static double round_s(const struct attn_session *session, const struct block *block, size_t i)
{
    double sum = 0;
    for (size_t b = 0; b < session->roster.count; b++)
        for (int c = 0; c < ATTN_CACHES; c++) {
            const struct attn_entry *entry = entry_at(block, session->roster.count, i, b);
            sum += entry->timing_s[c] + entry->judging_s[c];
        }
    return sum;
}

/* After the first round: stops timing the cases whose fewest rounds would end after the budget.
 * They are verified, but have no figure. */
static void keep_budget(struct attn_session *session, struct block *block)
{
    size_t n = session->roster.count, kept = 0;
    const int least =
        session->settings.rounds < LEAST_ROUNDS ? session->settings.rounds : LEAST_ROUNDS;
    double left = session->began + session->settings.budget_s - attn_now();
    while (kept < block->count) {
        left -= (least - 1) * round_s(session, block, kept);
        if (left < 0)
            break;
        kept++;
    }
    for (size_t e = kept * n; e < block->count * n; e++)
        block->entries[e].timed = false;
    if (kept < block->count) {
        char text[128];
        snprintf(
            text, sizeof text, "%zu case%s verified, but not timed: the budget of %g s is spent",
            block->count - kept, block->count - kept == 1 ? "" : "s", session->settings.budget_s);
        attn_progress_note(text);
    }
}

static int block_rounds(struct attn_session *session, struct block *block, double until, char *why,
                        size_t size)
{
    size_t n = session->roster.count;
    double began = attn_now();
    size_t *order = calloc(n, sizeof *order);
    int result = order ? 0 : -1;
    if (result)
        snprintf(why, size, "no memory for an order of backends");
    for (int round = 0; round < session->settings.rounds && result == 0; round++) {
        double now = attn_now(), next = round ? (now - began) / round : 0;
        if (round >= LEAST_ROUNDS && now + next > until)
            break;
        if (round == 1 && session->settings.budget_s > 0)
            keep_budget(session, block);
        shuffle(order, n, (uint32_t)block->first, (uint32_t)round);
        for (size_t t = 0; t < n && result == 0 && !attn_interrupted; t++)
            result = take_turn(session, block, order[t], round, why, size);
    }
    free(order);
    return result;
}

static void measure_peak(struct attn_session *session, struct attn_instance *instance,
                         struct attn_entry *entry)
{
    struct attn_seat seat;
    attn_seat_init(&seat, session, entry->contestant);
    struct attn_outcome outcome = attn_seat_worker(&seat);
    if (outcome.status == ATTN_PASS)
        outcome = attn_worker_peak(seat.worker, instance, &entry->peak_bytes, &entry->taken_bytes);
    entry->peak_known = outcome.status == ATTN_PASS;
    snprintf(entry->peak_reason, sizeof entry->peak_reason, "%.255s", outcome.reason);
    attn_seat_free(&seat);
}

/* The harness's own cost on this block: median of what a backend that computes nothing took. */
static double block_overhead(const struct block *block, size_t backends)
{
    for (size_t b = 0; b < backends; b++) {
        const struct attn_entry *entry = entry_at(block, backends, 0, b);
        struct attn_summary s;
        if (entry->contestant->info.exactness == ATTN_NONE &&
            attn_entry_summary(entry, ATTN_HOT, &s))
            return s.median;
    }
    return 0;
}

/* Is a figure of this entry faster than the machine allows? Ceilings that seem to be passed are
 * measured once more in this block: an honest kernel may have had a better moment than they. */
static bool is_suspect(const struct attn_session *session, const struct attn_entry *entry,
                       struct attn_roof *roof, bool *raised, char *reason, size_t size)
{
    const struct attn_work work = attn_work_of(entry);
    for (enum attn_cache c = ATTN_HOT; c < ATTN_CACHES; c++) {
        struct attn_summary s;
        if (!attn_entry_summary(entry, c, &s) ||
            !attn_work_is_suspect(&roof->ceilings, &work, s.median, reason, size))
            continue;
        if (!*raised)
            attn_roof_raise(session, roof);
        *raised = true;
        if (attn_work_is_suspect(&roof->ceilings, &work, s.median, reason, size))
            return true;
    }
    return false;
}

static int block_finish(struct attn_session *session, struct block *block, struct attn_roof *roof,
                        double *harness_ns, char *why, size_t size)
{
    char reason[256];
    bool raised = false;
    size_t n = session->roster.count;
    double overhead = block_overhead(block, n);
    if (overhead > 0)
        *harness_ns = overhead;
    for (size_t i = 0; i < block->count; i++)
        for (size_t b = 0; b < n; b++) {
            struct attn_entry *entry = entry_at(block, n, i, b);
            if (!entry->timed || attn_interrupted)
                continue;
            if (is_suspect(session, entry, roof, &raised, reason, sizeof reason)) {
                if (timing_failed(session, entry, ATTN_SUSPECT, reason, why, size))
                    return -1;
                continue;
            }
            entry->harness_ns = *harness_ns;
            if (entry->contestant->info.exactness != ATTN_NONE)
                measure_peak(session, block->instances[i], entry);
            if (session->settings.count)
                attn_count_entry(session, block->instances[i], block->judges[i], entry);
            if (attn_interrupted) /* its peak was cut short, so the case is not done */
                return 0;
            /* Hot comes last: its record completes the case. */
            for (int c = ATTN_CACHES - 1; c >= 0; c--)
                if (entry->n_rounds[c] &&
                    attn_session_record(session,
                                        attn_bench_record(entry, session, (enum attn_cache)c))) {
                    snprintf(why, size, "a record cannot be written: %m");
                    return -1;
                }
        }
    return 0;
}

/* Writes a value into a file of the run's folder. Takes the reference. */
static int write_json(const struct attn_session *session, json_t *value, const char *name,
                      size_t flags, char *why, size_t size)
{
    char path[ATTN_PATH_MAX];
    int result = value && attn_path_join(path, session->folder, name) == 0
                     ? json_dump_file(value, path, flags)
                     : -1;
    json_decref(value);
    if (result)
        snprintf(why, size, "%s cannot be written into '%s'", name, session->folder);
    return result;
}

static int write_machine(const struct attn_session *session, const struct attn_roof *roof,
                         double harness_ns, char *why, size_t size)
{
    return write_json(session, attn_machine_json(session, roof, harness_ns), "machine.json",
                      JSON_INDENT(2) | JSON_REAL_PRECISION(9), why, size);
}

static int write_matrix(const struct attn_session *session, char *why, size_t size)
{
    json_t *matrix = attn_matrix_ask(session, why, size);
    if (!matrix)
        return attn_interrupted ? 0 : -1;
    return write_json(session, matrix, "matrix.json", JSON_COMPACT, why, size);
}

int attn_bench_all(struct attn_session *session, char *why, size_t size)
{
    size_t n = session->roster.count;
    struct attn_roof roof = {0};
    double harness_ns = 0;
    attn_roof_raise(session, &roof);
    attn_roof_products(session, &roof);
    struct attn_progress progress;
    /* The seats last through all blocks: they know how fast each backend is. */
    struct attn_seat *seats = calloc(n, sizeof *seats);
    int result = seats ? 0 : -1;
    if (result)
        snprintf(why, size, "no memory for %zu backends", n);
    if (result == 0 &&
        (write_machine(session, &roof, 0, why, size) || write_matrix(session, why, size)))
        result = -1;
    for (size_t b = 0; b < n && seats; b++)
        attn_seat_init(&seats[b], session, &session->roster.items[b]);
    attn_progress_begin(&progress, session->cases.count, session->settings.budget_s);
    for (size_t first = 0; first < session->cases.count && result == 0 && !attn_interrupted;) {
        struct block block = {.first = first, .count = block_size(session, first)};
        double until = block_until(session, &block);
        result = block_verify(session, &block, seats, &progress, why, size);
        if (result == 0)
            result = block_rounds(session, &block, until, why, size);
        if (result == 0)
            result = block_finish(session, &block, &roof, &harness_ns, why, size);
        first += block.count;
        block_free(&block, n);
    }
    attn_progress_end(&progress);
    for (size_t b = 0; b < n && seats; b++)
        attn_seat_free(&seats[b]);
    free(seats);
    if (result == 0 && !attn_interrupted)
        attn_roof_raise(session, &roof);
    if (result == 0)
        result = write_machine(session, &roof, harness_ns, why, size);
    json_decref(roof.gemm);
    return result;
}
