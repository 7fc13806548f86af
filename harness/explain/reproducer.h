/* SPDX-License-Identifier: Apache-2.0 */
/* reproducer.h - a failing case as one C file, for the developer of the plugin. */
#ifndef ATTN_REPRODUCER_H
#define ATTN_REPRODUCER_H

#include "judge/judge.h"

/* A case, and how a backend failed. */
struct attn_failure {
    const struct attn_case *c;
    const char *backend, *options;
    const struct attn_judgement *verdict;
    const struct attn_numerics *numerics; /* as the plan declared them; NULL: it died before that */
    int threads;
    bool reruns; /* the failure: later runs do not have the bits of the first one */
};

/* Writes a C program that needs only attnbench/backend.h. It loads the plugin named as its argument
 * and gives it the case's problem with the operands' bits. It compares the outputs with the
 * reference's answers and bounds, which it contains. If the numbers are within their bounds, it
 * compares them with what the fill knows: whole numbers (census), bits (exact), the mean error
 * (rounding). It looks for writes outside the elements of the outputs, changed inputs and a changed
 * floating-point state, and with `reruns` for other bits in later runs. Its comment says how to
 * compile it. Returns 0, or -1 with the reason: the file cannot be written, the case is too large
 * to be written out, or only a relation between results fails. */
int attn_reproducer_write(const char *path, const struct attn_failure *failure, char *why,
                          size_t size);

#endif
