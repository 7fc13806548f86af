/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - which shard this process is, from the command line or from its engine's variables. */
#include "cli/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/number.h"

enum { SHARDS_MOST = 1000000 };

/* An engine that numbers the processes that it starts. A new one is a row. */
struct engine {
    const char *index, *count;              /* variables; count NULL: ATTN_SHARDS_VARIABLE */
    int first;                              /* the lowest index */
    enum { NEEDS_BOTH, NEEDS_COUNT } needs; /* NEEDS_COUNT: only `count` says that it is there */
};

static const struct engine engines[] = {
    {"JOB_COMPLETION_INDEX", NULL, 0, NEEDS_BOTH}, /* Kubernetes: an indexed job */
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", 0, NEEDS_BOTH}, /* Open MPI */
    {"PMI_RANK", "PMI_SIZE", 0, NEEDS_BOTH},                         /* MPICH, Intel MPI */
    /* srun; a batch script has SLURM_PROCID alone. */
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", 0, NEEDS_COUNT},
    {"CI_NODE_INDEX", "CI_NODE_TOTAL", 1, NEEDS_BOTH}, /* GitLab */
    {"CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL", 0, NEEDS_BOTH},
    {"BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT", 0, NEEDS_BOTH},
};

/* A variable that is set and not empty, or NULL. */
static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* Reads a variable that is set. Returns 0, or -1 with the reason. */
static int number_of(const char *name, long long least, long long *value, char *why, size_t size)
{
    const char *text = variable(name);
    if (!text) {
        snprintf(why, size, "--shard auto: %s is not set", name);
        return -1;
    }
    if (attn_integer_parse(text, least, SHARDS_MOST, value))
        return 0;
    snprintf(why, size, "--shard auto: %s='%.64s' is not a number from %lld to %d", name, text,
             least, (int)SHARDS_MOST);
    return -1;
}

/* Which of an engine's processes we are. Returns 1, 0 if the engine has not started us, or -1 with
 * the reason. */
static int ask(const struct engine *engine, struct attn_shard *shard, char *why, size_t size)
{
    const char *counter = engine->count ? engine->count : ATTN_SHARDS_VARIABLE;
    const char *count_text = engine->count ? variable(engine->count) : NULL;
    long long index, count;
    if (!count_text && (engine->needs == NEEDS_COUNT || !variable(engine->index)))
        return 0;
    if (number_of(counter, 1, &count, why, size))
        return -1;
    if (count == 1 && !variable(engine->index)) /* GitLab, without `parallel` */
        index = engine->first;
    else if (number_of(engine->index, 0, &index, why, size))
        return -1;
    if (index < engine->first || index >= engine->first + count) {
        snprintf(why, size, "--shard auto: %s=%lld is not from %d to %lld, as %s=%lld asks for",
                 engine->index, index, engine->first, engine->first + count - 1, counter, count);
        return -1;
    }
    shard->index = (int)(index - engine->first + 1);
    shard->count = (int)count;
    snprintf(shard->from, sizeof shard->from, "%s", engine->index);
    return 1;
}

/* As ask, of a task of a Slurm array. With ATTN_SHARDS_VARIABLE its tasks are numbered 1 to N, so
 * that some of them can be submitted again. Otherwise the array as it was submitted is all. */
