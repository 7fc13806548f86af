/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - starts a worker with its configuration, replaces one that is lost, stops it. */
#include "host/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/affinity.h"
#include "host/confine.h"
#include "host/isolate.h"
#include "host/memory.h"
#include "host/process.h"
#include "host/reply.h"
#include "host/shared.h"

#define STOP_GRACE_S 1.0

/* Used for what a configuration leaves open. */
#define TIMEOUT_S 60.0
enum { LOG_CAP = 1 << 20 };    /* bytes */
enum { RSS_SHARE_TENTHS = 9 }; /* of what the kernel says can be had without swapping */

static uint64_t default_rss_limit(void)
{
    return attn_memory_available() / 10 * RSS_SHARE_TENTHS;
}

/* The data limit leaves room above the resident limit, so that it is the watch that speaks first;
 * it is there for what grows faster than the watch looks. */
static uint64_t data_limit(const struct attn_worker_config *config)
{
    return config->foreground || config->rss_limit > UINT64_MAX / 4 ? 0 : config->rss_limit * 2;
}

/* A debugger must reach the worker. What counts instructions follows it into a user namespace only:
 * it writes its file when the process that the host has started ends. */
static uint32_t rungs_of(const struct attn_worker_config *config)
{
    const uint32_t possible = attn_confine_possible(attn_confine_level())->rungs;
    return config->foreground ? 0 : config->wrapper ? possible & 1u << ATTN_RUNG_USER : possible;
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
        .rungs = rungs_of(config),
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
        const bool short_of =
            errno == ENOMEM || errno == EMFILE || errno == ENFILE || errno == EAGAIN;
        struct attn_outcome failed = attn_outcome_make(ATTN_ERROR, "%s", why);
        failed.short_of = short_of;
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
    struct attn_outcome outcome = attn_outcome_make(ATTN_ERROR, ATTN_NO_WORKER "no memory");
    outcome.short_of = true;
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
    return worker->pid ? worker->place : 0;
}

void attn_worker_signal(const struct attn_worker *worker, int sig)
{
    if (worker->pid != 0)
        kill(-worker->pid, sig);
}
