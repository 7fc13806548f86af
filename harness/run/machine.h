/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - describes the machine of a run, and says whether it is fit for measuring. */
#ifndef ATTN_MACHINE_H
#define ATTN_MACHINE_H

#include <jansson.h>
#include <stdint.h>

#include "run/roof.h"
#include "run/session.h"

/* MemAvailable of the kernel, in bytes; 0 if it cannot be read. */
uint64_t attn_memory_available(void);

/* The object of machine.json (harness/results/README.md): CPU, kernel, build, protocol of the
 * session, its backends. */
json_t *attn_machine_json(const struct attn_session *session, const struct attn_roof *roof,
                          double harness_ns);

/* A fact about the machine that spoils measurements, or is good to know. */
struct attn_finding {
    int grave; /* 0: as it should be, 1: worth knowing, 2: spoils timings */
    char what[48];
    char text[256];
};
enum { ATTN_FINDINGS_MAX = 24 };
size_t attn_machine_findings(struct attn_finding findings[ATTN_FINDINGS_MAX]);

#endif
