/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.c - starts workers for test plugins and sends them a tiny problem. */
#include "attempt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tiny.h"

char attempt_log[] = "/tmp/attnbench-test-log-XXXXXX";

int attempt_setup(void)
{
    const int file = mkstemp(attempt_log);
    if (file < 0)
        return -1;
    close(file);
    return 0;
}

void attempt_teardown(void)
{
    unlink(attempt_log);
}

struct attn_worker_config attempt_config(const char *plugin)
{
    return (struct attn_worker_config){
        .worker_path = TEST_WORKER,
        .plugin_path = plugin,
        .backend = "test",
        .options = "",
        .threads = 1,
        .log_path = attempt_log,
        .log_cap = 65536,
        .rss_limit = (uint64_t)384 << 20,
        .timeout_s = 20,
    };
}

struct attn_worker *attempt_worker(const char *plugin, const char *options,
                                   const uint32_t *processors)
{
    const struct attn_worker_config config = {.worker_path = TEST_WORKER,
                                              .plugin_path = plugin,
                                              .backend = plugin ? "test" : NULL,
                                              .options = options,
                                              .threads = 1,
                                              .processors = processors};
    struct attn_worker *worker;
    const struct attn_outcome outcome = attn_worker_start(&config, &worker);
    if (outcome.status != ATTN_PASS)
        fail_msg("%s", outcome.reason);
    return worker;
}

void attempt_failures(struct attn_outcome (*request)(struct attn_worker *worker,
                                                     struct attn_instance *instance))
{
    static const struct {
        const char *plugin;
        enum attn_status status;
        const char *reason;
    } table[] = {
        {PLUGIN("refuse"), ATTN_ERROR, "run failed: the sky is falling"},
        {PLUGIN("modify"), ATTN_FAIL, "writes to input q at byte 8, in run"},
        {PLUGIN("crash"), ATTN_CRASH, "crashed in run (SIGSEGV at 0x40)"},
        {PLUGIN("ftz"), ATTN_FAIL, "leaves MXCSR changed (0x1f80 -> 0x9f80), in run"},
    };
    for (size_t t = 0; t < sizeof(table) / sizeof(table[0]); t++) {
        struct attn_worker *worker = attempt_worker(table[t].plugin, NULL, NULL);
        struct attn_instance *instance = tiny_create(3, 5, 4, 0);
        expect(request(worker, instance), table[t].status, table[t].reason);
        tiny_free(instance);
        attn_worker_stop(worker);
    }
}

struct attn_outcome attempt_verify(const struct attn_worker_config *config,
                                   enum attn_placement placement, int64_t gap)
{
    struct attn_worker *worker;
    struct attn_plan_info info;
    double seconds;
    struct attn_outcome outcome = attn_worker_start(config, &worker);
    if (outcome.status != ATTN_PASS)
        return outcome;
    struct attn_instance *instance = tiny_create(3, 5, 4, gap);
    outcome = attn_worker_verify(worker, instance, placement, 1, &info, &seconds);
    tiny_free(instance);
    attn_worker_stop(worker);
    return outcome;
}

struct attn_outcome verify_plugin(const char *plugin, enum attn_placement placement)
{
    const struct attn_worker_config config = attempt_config(plugin);
    return attempt_verify(&config, placement, 0);
}

void expect(struct attn_outcome outcome, enum attn_status status, const char *reason)
{
    if (outcome.status != status || strcmp(outcome.reason, reason) != 0)
        fail_msg("%s: '%s', expected %s: '%s'", attn_status_name(outcome.status), outcome.reason,
                 attn_status_name(status), reason);
}

void expect_start(struct attn_outcome outcome, enum attn_status status, const char *reason)
{
    outcome.reason[strlen(reason) < sizeof(outcome.reason) ? strlen(reason) : 0] = 0;
    expect(outcome, status, reason);
}
