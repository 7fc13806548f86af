/* SPDX-License-Identifier: Apache-2.0 */
/* block.c - which cases a block holds, their verification, and its share of the budget. */
#include "bench/block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "case/operator.h"
#include "host/memory.h"
#include "run/restore.h"
#include "run/verify.h"

/* Operands and references of a whole block are in memory at the same time: operands may take this
 * much at least, and this share of what is available, up to the most. */
static const double bytes_least = 512 << 20, bytes_most = 2048.0 * (1 << 20),
                    bytes_share = 1.0 / 16;

/* What a run of a good backend takes on a small core, at least. */
static double seconds_of(const struct attn_case *c)
{
    static const double flops_s = 1e11, bytes_s = 1e10;
    return attn_case_flops(c, attn_case_cells(c)) / flops_s + (double)attn_case_bytes(c) / bytes_s;
}

/* Exact attention, forward or backward, of inputs drawn at random: what most backends do, and what
 * sweeps and shapes of models are made of. */
static bool is_plain(const struct attn_case *c)
{
    const bool whole = attn_case_is_softmax(c) || attn_case_op(c)->gradients;
    return whole && !c->data && c->score == ATTN_SCORE_SCALED_DOT && c->fill == ATTN_FILL_NORMAL &&
           c->global == ATTN_GLOBAL_NONE && c->n_dilation == 0;
}

static enum attn_block_class class_of(const struct attn_case *c)
{
    static const double small_s = 2e-4;
    return seconds_of(c) < small_s ? ATTN_BLOCK_SMALL
           : is_plain(c)           ? ATTN_BLOCK_PLAIN
                                   : ATTN_BLOCK_OTHER;
}

bool attn_block_is_small(const struct attn_case *c)
{
    return class_of(c) == ATTN_BLOCK_SMALL;
}

/* What a small case is expected to take to be verified on a backend. (Measured: 0.006 s of eight
 * that load little, 0.014 s of fourteen, four of which load PyTorch.) */
static const double small_verify_s = 0.014;

/* What decides the place of a case: its class, -1 for few small ones; then its time, 0 for small
 * ones, which stay in their order. */
