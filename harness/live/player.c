/* SPDX-License-Identifier: Apache-2.0 */
/* player.c - a live plan in the worker of a seat. */
#include "live/player.h"

#include <signal.h>
#include <time.h>

#include "run/instance.h"

static void signal_player(const struct attn_player *player, int number)
{
    if (player->parked)
        attn_worker_signal(player->seat->worker, number);
}

static int batch(void *context, bool exchange, struct attn_live_sample *sample)
{
    struct attn_player *player = context;
    signal_player(player, SIGCONT);
    player->outcome = attn_live_batch(player->live, exchange, sample);
    signal_player(player, SIGSTOP);
    return player->outcome.status == ATTN_PASS ? 0 : -1;
}

struct attn_side attn_player_side(struct attn_player *player)
{
    return (struct attn_side){batch, player};
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

struct attn_turns_world attn_player_world(void)
{
    return (struct attn_turns_world){
        .now = world_now, .pause = world_pause, .stopped = world_stopped};
}

void attn_player_enter(struct attn_player *player, struct attn_seat *seat,
                       const struct attn_variants *variants, int64_t *iterations,
                       struct attn_live_sample *first)
{
    const struct attn_live_params params = {.iterations = *iterations,
                                            .twin = variants->twin,
                                            .spots = variants->spots,
                                            .n_spots = variants->n_spots,
                                            .mixed = variants->mixed,
                                            .scrambles = variants->scrambles};
    const struct attn_settings *s = &seat->session->settings;
    *player = (struct attn_player){.seat = seat, .outcome = attn_seat_worker(seat)};
    if (player->outcome.status == ATTN_PASS) {
        player->outcome =
            attn_live_begin(seat->worker, variants->base, &params, &player->live, first);
        attn_seat_after(seat, &player->outcome);
    }
    if (!player->live)
        return;
    /* Threads of a pool may spin while they have nothing to do. */
    player->parked = s->threads > 1 && !s->debug;
    signal_player(player, SIGSTOP);
    if (*iterations == 0)
        *iterations = first->iterations;
}

void attn_player_leave(struct attn_player *player, struct attn_variants *variants,
                       struct attn_entry *entry)
{
    const uint32_t exactness = entry->contestant->info.exactness;
    struct attn_bench_reply reply;
    struct attn_judgement verdict;
    if (!player->live)
        return;
    signal_player(player, SIGCONT);
    player->parked = false;
    const struct attn_plan_info verified = entry->plan;
    player->outcome = attn_live_end(player->live, &reply, &entry->plan);
    const bool same = attn_entry_keep_numerics(entry, &verified);
    player->live = NULL;
    attn_seat_after(player->seat, &player->outcome);
    if (player->outcome.status != ATTN_PASS || exactness == ATTN_NONE || attn_interrupted)
        return;
    if (same)
        attn_variants_judge(variants, &reply, &entry->plan.numerics, exactness == ATTN_APPROXIMATE,
                            &verdict);
    else
        attn_judgement_set(&verdict, ATTN_FAIL, ATTN_OTHER_NUMERICS);
    if (verdict.status != ATTN_FAIL && verdict.status != ATTN_ERROR)
        return;
    player->outcome.status = verdict.status;
    snprintf(player->outcome.reason, sizeof player->outcome.reason, "%.511s", verdict.reason);
}
