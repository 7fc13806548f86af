/* SPDX-License-Identifier: Apache-2.0 */
/* finish.c - what is measured once a block has been timed, and its records. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/block.h"
#include "reference/dtype.h"
#include "run/count.h"
#include "run/suspect.h"
#include "tensor/operand.h"

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
static double block_overhead(const struct attn_block *block, size_t backends)
{
    for (size_t b = 0; b < backends; b++) {
        const struct attn_entry *entry = attn_block_entry(block, backends, 0, b);
        struct attn_summary s;
        if (entry->contestant->info.exactness == ATTN_NONE &&
            attn_entry_summary(entry, ATTN_HOT, &s))
            return s.median;
    }
    return 0;
}

/* Is a time shorter than the machine allows? Ceilings that seem to be passed are measured once more
 * in this block: an honest kernel may have had a better moment than they. */
static bool is_too_short(const struct attn_session *session, const struct attn_work *work,
                         double ns, struct attn_roof *roof, bool *raised, char *reason, size_t size)
{
    if (!attn_work_is_suspect(&roof->ceilings, work, ns, reason, size))
        return false;
    if (!*raised)
        attn_roof_raise(session, roof);
    *raised = true;
    return attn_work_is_suspect(&roof->ceilings, work, ns, reason, size);
}

/* Is a figure of this entry faster than the machine allows? paired: its rounds of turns, or NULL.
 */
static bool is_suspect(const struct attn_session *session, const struct attn_entry *entry,
                       const struct attn_paired_rounds *paired, struct attn_roof *roof,
                       bool *raised, char *reason, size_t size)
{
    const struct attn_work work = attn_work_of(entry);
    struct attn_interval low;
    for (enum attn_cache c = ATTN_HOT; c < ATTN_CACHES; c++) {
        struct attn_summary s;
        if (attn_entry_summary(entry, c, &s) &&
            is_too_short(session, &work, s.median, roof, raised, reason, size))
            return true;
    }
    return paired && attn_paired_low(paired, &low) &&
           is_too_short(session, &work, low.value, roof, raised, reason, size);
}

/* Was a cold timing faster than the machine reads its inputs from memory? What it writes may stay
 * in a cache. */
static bool was_warm(const struct attn_entry *entry, const struct attn_instance *instance,
                     const struct attn_ceilings *ceilings)
{
    struct attn_work work = attn_work_of(entry);
    struct attn_summary s;
    for (uint32_t t = 0; t < instance->problem.n_tensors && work.bytes > 0; t++)
        if (instance->operands[t].output)
            work.bytes -= (double)attn_operand_count(&instance->tensors[t]) *
                          (double)attn_dtype_size(instance->tensors[t].dtype);
    return attn_entry_summary(entry, ATTN_COLD, &s) &&
           attn_work_was_warm(ceilings, &work, s.median);
}

/* The record of a result; `paired` is NULL where there were no turns. */
static json_t *record_of(const struct attn_session *session, const struct attn_entry *entry,
                         const struct attn_paired_rounds *paired, enum attn_cache cache, bool warm)
{
    json_t *record = attn_bench_record(entry, session, cache);
    if (record && cache == ATTN_COLD)
        json_object_set_new(record, "was_warm", json_boolean(warm));
    if (record && cache == ATTN_HOT)
        json_object_set_new(record, "live", paired ? attn_paired_json(paired) : json_null());
    return record;
}

/* What was cut off says so, and --resume measures it again. */
static int keep(struct attn_session *session, json_t *record)
{
    if (record && attn_interrupted)
        json_object_set_new(record, "cut", json_true());
    return attn_session_record(session, record);
}

/* A case that was cut off before its first round. */
static int say_untimed(struct attn_session *session, struct attn_entry *entry, char *why,
                       size_t size)
{
    return attn_interrupted && entry->n_rounds[ATTN_HOT] + entry->n_rounds[ATTN_COLD] == 0
               ? attn_block_untimed(session, entry, ATTN_WAS_INTERRUPTED, why, size)
               : 0;
}

/* A backend whose fresh worker takes longer, because it loads much, is measured after the others.
 */
static const double quick_s = 0.25;