struct place {
    int class;
    double seconds;
    size_t at;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

int attn_block_order(struct attn_case_list *cases)
{
    struct place *places = calloc(cases->count, sizeof *places);
    struct attn_case *sorted = calloc(cases->count, sizeof *sorted);
    const bool any = places && sorted;
    size_t small = 0;
    for (size_t i = 0; i < cases->count; i++)
        small += attn_block_is_small(&cases->items[i]);
    for (size_t i = 0; i < cases->count && any; i++) {
        const struct attn_case *c = &cases->items[i];
        const enum attn_block_class class = class_of(c);
        places[i] = class != ATTN_BLOCK_SMALL
                        ? (struct place){(int)class, seconds_of(c), i}
                        : (struct place){small <= ATTN_BLOCK_FEW_CASES ? -1 : (int)class, 0, i};
    }
    if (any)
        qsort(places, cases->count, sizeof *places, by_place);
    for (size_t i = 0; i < cases->count && any; i++)
        sorted[i] = cases->items[places[i].at];
    if (any)
        memcpy(cases->items, sorted, cases->count * sizeof *sorted);
    free(places);
    free(sorted);
    return any ? 0 : -1;
}

struct attn_entry *attn_block_entry(const struct attn_block *block, size_t backends, size_t i,
                                    size_t b)
{
    return &block->entries[i * backends + b];
}

struct attn_variants *attn_block_variants(const struct attn_session *session,
                                          struct attn_block *block, size_t i)
{
    struct attn_variants *variants = &block->variants[i];
    if (!variants->base)
        attn_variants_create(block->instances[i], block->judges[i], session->settings.host_threads,
                             variants);
    return variants;
}

void attn_block_begin(const struct attn_session *session, size_t first, struct attn_block *block)
{
    const bool ordered = session->settings.budget_s > 0;
    const uint64_t block_bytes = (uint64_t)fmax(
        bytes_least, fmin(bytes_most, bytes_share * (double)attn_memory_available()));
    uint64_t bytes = 0;
    size_t n = 0;
    *block = (struct attn_block){.first = first};
    if (ordered)
        block->class = class_of(&session->cases.items[first]);
    while (n < ATTN_BLOCK_CASES && first + n < session->cases.count) {
        if (ordered && class_of(&session->cases.items[first + n]) != block->class)
            break;
        uint64_t next = attn_case_bytes(&session->cases.items[first + n]);
        next = next > UINT64_MAX / 2 ? UINT64_MAX : 2 * next; /* with its twin */
        if (n > 0 && (next > block_bytes || bytes + next > block_bytes))
            break;
        bytes = next > block_bytes ? block_bytes : bytes + next;
        n++;
    }
    block->count = n;
}

void attn_block_free(struct attn_block *block, size_t backends)
{
    for (size_t i = 0; i < block->count; i++) {
        attn_variants_free(&block->variants[i]);
        attn_judge_free(block->judges[i]);
        attn_instance_free(block->instances[i]);
        for (size_t b = 0; b < backends && block->entries; b++) {
            attn_entry_clear(attn_block_entry(block, backends, i, b));
            for (int c = 0; c < ATTN_CACHES; c++)
                free(attn_block_entry(block, backends, i, b)->rounds[c]);
        }
        for (size_t b = 0; b < backends && block->paired; b++)
            attn_paired_free(&block->paired[i * backends + b]);
    }
    free(block->paired);
    free(block->entries);
    memset(block, 0, sizeof *block);
}

int attn_block_untimed(struct attn_session *session, struct attn_entry *entry, const char *reason,
                       char *why, size_t size)
{
    entry->timed = false;
    if (attn_session_record(session, attn_untimed_record(entry, session, reason)) == 0)
        return 0;
    snprintf(why, size, "a record cannot be written: %m");
    return -1;
}

/* Is a case to be timed on this backend? */
static int admit(struct attn_session *session, bool first, struct attn_entry *entry, char *why,
                 size_t size)
{
    const double limit = session->settings.run_limit_s;
    entry->timed = false;
    if (attn_restore_timing(session, entry)) {
        snprintf(why, size, "no memory for %d rounds", session->settings.rounds);
        return -1;
    }
    if (entry->finished)
        return 0;
    const bool none = entry->contestant->info.exactness == ATTN_NONE;
    char reason[128];
    entry->timed = attn_status_holds(entry->verdict.status) && (!none || first);
    /* The rate that was expected of it was too high: it would not have been run at all. */
    if (!entry->timed || limit <= 0 || entry->seconds <= limit)
        return 0;
    snprintf(reason, sizeof reason, "a run took %.2g s, the limit is %.2g s", entry->seconds,
             limit);
    return attn_block_untimed(session, entry, reason, why, size);
}

int attn_block_verify(struct attn_session *session, struct attn_block *block,
                      struct attn_seat *seats, char *why, size_t size)
{
    size_t n = session->roster.count;
    block->entries = calloc(block->count * n, sizeof *block->entries);
    int result = block->entries ? 0 : -1;
    if (result)
        snprintf(why, size, "no memory for a block of %zu cases", block->count);
    for (size_t i = 0; i < block->count && result == 0 && !attn_interrupted; i++) {
        const struct attn_case *c = &session->cases.items[block->first + i];
        attn_progress_step(block->progress, block->first + i, block->first, c);
        struct attn_verification v = {
            .c = c, .seats = seats, .entries = attn_block_entry(block, n, i, 0)};
        result = attn_verify_case(session, &v, NULL, why, size);
        block->instances[i] = v.instance;
        block->judges[i] = v.judge;
        for (size_t b = 0; b < n && result == 0; b++) {
            if (block->instances[i] || attn_block_entry(block, n, i, b)->finished)
                result = admit(session, i == 0, attn_block_entry(block, n, i, b), why, size);
        }
    }
    for (size_t b = 0; b < n; b++)
        attn_seat_leave(&seats[b]);
    return result;
}

int attn_block_failed(struct attn_session *session, struct attn_entry *entry,
                      enum attn_status status, const char *reason, char *why, size_t size)
{
    entry->timed = false;
    entry->broke_timed = true;
    entry->verdict.status = status;
    snprintf(entry->verdict.reason, sizeof entry->verdict.reason, "while timed: %.480s", reason);
    entry->harmless = status == ATTN_SKIP;
    return attn_verify_finish(session, entry, NULL, why, size);
}

/* The weight of `count` cases from `first` on, by which the budget is shared: 2 per case, for
 * processes, caches and turns, and 4 per GFLOP, up to 8, where a slow backend gets near its limit.
 * Of a plain case, which is to have turns, five times as much; of other large ones four times:
 * checking an operator at 16,384 keys takes longer than its FLOPs say. */
static double weight(const struct attn_session *session, size_t first, size_t count)
{
    static const double more[] = {
        [ATTN_BLOCK_PLAIN] = 5, [ATTN_BLOCK_OTHER] = 4, [ATTN_BLOCK_SMALL] = 1};
    double sum = 0;
    for (size_t i = first; i < first + count; i++) {
        const struct attn_case *c = &session->cases.items[i];
        sum += more[class_of(c)] * (2 + fmin(4e-9 * attn_case_flops(c, attn_case_cells(c)), 8));
    }
    return sum;
}

double attn_block_reserve(const struct attn_session *session, const struct attn_block *block)
{
    size_t small = 0;
    for (size_t i = block->first + block->count; i < session->cases.count; i++)
        small += attn_block_is_small(&session->cases.items[i]);
    return small_verify_s * (double)(small * session->roster.count);
}

double attn_block_end(const struct attn_session *session, const struct attn_block *block)
{
    return session->settings.budget_s > 0
               ? session->began + session->settings.budget_s - attn_block_reserve(session, block)
               : INFINITY;
}

double attn_block_until(const struct attn_session *session, const struct attn_block *block)
{
    const double end = attn_block_end(session, block), now = attn_now();
    const bool small = block->class == ATTN_BLOCK_SMALL;
    size_t alike = block->count; /* what shares with it */
    for (size_t i = block->first + alike; i < session->cases.count; i++)
        alike += small || !attn_block_is_small(&session->cases.items[i]);
    return isfinite(end) ? now + (end - now) * weight(session, block->first, block->count) /
                                     weight(session, block->first, alike)
                         : INFINITY;
}
