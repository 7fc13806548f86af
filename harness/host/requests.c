/* SPDX-License-Identifier: Apache-2.0 */
/* requests.c - the requests that the rest of the harness makes of a worker. */
#include <stdio.h>
#include <string.h>

#include "case/text.h"
#include "host/outputs.h"
#include "host/process.h"
#include "host/reply.h"
#include "host/shared.h"
#include "host/unrest.h"
#include "host/worker.h"
#include "reference/op.h"

struct attn_outcome attn_worker_inspect(const struct attn_worker_config *config,
                                        struct attn_plugin_info *info)
{
    struct attn_worker_config plain = *config;
    struct attn_worker *worker;
    struct attn_message_request request;

    plain.backend = NULL;
    plain.options = NULL;
    *info = (struct attn_plugin_info){.n_backends = 0};
    snprintf(info->path, sizeof(info->path), "%s", config->plugin_path ? config->plugin_path : "");
    struct attn_outcome outcome = attn_worker_start(&plain, &worker);
    if (outcome.status != ATTN_PASS)
        return outcome;
    attn_request_fill(&request, ATTN_REQUEST_INSPECT, NULL, NULL);
    const struct attn_exchange exchange = {.message = &request.head, .info = info};
    outcome = attn_exchange(worker, &exchange);
    attn_worker_stop(worker);
    return outcome;
}

/* A request about a problem without operands. */
static struct attn_outcome ask(struct attn_worker *worker, uint32_t kind,
                               const struct attn_instance *instance)
{
    struct attn_message_request request;
    const struct attn_outcome ready = attn_worker_ensure(worker);
    if (ready.status != ATTN_PASS)
        return ready;
    attn_request_fill(&request, kind, instance, NULL);
    /* To an operator without scores no score is unknown. */
    if (kind == ATTN_REQUEST_UNKNOWNS && ref_op_find(instance->problem.op)->scores == 0)
        request.problem.score = 0;
    const struct attn_exchange exchange = {.message = &request.head, .instance = instance};
    return attn_exchange(worker, &exchange);
}

struct attn_outcome attn_worker_supports(struct attn_worker *worker,
                                         const struct attn_instance *instance)
{
    return ask(worker, ATTN_REQUEST_SUPPORTS, instance);
}

struct attn_outcome attn_worker_unknowns(struct attn_worker *worker,
                                         const struct attn_instance *instance)
{
    return ask(worker, ATTN_REQUEST_UNKNOWNS, instance);
}

/* Verify, bench and peak: one request with operands. `parameters` are those of its kind. */
static struct attn_outcome run_shared(struct attn_worker *worker, struct attn_instance *instance,
                                      struct attn_instance *twin, enum attn_placement placement,
                                      const struct attn_message_request *parameters,
                                      struct attn_plan_info *info)
{
    struct attn_shared shared = {.instance = instance, .twin = twin};
    const struct attn_outcome outcome = attn_shared_send(worker, &shared, placement, parameters);
    return attn_shared_finish(worker, &shared, outcome, info);
}

struct attn_outcome attn_worker_verify(struct attn_worker *worker, struct attn_instance *instance,
                                       enum attn_placement placement, int runs,
                                       struct attn_plan_info *info, double *seconds)
{
    const struct attn_message_request request = {
        .kind = ATTN_REQUEST_VERIFY, .runs = runs, .fresh = placement == ATTN_PLACE_START};
    const struct attn_outcome outcome =
        run_shared(worker, instance, NULL, placement, &request, info);
    if (outcome.status == ATTN_PASS && seconds)
        *seconds = worker->in.reply.seconds;
    return outcome;
}

struct attn_outcome attn_worker_renew(struct attn_worker *worker, struct attn_instance *instance,
                                      struct attn_instance *twin, int runs, double seconds,
                                      bool keep, struct attn_plan_info *info)
{
    const struct attn_message_request request = {
        .kind = ATTN_REQUEST_VERIFY, .runs = runs, .min_time = seconds, .keep = keep};
    const struct attn_outcome outcome =
        run_shared(worker, instance, twin, ATTN_PLACE_START, &request, info);
    if (outcome.status == ATTN_PASS)
        attn_outputs_copy(twin, instance);
    return outcome;
}

struct attn_outcome attn_worker_aged(struct attn_worker *worker, struct attn_instance *instance)
{
    const struct attn_message_request request = {.kind = ATTN_REQUEST_AGED};
    return run_shared(worker, instance, NULL, ATTN_PLACE_START, &request, NULL);
}

