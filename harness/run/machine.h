/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - describes the machine of a run. `root` is as in kernel_files.h. */
#ifndef ATTN_MACHINE_H
#define ATTN_MACHINE_H

#include <jansson.h>
#include <stdint.h>

#include "run/roof.h"
#include "run/session.h"

/* The object of machine.json (harness/results/README.md): CPU, kernel, build, protocol of the
 * session, its backends. NULL: no memory. */
json_t *attn_machine_json(const struct attn_session *session, const struct attn_roof *roof,
                          double harness_ns);

/* Writes it into the run's folder. Returns 0, or -1 with the reason. */
int attn_machine_write(const struct attn_session *session, const struct attn_roof *roof,
                       double harness_ns, char *why, size_t size);

/* The CPU's flags that name vector extensions, as a list of strings. */
json_t *attn_cpu_flags(const char *root);

/* How often heat has throttled the processors since boot, all together; -1: not visible. */
int64_t attn_throttle_events(const char *root);

#endif
