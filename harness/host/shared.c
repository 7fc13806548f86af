/* SPDX-License-Identifier: Apache-2.0 */
/* shared.c - requests with operands: what is sent, and what is checked when they come back. */
#include "host/shared.h"

#include <stdio.h>
#include <string.h>

#include "host/entropy.h"
#include "host/process.h"
#include "host/reply.h"
#include "reference/op.h"

/* The input of a floating type whose signs, when turned, must show in `out`. */
static void fill_linear(struct attn_message_request *request, const struct attn_problem *problem)
{
    const struct ref_op *op = ref_op_find(problem->op);
    const char *word = "";
    const uint32_t role = op && op->linear ? op->linear(problem, &word) : 0;
    for (uint32_t t = 0; role && t < request->n_tensors; t++)
        if (request->tensors[t].role == role && request->tensors[t].dtype <= ATTN_BF16)
            request->linear = t + 1;
    snprintf(request->linear_word, sizeof(request->linear_word), "%s", word);
}

void attn_request_fill(struct attn_message_request *request, uint32_t kind,
                       const struct attn_instance *instance, const struct attn_share *share)
{
    *request = (struct attn_message_request){
        .head = {.length = sizeof(*request), .type = ATTN_MESSAGE_REQUEST},
        .kind = kind,
    };
    if (!instance)
        return;
    request->problem = instance->problem;
    request->problem.tensors = NULL;
    request->n_tensors = instance->problem.n_tensors;
    for (uint32_t t = 0; t < request->n_tensors; t++) {
        request->tensors[t] = instance->tensors[t];
        request->tensors[t].data = NULL;
        if (share)
            request->operands[t] = share->operands[t];
        snprintf(request->operands[t].name, sizeof(request->operands[t].name), "%s",
                 attn_role_name(instance->tensors[t].role));
    }
    fill_linear(request, &instance->problem);
}

struct attn_outcome attn_shared_send(struct attn_worker *worker, struct attn_shared *shared,
                                     enum attn_placement placement,
                                     const struct attn_message_request *parameters)
{
    struct attn_share *share = &shared->share;
    struct attn_message_request request;
    char why[256];

    *share = (struct attn_share){.fds = {-1, -1}, .own = {-1, -1}};
    struct attn_outcome outcome = attn_worker_ensure(worker);
    if (outcome.status != ATTN_PASS)
        return outcome;
    const bool live = parameters->kind == ATTN_REQUEST_LIVE;
    shared->two_results = shared->twin && (live || parameters->kind == ATTN_REQUEST_BENCH);
    if (attn_share_create_pair(shared->instance, shared->twin, shared->two_results, placement,
                               share, why, sizeof(why)) != 0)
        return attn_outcome_make(ATTN_ERROR, ATTN_NO_OPERANDS "%s", why);
    attn_request_fill(&request, parameters->kind, shared->instance, share);
    request.iterations = parameters->iterations;
    request.runs = parameters->runs;
    request.samples = parameters->samples;
    request.min_time = parameters->min_time;
    request.cold = parameters->cold;
    request.fresh = parameters->fresh;
    request.keep = parameters->keep;
    memcpy(request.second, share->second, sizeof(request.second));
    memcpy(request.spots, parameters->spots, sizeof(request.spots));
    request.n_spots = parameters->n_spots;
    request.mixed = parameters->mixed;
    request.scrambles = parameters->scrambles;
    request.entropy = attn_entropy();
    const struct attn_exchange exchange = {
        .message = &request.head, .live = live, .fds = share->fds, .instance = shared->instance};
    return attn_exchange(worker, &exchange);
}

struct attn_outcome attn_shared_finish(struct attn_worker *worker, struct attn_shared *shared,
                                       struct attn_outcome outcome, struct attn_plan_info *info)
{
    struct attn_share *share = &shared->share;
    struct attn_instance *instance = shared->instance;
    char why[256];
    if (outcome.status == ATTN_PASS && info)
        attn_plan_info_take(info, &worker->in.reply, share->protection);
    const uint32_t modified = outcome.status == ATTN_PASS ? worker->in.reply.modified : 0;
    enum attn_promise broken = ATTN_PROMISE_NONE;
    if (modified > 0 && modified <= instance->problem.n_tensors) {
        broken = ATTN_PROMISE_INPUTS;
        snprintf(why, sizeof(why), "modifies input %s",
                 attn_role_name(instance->tensors[modified - 1].role));
    } else if (outcome.status == ATTN_PASS) {
        broken = attn_share_check(share, instance, why, sizeof(why));
    }
    if (broken != ATTN_PROMISE_NONE) {
        outcome = attn_outcome_make(ATTN_FAIL, "%s", why);
        outcome.broken = broken;
    }
    if (outcome.status == ATTN_PASS) {
        attn_share_collect(share, instance);
        if (shared->two_results)
            attn_share_collect_second(share, shared->twin);
    }
    attn_share_free(share);
    return outcome;
}
