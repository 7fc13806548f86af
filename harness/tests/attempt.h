/* SPDX-License-Identifier: Apache-2.0 */
/* attempt.h - workers for test plugins, and what a request to them is expected to end with. */
#ifndef ATTN_TEST_ATTEMPT_H
#define ATTN_TEST_ATTEMPT_H

#include "host/worker.h"

#define PLUGIN(name) TEST_PLUGIN_DIR "/" name ".so"

/* The file that workers log to, made by setup (0, or -1) and removed by teardown. */
extern char attempt_log[];
int attempt_setup(void);
void attempt_teardown(void);

/* One thread, 64 KiB of log, 384 MiB, 20 s. */
struct attn_worker_config attempt_config(const char *plugin);

/* A worker without log and limits: one thread, on `processors` (NULL: any). plugin NULL: none is
 * loaded; options may be NULL. Fails the test where it does not start. */
struct attn_worker *attempt_worker(const char *plugin, const char *options,
                                   const uint32_t *processors);

/* Fails the test unless `request`, sent to plugins that fail in `run`, ends with the status and
 * reason of each. */
void attempt_failures(struct attn_outcome (*request)(struct attn_worker *worker,
                                                     struct attn_instance *instance));

/* Verifies a tiny problem with a worker of its own; gap: elements between the rows of out. */
struct attn_outcome attempt_verify(const struct attn_worker_config *config,
                                   enum attn_placement placement, int64_t gap);
struct attn_outcome verify_plugin(const char *plugin, enum attn_placement placement);

/* Fails the test unless status and reason are these; expect_start: unless the reason begins so. */
void expect(struct attn_outcome outcome, enum attn_status status, const char *reason);
void expect_start(struct attn_outcome outcome, enum attn_status status, const char *reason);

#endif
