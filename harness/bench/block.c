/* SPDX-License-Identifier: Apache-2.0 */
/* block.c - which cases a block holds, their verification, and its share of the budget. */
#include "bench/block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "case/operator.h"
#include "run/verify.h"

/* Operands and references of a whole block are in memory at the same time. */
static const uint64_t block_bytes = 512ull << 20;

struct attn_entry *attn_block_entry(const struct attn_block *block, size_t backends, size_t i,
                                    size_t b)
{
    return &block->entries[i * backends + b];
}

size_t attn_block_size(const struct attn_session *session, size_t first)
{
    uint64_t bytes = 0;
    size_t n = 0;
    while (n < ATTN_BLOCK_CASES && first + n < session->cases.count) {
        uint64_t next = attn_case_bytes(&session->cases.items[first + n]);
        next = next > UINT64_MAX / 2 ? UINT64_MAX : 2 * next; /* with its twin */
        if (n > 0 && (next > block_bytes || bytes + next > block_bytes))
            break;
        bytes = next > block_bytes ? block_bytes : bytes + next;
        n++;
    }
    return n;
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

int attn_block_verify(struct attn_session *session, struct attn_block *block,
                      struct attn_seat *seats, struct attn_progress *progress, char *why,
                      size_t size)
{
    size_t n = session->roster.count;
    block->entries = calloc(block->count * n, sizeof *block->entries);
    int result = block->entries ? 0 : -1;
    if (result)
        snprintf(why, size, "no memory for a block of %zu cases", block->count);
    for (size_t i = 0; i < block->count && result == 0 && !attn_interrupted; i++) {
        const struct attn_case *c = &session->cases.items[block->first + i];
        attn_progress_step(progress, block->first + i, block->first, c);
        struct attn_verification v = {
            .c = c, .seats = seats, .entries = attn_block_entry(block, n, i, 0)};
        result = attn_verify_case(session, &v, NULL, why, size);
        block->instances[i] = v.instance;
        block->judges[i] = v.judge;
        for (size_t b = 0; b < n && result == 0; b++) {
            struct attn_entry *entry = attn_block_entry(block, n, i, b);
            bool none = entry->contestant->info.exactness == ATTN_NONE;
            entry->timed = block->instances[i] && (!none || i == 0) &&
                           attn_status_holds(entry->verdict.status);
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
 * processes, caches and turns, and 4 per GFLOP, up to 20, where a slow backend gets near its limit.
 */
static double weight(const struct attn_session *session, size_t first, size_t count)
{
    double sum = 0;
    for (size_t i = first; i < first + count; i++) {
        const struct attn_case *c = &session->cases.items[i];
        sum += 2 + fmin(4e-9 * attn_case_flops(c, attn_case_cells(c)), 20);
    }
    return sum;
}

double attn_block_until(const struct attn_session *session, const struct attn_block *block)
{
    double budget = session->settings.budget_s, now = attn_now();
    if (budget <= 0)
        return INFINITY;
    return now + (session->began + budget - now) * weight(session, block->first, block->count) /
                     weight(session, block->first, session->cases.count - block->first);
}
