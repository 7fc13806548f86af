/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - the requests that the rest of the harness makes of a worker. */
#include "host/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/affinity.h"
#include "host/isolate.h"
#include "host/process.h"
#include "host/reply.h"
#include "host/shared.h"
#include "host/unrest.h"
#include "host/walk.h"
#include "reference/dtype.h"
#include "reference/op.h"

#define STOP_GRACE_S 1.0

/* Used for what a configuration leaves open. */
#define TIMEOUT_S 60.0
enum { LOG_CAP = 1 << 20 };    /* bytes */
enum { RSS_SHARE_TENTHS = 9 }; /* of what the kernel says can be had without swapping */

static uint64_t default_rss_limit(void)
{
    unsigned long long kib = 0;
    char line[256];
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && kib == 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, "MemAvailable:", 13) == 0)
            kib = strtoull(line + 13, NULL, 10);
    if (file)
        fclose(file);
    return kib > 0 ? kib * 1024 / 10 * RSS_SHARE_TENTHS : UINT64_MAX / 4;
}

/* The data limit leaves room above the resident limit, so that it is the watch that speaks first;
 * it is there for what grows faster than the watch looks. */
static uint64_t data_limit(const struct attn_worker_config *config)
{
    return config->foreground || config->rss_limit > UINT64_MAX / 4 ? 0 : config->rss_limit * 2;
}

static int fill_config(const struct attn_worker *worker, struct attn_message_config *message,
                       char *why, size_t size)
{
    const struct attn_worker_config *config = &worker->config;
    *message = (struct attn_message_config){
        .head = {.length = sizeof(*message), .type = ATTN_MESSAGE_CONFIG},
        .version = ATTN_PROTOCOL_VERSION,
        .threads = (uint32_t)config->threads,
        .data_limit = data_limit(config),
        .isolate = !config->foreground && attn_isolate_possible(),
        .host = (int32_t)getpid(),
    };
    const struct {
        const char *name, *from;
        char *to;
        size_t room;
    } texts[] = {
        {"plugin's path", config->plugin_path, message->plugin, sizeof(message->plugin)},
        {"backend's name", config->backend, message->backend, sizeof(message->backend)},
        {"list of options", config->options, message->options, sizeof(message->options)},
    };
    for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
        const char *from = texts[t].from ? texts[t].from : "";
        if (strlen(from) >= texts[t].room) {
            snprintf(why, size, "the %s is too long", texts[t].name);
            return -1;
        }
        memcpy(texts[t].to, from, strlen(from) + 1);
    }
    message->n_processors = message->threads;
    if (config->processors) {
        memcpy(message->processors, config->processors,
               message->threads * sizeof(*message->processors));
        return 0;
    }
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        snprintf(why, size, "cannot ask for the processors: %s", strerror(errno));
        return -1;
    }
    _Static_assert(ATTN_PROCESSORS_MAX >= CPU_SETSIZE, "every processor of a set fits a message");
    return attn_affinity_choose("/sys/devices/system/cpu", &allowed, message->threads,
                                message->processors, why, size);
}

struct attn_outcome attn_worker_ensure(struct attn_worker *worker)
{
    char why[384];
    struct attn_message_config message;
    if (worker->pid != 0)
        return (struct attn_outcome){.status = ATTN_PASS};
    if (!worker->config.foreground)
        attn_isolate_host();
    if (fill_config(worker, &message, why, sizeof(why)) != 0)
        return attn_outcome_make(ATTN_ERROR, "%s", why);
    if (attn_process_start(worker, why, sizeof(why)) != 0) {
        const bool no_memory = errno == ENOMEM;
        struct attn_outcome failed = attn_outcome_make(ATTN_ERROR, "%s", why);
        failed.no_memory = no_memory;
        return failed;
    }
    const struct attn_exchange exchange = {.message = &message.head};
    const struct attn_outcome outcome = attn_exchange(worker, &exchange);
    if (outcome.status != ATTN_PASS && worker->pid != 0)
        attn_process_end(worker, 0, STOP_GRACE_S);
    return outcome;
}

static void free_worker(struct attn_worker *worker)
{
    free((void *)(uintptr_t)worker->config.worker_path);
    free((void *)(uintptr_t)worker->config.plugin_path);
    free((void *)(uintptr_t)worker->config.backend);
    free((void *)(uintptr_t)worker->config.options);
    free((void *)(uintptr_t)worker->config.log_path);
    free((void *)(uintptr_t)worker->config.processors);
    free(worker);
}

