/* SPDX-License-Identifier: Apache-2.0 */
/* findings.h - whether this machine, now, is fit for measuring: what spoils times, and what to do.
 */
#ifndef ATTN_FINDINGS_H
#define ATTN_FINDINGS_H

#include <stddef.h>

enum attn_level {
    ATTN_LEVEL_OK,
    ATTN_LEVEL_WARN,   /* adds noise to times */
    ATTN_LEVEL_FAIL,   /* makes times wrong */
    ATTN_LEVEL_UNKNOWN /* the kernel does not show it here */
};

/* "OK" "WARN" "FAIL" "unknown" */
const char *attn_level_name(enum attn_level level);

struct attn_finding {
    enum attn_level level;
    char what[24];  /* "governor" */
    char text[192]; /* what it is */
    char hint[192]; /* what to do, or what it means; "" where it is OK */
};
enum { ATTN_FINDINGS_MAX = 24 };

/* Reads the kernel's files below `root` (kernel_files.h), and asks nvidia-smi below it. Returns the
 * number of findings. */
size_t attn_findings(const char *root, struct attn_finding findings[ATTN_FINDINGS_MAX]);

#endif
