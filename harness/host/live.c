/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - the host's side of a LIVE request. */
#include "host/live.h"

#include <stdlib.h>
#include <string.h>

#include "host/process.h"
#include "host/reply.h"
#include "host/shared.h"

struct attn_live {
    struct attn_worker *worker;
    struct attn_shared shared;
    struct attn_outcome outcome; /* of the last exchange */
    bool ended;                  /* the worker has replied, or is gone */
};

/* Looks at what has ended an exchange: a sample, or the reply. */
static void look(struct attn_live *live)
{
    live->ended =
        live->outcome.status != ATTN_PASS || live->worker->in.head.type != ATTN_MESSAGE_SAMPLE;
}

struct attn_outcome attn_live_begin(struct attn_worker *worker, struct attn_instance *instance,
                                    const struct attn_live_params *params, struct attn_live **out,
                                    struct attn_live_sample *first)
{
    struct attn_message_request request = {.kind = ATTN_REQUEST_LIVE,
                                           .iterations = params->iterations,
                                           .n_spots = params->n_spots,
                                           .mixed = params->mixed,
                                           .scrambles = params->scrambles};
    *out = NULL;
    struct attn_live *live = calloc(1, sizeof(*live));
    if (!live)
        return attn_outcome_make(ATTN_ERROR, ATTN_NO_OPERANDS "no memory for a live timing");
    if (params->n_spots > 0)
        memcpy(request.spots, params->spots, params->n_spots * sizeof(*params->spots));
    live->worker = worker;
    live->shared.instance = instance;
    live->shared.twin = params->twin;
    live->outcome = attn_shared_send(worker, &live->shared, ATTN_PLACE_START, &request);
    look(live);
    if (live->ended) {
        if (live->outcome.status == ATTN_PASS)
            live->outcome = attn_outcome_make(ATTN_ERROR, "the worker ended a timing too early");
        return attn_live_end(live, NULL, NULL);
    }
    *first = worker->in.sample.sample;
    *out = live;
    return live->outcome;
}

static void order(struct attn_live *live, bool exchange, bool end)
{
    const struct attn_message_batch batch = {
        .head = {.length = sizeof(batch), .type = ATTN_MESSAGE_BATCH},
        .exchange = exchange,
        .end = end};
    const struct attn_exchange message = {
        .message = &batch.head, .live = true, .instance = live->shared.instance};
    live->outcome = attn_exchange(live->worker, &message);
    look(live);
}

struct attn_outcome attn_live_batch(struct attn_live *live, bool exchange,
                                    struct attn_live_sample *sample)
{
    order(live, exchange, false);
    if (live->outcome.status == ATTN_PASS && live->ended)
        live->outcome = attn_outcome_make(ATTN_ERROR, "the worker ended a timing too early");
    if (live->outcome.status == ATTN_PASS)
        *sample = live->worker->in.sample.sample;
    return live->outcome;
}

struct attn_outcome attn_live_end(struct attn_live *live, struct attn_bench_reply *reply,
                                  struct attn_plan_info *info)
{
    if (!live->ended)
        order(live, false, true);
    if (!live->ended)
        live->outcome = attn_outcome_make(ATTN_ERROR, "the worker goes on after its last batch");
    struct attn_outcome outcome =
        attn_shared_finish(live->worker, &live->shared, live->outcome, info);
    if (outcome.status == ATTN_PASS && reply) {
        const struct attn_message_reply *from = &live->worker->in.reply;
        *reply = (struct attn_bench_reply){
            .last = from->last, .drawn = from->drawn, .drawn_seed = from->drawn_seed};
        attn_device_take(&reply->before, &from->before);
        attn_device_take(&reply->after, &from->after);
    }
    free(live);
    return outcome;
}
