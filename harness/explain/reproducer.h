/* SPDX-License-Identifier: Apache-2.0 */
/* reproducer.h - a failing case as one C file, for whoever mends the plugin. */
#ifndef ATTN_REPRODUCER_H
#define ATTN_REPRODUCER_H

#include "judge/judge.h"

/* A case, and how a backend has failed it. */
struct attn_failure {
    const struct attn_case *c;
    const char *backend, *options;
    const struct attn_judgement *verdict;
    const struct attn_numerics *numerics; /* as the plan declared them; NULL: it died before that */
    int threads;
};

/* Writes a C program that needs nothing but attnbench/backend.h: it loads the plugin named as its
 * argument, gives it the case's problem with the operands' bits, and holds the outputs against the
 * reference's answers and bounds, which it carries; where the numbers lie within their bounds,
 * against what the fill knows: whole numbers (census), bits (exact), the mean error (rounding). Its
 * comment says how to compile it. Returns 0, or -1 with the reason: no such file can be made, the
 * case is too large to be written out, or only a check of results against each other fails.
 */
int attn_reproducer_write(const char *path, const struct attn_failure *failure, char *why,
                          size_t size);

#endif
