/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - the taxonomy of results, and the exit codes; both are a stable interface. */
#ifndef ATTN_STATUS_H
#define ATTN_STATUS_H

#include <stdbool.h>

enum attn_status {
    ATTN_PASS,
    ATTN_FAIL,       /* wrong numbers, or a broken promise (input modified, read past an end) */
    ATTN_SKIP,       /* unsupported, budget, memory, missing device; the reason says which */
    ATTN_MISTRUSTED, /* a pass that proves too little */
    ATTN_APPROX,     /* an approximate backend: measured, not judged */
    ATTN_CRASH,
    ATTN_TIMEOUT,
    ATTN_OOM,
    ATTN_ERROR,   /* the backend answered with a failure, or the harness could not do its part */
    ATTN_SUSPECT, /* its time cannot be that of its work: no figure of it is used */
    ATTN_STATUS_COUNT
};

/* "pass" "fail" "skip" "mistrusted" "approx" "crash" "timeout" "oom" "error" "suspect" */
const char *attn_status_name(enum attn_status status);
int attn_status_parse(const char *name); /* -1: none of them */

/* Pass, mistrusted or approx: the outputs were right, as far as they were judged. */
bool attn_status_holds(enum attn_status status);

enum attn_exit {
    ATTN_EXIT_OK = 0,
    ATTN_EXIT_INTERNAL = 1,
    ATTN_EXIT_USAGE = 2,
    ATTN_EXIT_NUMERICS = 3, /* fail, suspect, mistrusted under --strict, or an unexpected skip */
    ATTN_EXIT_REGRESSION = 4,
    ATTN_EXIT_INCONCLUSIVE = 5, /* under --strict, or of a live comparison */
    ATTN_EXIT_INCOMPLETE = 6,   /* crash, timeout, oom, error */
    ATTN_EXIT_NOTHING = 7,
    ATTN_EXIT_BASELINE = 8
};

/* The stronger claim of two: 1, 2, 7, 3, 6, 4, 8, 5, 0. */
enum attn_exit attn_exit_stronger(enum attn_exit a, enum attn_exit b);

#endif