struct attn_outcome attn_worker_repeat(struct attn_worker *worker, struct attn_instance *instance,
                                       int runs)
{
    const struct attn_message_request request = {.kind = ATTN_REQUEST_REPEAT, .runs = runs};
    struct attn_unrest unrest;
    /* The worker is started from this thread, which its death signal is bound to. Plans that are
     * made to count what they leave behind need no other work beside them. */
    if (runs > 0)
        attn_unrest_begin(&unrest);
    const struct attn_outcome outcome =
        run_shared(worker, instance, NULL, ATTN_PLACE_END, &request, NULL);
    if (runs > 0)
        attn_unrest_end(&unrest);
    return outcome;
}

struct attn_outcome attn_worker_growth(struct attn_worker *worker, struct attn_instance *instance,
                                       double seconds)
{
    const struct attn_message_request request = {.kind = ATTN_REQUEST_REPEAT, .min_time = seconds};
    return run_shared(worker, instance, NULL, ATTN_PLACE_END, &request, NULL);
}

struct attn_outcome attn_worker_bench(struct attn_worker *worker, struct attn_instance *instance,
                                      const struct attn_bench_params *params,
                                      struct attn_bench_reply *reply, struct attn_plan_info *info)
{
    struct attn_message_request request = {
        .kind = ATTN_REQUEST_BENCH,
        .samples = params->samples,
        .min_time = params->min_time,
        .cold = params->cold,
        .n_spots = params->n_spots,
        .mixed = params->mixed,
        .scrambles = params->scrambles,
    };
    if (params->n_spots > 0)
        memcpy(request.spots, params->spots, params->n_spots * sizeof(*params->spots));
    struct attn_outcome outcome =
        run_shared(worker, instance, params->twin, ATTN_PLACE_START, &request, info);
    /* A worker that has none says so. */
    if (outcome.status == ATTN_PASS && worker->in.reply.n_samples == 0)
        outcome = attn_outcome_make(ATTN_ERROR, "the worker sent a timing without a sample");
    if (outcome.status == ATTN_PASS) {
        reply->last = worker->in.reply.last;
        reply->drawn = worker->in.reply.drawn;
        reply->drawn_seed = worker->in.reply.drawn_seed;
        reply->n = (int)worker->in.reply.n_samples;
        memcpy(reply->samples_ns, worker->in.reply.samples_ns, sizeof(reply->samples_ns));
        memcpy(reply->cpu_ns, worker->in.reply.cpu_ns, sizeof(reply->cpu_ns));
        memcpy(reply->iterations, worker->in.reply.iterations, sizeof(reply->iterations));
        attn_device_take(&reply->before, &worker->in.reply.before);
        attn_device_take(&reply->after, &worker->in.reply.after);
    }
    return outcome;
}

struct attn_outcome attn_worker_peak(struct attn_worker *worker, struct attn_instance *instance,
                                     uint64_t *bytes, uint64_t *taken)
{
    const struct attn_message_request request = {.kind = ATTN_REQUEST_PEAK};
    const struct attn_outcome outcome =
        run_shared(worker, instance, NULL, ATTN_PLACE_START, &request, NULL);
    if (outcome.status == ATTN_PASS) {
        *bytes = worker->in.reply.bytes;
        *taken = worker->in.reply.taken;
    }
    return outcome;
}

struct attn_outcome attn_worker_ceilings(struct attn_worker *worker, struct attn_ceilings *ceilings)
{
    struct attn_message_request request;
    const struct attn_outcome ready = attn_worker_ensure(worker);
    if (ready.status != ATTN_PASS)
        return ready;
    attn_request_fill(&request, ATTN_REQUEST_CEILINGS, NULL, NULL);
    const struct attn_exchange exchange = {.message = &request.head};
    const struct attn_outcome outcome = attn_exchange(worker, &exchange);
    if (outcome.status == ATTN_PASS) {
        *ceilings = worker->in.reply.ceilings;
        for (uint32_t r = 0; r < ceilings->n_rungs; r++)
            attn_text_take(ceilings->rungs[r].isa, sizeof(ceilings->rungs[r].isa),
                           worker->in.reply.ceilings.rungs[r].isa,
                           sizeof(worker->in.reply.ceilings.rungs[r].isa));
    }
    return outcome;
}
