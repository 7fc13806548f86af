/* SPDX-License-Identifier: Apache-2.0 */
/* conformance.h - a statement of what a run of verify has shown, for the README of a kernel: an
 * object of JSON, from which Markdown and a badge are made (conformance_text.h). */
#ifndef ATTN_REPORT_CONFORMANCE_H
#define ATTN_REPORT_CONFORMANCE_H

#include <jansson.h>
#include <stdbool.h>

#include "results/status.h"

/* Of the planted bugs, each in one type, how many verify refuses (harness/judge/README.md). */
#define ATTN_MUTANTS_REFUSED 779
#define ATTN_MUTANTS_PLANTED 782

/* What was verified. */
struct attn_conformance_suite {
    const char *name;    /* "standard", "full", or "cases": those of `lines` */
    json_t *ids;         /* array: the id of each case, in order */
    const json_t *lines; /* array: their lines */
};

/* A new object (harness/report/README.md lists its fields), or NULL with the reason. `records` and
 * `machine` are those of the run. */
json_t *attn_conformance_make(const json_t *records, const json_t *machine,
                              const struct attn_conformance_suite *suite, char *why, size_t size);

/* Finds the statement in a file of JSON, or in a Markdown file that contains its text; the
 * caller's. NULL with the reason, and in *code: ATTN_EXIT_USAGE, there is none; ATTN_EXIT_NUMERICS,
 * it has been edited. */
json_t *attn_conformance_parse(const char *text, size_t length, enum attn_exit *code, char *why,
                               size_t size);

/* Whether the statement can be repeated here: by this version, suite and machine (unless `cross`),
 * on these plugins. `here` was made without any record. ATTN_EXIT_OK; ATTN_EXIT_BASELINE: it is of
 * another version, suite or machine; ATTN_EXIT_NUMERICS: of another plugin. The reason is one
 * sentence. */
enum attn_exit attn_conformance_fits(const json_t *statement, const json_t *here, bool cross,
                                     char *why, size_t size);

/* Whether the statement says what a repetition has found. ATTN_EXIT_OK; ATTN_EXIT_NUMERICS: it says
 * something else; ATTN_EXIT_INCONCLUSIVE: it says more of checks, power or accuracy than could be
 * found here. The reason is one sentence. */
enum attn_exit attn_conformance_agrees(const json_t *statement, const json_t *again, char *why,
                                       size_t size);

#endif
