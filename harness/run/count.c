/* SPDX-License-Identifier: Apache-2.0 */
/* count.c - whether a run can be counted, and whether what was counted is what was timed. */
#include "run/count.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/count.h"

/* Under callgrind a run takes some 50 to 100 times as long, and there are three of them. A request
 * may take so many times as long as others. */
static const double long_run_s = 0.3;
static const double patience = 10;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

static void refuse(struct attn_entry *entry, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void refuse(struct attn_entry *entry, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(entry->count_reason, sizeof entry->count_reason, format, args);
    va_end(args);
    entry->instructions = 0;
}

/* Before anything is started. */
static bool refused(const struct attn_session *session, struct attn_entry *entry)
{
    if (!attn_on_path("valgrind"))
        refuse(entry, "valgrind is not installed");
    else if (sanitized)
        refuse(entry, "valgrind cannot run a build with sanitizers");
    else if (session->settings.threads > 1)
        refuse(entry, "valgrind runs one thread at a time: count with --threads 1");
    else if (entry->contestant->info.device)
        refuse(entry, "it runs on a device");
    else if (entry->seconds > long_run_s)
        refuse(entry, "a run takes %.2g s, and under valgrind about a hundred times as long",
               entry->seconds);
    return *entry->count_reason;
}

/* What was not as when it was timed: a library may take another path on valgrind's processor. */
static bool differs(struct attn_entry *entry, const struct attn_count *count)
{
    struct attn_numerics was = entry->plan.numerics, is = count->plan.numerics;
    was.source = is.source = NULL;
    if (strcmp(entry->contestant->info.version, count->info.version) != 0)
        refuse(entry, "valgrind has AVX2 at most: there it is '%.100s', not '%.100s'",
               count->info.version, entry->contestant->info.version);
    else if (strcmp(entry->plan.path, count->plan.path) != 0 ||
             (entry->plan.has_numerics && memcmp(&was, &is, sizeof was) != 0))
        refuse(entry, "valgrind has AVX2 at most: there it takes the path '%.90s', not '%.90s'",
               count->plan.path, entry->plan.path);
    else if (count->plan.threads_seen > 1)
        refuse(entry, "it has %u threads, and valgrind counts the one that calls it",
               count->plan.threads_seen);
    return *entry->count_reason;
}

/* Is the result of the counted run right? */
static bool wrong(struct attn_entry *entry, struct attn_judge *judge,
                  const struct attn_count *count)
{
    const uint32_t exactness = entry->contestant->info.exactness;
    struct attn_judgement verdict;
    if (exactness == ATTN_NONE)
        return false;
    attn_judge_outputs(judge, &count->plan.numerics, exactness == ATTN_APPROXIMATE, &verdict);
    if (verdict.status == ATTN_FAIL || verdict.status == ATTN_ERROR)
        refuse(entry, "under valgrind its result is wrong: %.180s", verdict.reason);
    return *entry->count_reason;
}

void attn_count_entry(const struct attn_session *session, struct attn_instance *instance,
                      struct attn_judge *judge, struct attn_entry *entry)
{
    const struct attn_settings *s = &session->settings;
    const struct attn_contestant *c = entry->contestant;
    if (refused(session, entry))
        return;
    const struct attn_worker_config config = {.worker_path = c->worker,
                                              .plugin_path = c->plugin,
                                              .backend = c->offered,
                                              .options = c->options,
                                              .threads = 1,
                                              .log_path = *session->log ? session->log : NULL,
                                              .timeout_s = patience * s->timeout_s,
                                              .rss_limit = s->memory};
    struct attn_count count = {.instructions = 0};
    const struct attn_outcome outcome = attn_worker_count(&config, instance, &count);
    if (attn_interrupted)
        return;
    if (outcome.status == ATTN_SKIP)
        refuse(entry, "valgrind has AVX2 at most: %.200s", outcome.reason);
    else if (outcome.status != ATTN_PASS)
        refuse(entry, "under valgrind: %.200s", outcome.reason);
    else if (!differs(entry, &count) && !wrong(entry, judge, &count))
        entry->instructions = count.instructions;
}