static int ask_slurm_array(struct attn_shard *shard, char *why, size_t size)
{
    static const char id_name[] = "SLURM_ARRAY_TASK_ID", count_name[] = "SLURM_ARRAY_TASK_COUNT",
                      min_name[] = "SLURM_ARRAY_TASK_MIN", max_name[] = "SLURM_ARRAY_TASK_MAX";
    long long id, count, least, most;
    if (!variable(id_name))
        return 0;
    if (number_of(id_name, 0, &id, why, size))
        return -1;
    if (variable(ATTN_SHARDS_VARIABLE)) {
        if (number_of(ATTN_SHARDS_VARIABLE, 1, &count, why, size))
            return -1;
        if (id < 1 || id > count) {
            snprintf(why, size,
                     "--shard auto: %s=%lld is not from 1 to %s=%lld; submit --array=1-%lld",
                     id_name, id, ATTN_SHARDS_VARIABLE, count, count);
            return -1;
        }
        least = 1, most = count;
    } else if (number_of(count_name, 1, &count, why, size) ||
               number_of(min_name, 0, &least, why, size) ||
               number_of(max_name, 0, &most, why, size)) {
        return -1;
    }
    const long long step = count > 1 ? (most - least) / (count - 1) : 1;
    if (id < least || id > most || step < 1 || least + step * (count - 1) != most ||
        (id - least) % step != 0) {
        snprintf(why, size,
                 "--shard auto: %s=%lld with %s=%lld, %s=%lld and %s=%lld is no range with a fixed "
                 "step; set %s, or give --shard I/N",
                 id_name, id, min_name, least, max_name, most, count_name, count,
                 ATTN_SHARDS_VARIABLE);
        return -1;
    }
    shard->index = (int)((id - least) / step + 1);
    shard->count = (int)count;
    snprintf(shard->from, sizeof shard->from, "%s", id_name);
    return 1;
}

/* Adds what one engine says to what others said. An engine with one process divides nothing.
 * Returns 0, or -1 with the reason: two engines divide, and not in the same way. */
static int combine(struct attn_shard *sum, const struct attn_shard *next, char *why, size_t size)
{
    if (sum->count > 1 && next->count > 1 &&
        (sum->count != next->count || sum->index != next->index)) {
        snprintf(why, size,
                 "--shard auto: %s makes this %d of %d, but %s makes it %d of %d; give --shard I/N",
                 sum->from, sum->index, sum->count, next->from, next->index, next->count);
        return -1;
    }
    if (sum->count <= 1)
        *sum = *next;
    return 0;
}

static int find(struct attn_shard *shard, char *why, size_t size)
{
    struct attn_shard sum = {0}, next;
    int found = ask_slurm_array(&sum, why, size);
    for (size_t e = 0; found >= 0 && e < sizeof engines / sizeof *engines; e++) {
        const int asked = ask(&engines[e], &next, why, size);
        if (asked < 0 || (asked > 0 && combine(&sum, &next, why, size)))
            return -1;
    }
    if (found < 0)
        return -1;
    if (sum.count == 0) {
        int used = snprintf(why, size, "--shard auto: no variable of an engine is set: %s",
                            "SLURM_ARRAY_TASK_ID");
        for (size_t e = 0; e < sizeof engines / sizeof *engines && used < (int)size; e++)
            used += snprintf(why + used, size - (size_t)used, ", %s",
                             engines[e].needs == NEEDS_COUNT ? engines[e].count : engines[e].index);
        return -1;
    }
    long long shards = sum.count;
    if (variable(ATTN_SHARDS_VARIABLE) && number_of(ATTN_SHARDS_VARIABLE, 1, &shards, why, size))
        return -1;
    if (shards != sum.count) {
        snprintf(why, size, "--shard auto: %s makes this %d of %d, but %s=%lld", sum.from,
                 sum.index, sum.count, ATTN_SHARDS_VARIABLE, shards);
        return -1;
    }
    *shard = sum;
    return 0;
}

int attn_shard_parse(const char *text, struct attn_shard *shard, char *why, size_t size)
{
    char first[16];
    const char *slash = strchr(text, '/');
    long long i, n;
    if (!strcmp(text, "auto"))
        return find(shard, why, size);
    if (slash && (size_t)(slash - text) < sizeof first) {
        snprintf(first, sizeof first, "%.*s", (int)(slash - text), text);
        if (attn_integer_parse(slash + 1, 1, SHARDS_MOST, &n) &&
            attn_integer_parse(first, 1, n, &i)) {
            *shard = (struct attn_shard){.index = (int)i, .count = (int)n, .from = "--shard"};
            return 0;
        }
    }
    snprintf(why, size, "--shard: '%.64s' is neither auto nor I/N with 1 <= I <= N <= %d", text,
             (int)SHARDS_MOST);
    return -1;
}