/* Measures what has not been, unless its backend is slow and `slow` is not set: the last cases
 * first, which a budget has put in ascending order of work, as memory matters where there is much.
 * cost: seconds of each backend's last measurement without the run; below 0: none yet. */
static int measure_all(struct attn_session *session, struct attn_block *block, bool slow,
                       double until, double *cost)
{
    const size_t n = session->roster.count;
    int result = 0;
    for (size_t e = block->count * n; e-- > 0 && !attn_interrupted && result == 0;) {
        struct attn_entry *entry = &block->entries[e];
        const double began = attn_now(), run = fmax(entry->seconds, 0);
        if (entry->enough || !entry->timed || entry->peak_done || *entry->peak_reason ||
            entry->contestant->info.exactness == ATTN_NONE || (!slow && cost[e % n] > quick_s))
            continue;
        if (began + fmax(cost[e % n], 0) + run > until) {
            if (slow)
                snprintf(entry->peak_reason, sizeof entry->peak_reason, ATTN_TIME_USED_UP " (%g s)",
                         session->settings.budget_s);
            continue;
        }
        measure_peak(session, block->instances[e / n], entry);
        cost[e % n] = fmax(attn_now() - began - run, 0);
        if (!attn_interrupted)
            result = attn_session_record(session, attn_peak_record(entry, session));
        entry->peak_done = true;
    }
    return result;
}

static int count_all(struct attn_session *session, struct attn_block *block)
{
    const size_t n = session->roster.count;
    int result = 0;
    for (size_t e = 0; e < block->count * n && !attn_interrupted && result == 0; e++) {
        struct attn_entry *entry = &block->entries[e];
        if (!entry->timed || entry->enough || entry->count_done)
            continue;
        attn_count_entry(session, block->instances[e / n], block->judges[e / n], entry);
        if (!attn_interrupted)
            result = attn_session_record(session, attn_count_record(entry, session));
        entry->count_done = true;
    }
    return result;
}

int attn_block_measure(struct attn_session *session, struct attn_block *block, double until,
                       char *why, size_t size)
{
    const size_t n = session->roster.count;
    double *cost = malloc((n + 1) * sizeof *cost);
    int result = cost ? 0 : -1;
    if (result)
        snprintf(why, size, "no memory to measure");
    for (size_t b = 0; b < n && cost; b++)
        cost[b] = -1;
    for (int slow = 0; slow < 2 && result == 0; slow++)
        result = measure_all(session, block, slow, until, cost);
    if (result == 0 && session->settings.count)
        result = count_all(session, block);
    if (result && cost)
        snprintf(why, size, "a record cannot be written: %m");
    free(cost);
    return result;
}

int attn_block_finish(struct attn_session *session, struct attn_block *block,
                      struct attn_roof *roof, double *harness_ns, char *why, size_t size)
{
    char reason[256];
    bool raised = false;
    size_t n = session->roster.count;
    double overhead = block_overhead(block, n);
    if (overhead > 0)
        *harness_ns = overhead;
    for (size_t i = 0; i < block->count; i++)
        for (size_t b = 0; b < n; b++) {
            struct attn_entry *entry = attn_block_entry(block, n, i, b);
            if (entry->timed && say_untimed(session, entry, why, size))
                return -1;
            if (!entry->timed)
                continue;
            const struct attn_paired_rounds *paired =
                block->paired ? &block->paired[i * n + b] : NULL;
            if (!attn_interrupted &&
                is_suspect(session, entry, paired, roof, &raised, reason, sizeof reason)) {
                if (attn_block_failed(session, entry, ATTN_SUSPECT, reason, why, size))
                    return -1;
                continue;
            }
            entry->harness_ns = *harness_ns;
            /* Hot comes last: its record completes the case. */
            const bool warm = was_warm(entry, block->instances[i], &roof->ceilings);
            for (int c = ATTN_CACHES - 1; c >= 0; c--)
                if (entry->n_rounds[c] && !entry->benched[c] &&
                    keep(session, record_of(session, entry, paired, (enum attn_cache)c, warm))) {
                    snprintf(why, size, "a record cannot be written: %m");
                    return -1;
                }
        }
    return 0;
}
