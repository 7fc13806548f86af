/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - names of statuses, and which exit code wins. */
#include "results/status.h"

#include <string.h>

static const char *const names[ATTN_STATUS_COUNT] = {
    [ATTN_PASS] = "pass",       [ATTN_FAIL] = "fail",
    [ATTN_SKIP] = "skip",       [ATTN_MISTRUSTED] = "mistrusted",
    [ATTN_APPROX] = "approx",   [ATTN_CRASH] = "crash",
    [ATTN_TIMEOUT] = "timeout", [ATTN_OOM] = "oom",
    [ATTN_ERROR] = "error",     [ATTN_SUSPECT] = "suspect",
};

const char *attn_status_name(enum attn_status status)
{
    return (unsigned)status < ATTN_STATUS_COUNT ? names[status] : "?";
}

int attn_status_parse(const char *name)
{
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        if (strcmp(name, names[s]) == 0)
            return s;
    return -1;
}

bool attn_status_holds(enum attn_status status)
{
    return status == ATTN_PASS || status == ATTN_MISTRUSTED || status == ATTN_APPROX;
}

/* Position in the order of claims, the strongest first. */
static int rank_of(enum attn_exit code)
{
    static const enum attn_exit order[] = {
        ATTN_EXIT_INTERNAL, ATTN_EXIT_USAGE,        ATTN_EXIT_NOTHING,
        ATTN_EXIT_NUMERICS, ATTN_EXIT_INCOMPLETE,   ATTN_EXIT_REGRESSION,
        ATTN_EXIT_BASELINE, ATTN_EXIT_INCONCLUSIVE, ATTN_EXIT_OK,
    };
    const int n = (int)(sizeof(order) / sizeof(order[0]));
    for (int r = 0; r < n; r++)
        if (order[r] == code)
            return r;
    return n;
}

enum attn_exit attn_exit_stronger(enum attn_exit a, enum attn_exit b)
{
    return rank_of(b) < rank_of(a) ? b : a;
}