/* Copies a string of the configuration; NULL stays NULL. */
static bool own(const char **text)
{
    if (!*text)
        return true;
    *text = strdup(*text);
    return *text != NULL;
}

/* The same for the list of processors. */
static bool own_processors(struct attn_worker_config *config)
{
    const size_t bytes = (size_t)config->threads * sizeof(*config->processors);
    if (!config->processors)
        return true;
    uint32_t *copy = malloc(bytes);
    if (copy)
        memcpy(copy, config->processors, bytes);
    config->processors = copy;
    return copy != NULL;
}

void attn_workers_forward(int sig)
{
    attn_process_forward(sig);
}

static struct attn_outcome no_memory(void)
{
    struct attn_outcome outcome = attn_outcome_make(ATTN_ERROR, "no memory for a worker");
    outcome.no_memory = true;
    return outcome;
}

struct attn_outcome attn_worker_start(const struct attn_worker_config *config,
                                      struct attn_worker **out)
{
    *out = NULL;
    struct attn_worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return no_memory();
    worker->config = *config;
    const char **texts[] = {&worker->config.worker_path, &worker->config.plugin_path,
                            &worker->config.backend, &worker->config.options,
                            &worker->config.log_path};
    bool copied = own_processors(&worker->config);
    /* All of them, whatever fails: each must be a copy, or NULL, before it may be freed. */
    for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++)
        copied = own(texts[t]) && copied;
    if (config->log_cap == 0)
        worker->config.log_cap = LOG_CAP;
    if (config->rss_limit == 0)
        worker->config.rss_limit = default_rss_limit();
    if (!(config->timeout_s > 0))
        worker->config.timeout_s = TIMEOUT_S;

    const struct attn_outcome outcome = copied ? attn_worker_ensure(worker) : no_memory();
    if (outcome.status == ATTN_PASS)
        *out = worker;
    else
        free_worker(worker);
    return outcome;
}

void attn_worker_stop(struct attn_worker *worker)
{
    if (!worker)
        return;
    if (worker->pid != 0)
        attn_process_end(worker, 0, STOP_GRACE_S);
    free_worker(worker);
}

long attn_worker_pid(const struct attn_worker *worker)
{
    return worker->pid;
}

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

void attn_outputs_copy(struct attn_instance *to, const struct attn_instance *from)
{
    for (uint32_t t = 0; t < to->problem.n_tensors; t++) {
        if (!to->operands[t].output)
            continue;
        unsigned char *data = to->tensors[t].data;
        const unsigned char *source = from->tensors[t].data;
        struct attn_walk walk;
        size_t offset;
        attn_walk_begin(&walk, &to->tensors[t], attn_dtype_size(to->tensors[t].dtype));
        while (attn_walk_next(&walk, &offset))
            memcpy(data + offset, source + offset, walk.run);
    }
}

void attn_outputs_swap(struct attn_instance *a, struct attn_instance *b)
{
    for (uint32_t t = 0; t < a->problem.n_tensors; t++) {
        if (!a->operands[t].output)
            continue;
        unsigned char *x = a->tensors[t].data, *y = b->tensors[t].data;
        struct attn_walk walk;
        size_t offset;
        attn_walk_begin(&walk, &a->tensors[t], attn_dtype_size(a->tensors[t].dtype));
        while (attn_walk_next(&walk, &offset))
            for (size_t i = offset; i < offset + walk.run; i++) {
                const unsigned char byte = x[i];
                x[i] = y[i];
                y[i] = byte;
            }
    }
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
    };
    if (params->n_spots > 0)
        memcpy(request.spots, params->spots, params->n_spots * sizeof(*params->spots));
    const struct attn_outcome outcome =
        run_shared(worker, instance, params->twin, ATTN_PLACE_START, &request, info);
    if (outcome.status == ATTN_PASS) {
        reply->last = worker->in.reply.last;
        reply->drawn = worker->in.reply.drawn;
        reply->n = (int)worker->in.reply.n_samples;
        memcpy(reply->samples_ns, worker->in.reply.samples_ns, sizeof(reply->samples_ns));
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
