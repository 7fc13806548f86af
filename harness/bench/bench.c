/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - the whole command: ceilings, blocks, machine.json. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/block.h"
#include "results/field.h"
#include "run/machine.h"
#include "run/matrix.h"

/* Of the time for all rounds of a block, the part for rounds without turns. Ratios need rounds with
 * turns, and their intervals get narrower with each. */
static const double rounds_share = 0.25;
/* The same where no ratios are to be had, as there is one backend. */
static const double rounds_share_alone = 0.8;
/* Of few cases, what a block may take of what all others have, for rounds that it is still owed:
 * one of cheap cases takes the start of its workers. */
static const double spare_share = 0.1;
/* Of what is left after these, the part for peak memory. */
static const double peaks_share = 0.25;

/* Ceilings are measured again after a block if this much time has passed. They take two seconds,
 * and neighbours of a virtual machine can hide what it can do for minutes. */
static const double ceilings_again_s = 60;
/* At the end, too, unless they are no older than this. */
static const double ceilings_fresh_s = 10;

/* The object in a file that an earlier command has left in the run folder; NULL: there is none that
 * can be read, and it is made again. */
static json_t *left_there(const struct attn_session *session, const char *name)
{
    char path[ATTN_PATH_MAX], why[256];
    json_t *object = NULL;
    if (session->earlier && attn_path_join(path, session->folder, name) == 0)
        attn_json_load_object(path, &object, why, sizeof why);
    return object;
}

/* Is this the matrix of the session's backends? */
static bool is_matrix_of(const struct attn_session *session, const json_t *matrix)
{
    const json_t *backends = json_object_get(matrix, "backends");
    bool same = json_array_size(backends) == session->roster.count;
    for (size_t b = 0; b < session->roster.count && same; b++) {
        const struct attn_contestant *c = &session->roster.items[b];
        const json_t *backend = json_array_get(backends, b);
        same = strcmp(attn_field_text(backend, "name"), c->info.name) == 0 &&
               strcmp(attn_field_text(backend, "options"), c->options) == 0;
    }
    return same;
}

static int write_matrix(const struct attn_session *session, char *why, size_t size)
{
    json_t *earlier = left_there(session, "matrix.json");
    const bool same = earlier && is_matrix_of(session, earlier);
    json_decref(earlier);
    if (same)
        return 0;
    json_t *matrix = attn_matrix_ask(session, why, size);
    if (!matrix)
        return attn_interrupted ? 0 : -1;
    return attn_session_write(session, matrix, "matrix.json", JSON_COMPACT, why, size);
}

/* The time at which a part should end that has this share of what is left. */
static double share_of(double until, double share)
{
    const double now = attn_now();
    return now + share * (until - now);
}

/* Before the cases, unless an earlier command has done it: a run that is cut off again and again
 * should spend its time on cases. Returns the time at which they were measured; those of an earlier
 * command are not fresh. */
static double measure_roof(const struct attn_session *session, struct attn_roof *roof)
{
    json_t *machine = left_there(session, "machine.json");
    const bool restored = attn_roof_restore(roof, json_object_get(machine, "ceilings"));
    if (!restored) {
        attn_roof_raise(session, roof);
        attn_roof_products(session, roof);
    }
    json_decref(machine);
    return attn_now() - (restored ? ceilings_fresh_s : 0);
}

/* Backends that compute something. */
static size_t contestants(const struct attn_session *session)
{
    size_t n = 0;
    for (size_t b = 0; b < session->roster.count; b++)
        n += session->roster.items[b].info.exactness != ATTN_NONE;
    return n;
}

int attn_bench_all(struct attn_session *session, char *why, size_t size)
{
    size_t n = session->roster.count;
    struct attn_roof roof = {0};
    double harness_ns = 0;
    if (attn_session_empty(session))
        return attn_machine_write(session, &roof, 0, why, size);
    double raised = measure_roof(session, &roof);
    struct attn_progress progress;
    /* The seats last through all blocks: they know how fast each backend is. */
    struct attn_seat *seats = calloc(n, sizeof *seats);
    int result = seats ? 0 : -1;
    if (session->settings.budget_s > 0 && attn_block_order(&session->cases))
        result = -1;
    if (result)
        snprintf(why, size, "no memory for %zu backends", n);
    if (result == 0 &&
        (attn_machine_write(session, &roof, 0, why, size) || write_matrix(session, why, size)))
        result = -1;
    for (size_t b = 0; b < n && seats; b++) {
        attn_seat_init(&seats[b], session, &session->roster.items[b]);
        if (session->settings.budget_s > 0) { /* time for the hopeless is taken from others */
            seats[b].peers = seats;
            seats[b].n_peers = n;
        }
    }
    attn_progress_begin(&progress, session->cases.count, session->settings.budget_s);
    double pace = 0;
    const double share = contestants(session) > 1 ? rounds_share : rounds_share_alone;
    for (size_t first = 0; first < session->cases.count && result == 0 && !attn_interrupted;) {
        struct attn_block block;
        attn_block_begin(session, first, &block);
        block.progress = &progress;
        session->reserved_s = attn_block_reserve(session, &block);
        double until = attn_block_until(session, &block);
        result = attn_block_verify(session, &block, seats, why, size);
        if (result == 0)
            result = attn_block_rounds(session, &block, share_of(until, share), pace, why, size);
        if (result == 0)
            result = attn_block_measure(session, &block, share_of(until, peaks_share), why, size);
        if (result == 0 && !attn_interrupted)
            result = attn_block_paired(session, &block, until, why, size);
        /* Of many cases the next ones have what is left. */
        const bool few = session->cases.count <= ATTN_BLOCK_FEW_CASES;
        const bool last = first + block.count == session->cases.count;
        const double spare = share_of(attn_block_end(session, &block), last ? 1 : spare_share);
        if (result == 0 && (few || last) && isfinite(until) && !attn_interrupted)
            result = attn_block_spare(session, &block, fmax(until, spare), why, size);
        if (result == 0)
            result = attn_block_finish(session, &block, &roof, &harness_ns, why, size);
        pace = block.round_s > 0 ? block.round_s / (double)block.count : pace;
        first += block.count;
        attn_block_free(&block, n);
        if (attn_now() - raised > ceilings_again_s && !attn_interrupted) {
            attn_roof_raise(session, &roof);
            raised = attn_now();
        }
    }
    session->reserved_s = 0;
    attn_progress_clear();
    for (size_t b = 0; b < n && seats; b++)
        attn_seat_free(&seats[b]);
    free(seats);
    if (result == 0 && !attn_interrupted && attn_now() - raised > ceilings_fresh_s)
        attn_roof_raise(session, &roof);
    if (result == 0)
        result = attn_machine_write(session, &roof, harness_ns, why, size);
    json_decref(roof.gemm);
    return result;
}
