/* SPDX-License-Identifier: Apache-2.0 */
/* count.c - a worker under callgrind, and what callgrind wrote when it ended. */
#include "host/count.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/process.h"
#include "host/reply.h"
#include "host/shared.h"
#include "host/worker.h"

/* Callgrind writes its file when the worker exits. */
#define ENDING_S 30.0

#define WORD(name)    #name
#define WORD_OF(name) WORD(name)

/* A file of callgrind: "totals: N" has the instructions. 0: there are none. */
static uint64_t read_total(const char *path)
{
    char line[512];
    unsigned long long total = 0;
    FILE *file = fopen(path, "re");
    while (file && total == 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, "totals: ", 8) == 0 || strncmp(line, "summary: ", 9) == 0)
            total = strtoull(strchr(line, ' '), NULL, 10);
    if (file)
        fclose(file);
    return total;
}

/* What the backend says of itself there: another processor may make it another one. */
static struct attn_outcome inspect(struct attn_worker *worker, struct attn_count *count)
{
    struct attn_message_request request;
    struct attn_plugin_info *plugin = calloc(1, sizeof(*plugin));
    if (!plugin)
        return attn_outcome_make(ATTN_ERROR, "no memory to look into a plugin");
    attn_request_fill(&request, ATTN_REQUEST_INSPECT, NULL, NULL);
    const struct attn_exchange exchange = {.message = &request.head, .info = plugin};
    const struct attn_outcome outcome = attn_exchange(worker, &exchange);
    for (uint32_t b = 0; b < plugin->n_backends; b++)
        if (strcmp(plugin->backends[b].name, worker->config.backend) == 0)
            count->info = plugin->backends[b];
    free(plugin);
    return outcome;
}

static struct attn_outcome run(struct attn_worker *worker, struct attn_instance *instance,
                               struct attn_count *count)
{
    const struct attn_message_request request = {.kind = ATTN_REQUEST_COUNT};
    struct attn_shared shared = {.instance = instance};
    struct attn_outcome outcome = inspect(worker, count);
    if (outcome.status != ATTN_PASS)
        return outcome;
    outcome = attn_shared_send(worker, &shared, ATTN_PLACE_START, &request);
    return attn_shared_finish(worker, &shared, outcome, &count->plan);
}

struct attn_outcome attn_worker_count(const struct attn_worker_config *config,
                                      struct attn_instance *instance, struct attn_count *count)
{
    const char *base = getenv("TMPDIR");
    char folder[256], file[300], out[340];
    struct attn_worker *worker;
    snprintf(folder, sizeof(folder), "%.200s/attnbench-count-XXXXXX",
             base && *base == '/' ? base : "/tmp");
    if (!mkdtemp(folder))
        return attn_outcome_make(ATTN_ERROR, "%s cannot be made: %s", folder, strerror(errno));
    snprintf(file, sizeof(file), "%s/out", folder);
    snprintf(out, sizeof(out), "--callgrind-out-file=%s", file);
    const char *const wrapper[] = {"valgrind",
                                   "--tool=callgrind",
                                   "-q",
                                   out,
                                   "--trace-children=yes", /* a worker may be a script */
                                   "--toggle-collect=" WORD_OF(ATTN_COUNTED_FUNCTION),
                                   NULL};
    struct attn_worker_config under = *config;
    under.wrapper = wrapper;
    struct attn_outcome outcome = attn_worker_start(&under, &worker);
    if (outcome.status == ATTN_PASS) {
        outcome = run(worker, instance, count);
        if (worker->pid != 0)
            attn_process_end(worker, 0, ENDING_S);
        attn_worker_stop(worker);
    }
    count->instructions = outcome.status == ATTN_PASS ? read_total(file) : 0;
    if (outcome.status == ATTN_PASS && count->instructions == 0)
        outcome = attn_outcome_make(ATTN_ERROR,
                                    "callgrind has counted nothing: is %s stripped of "
                                    "its symbols?",
                                    config->worker_path);
    unlink(file);
    rmdir(folder);
    return outcome;
}
