/* SPDX-License-Identifier: Apache-2.0 */
/* suite.h - the cases that a command works with. */
#ifndef ATTN_SUITE_H
#define ATTN_SUITE_H

#include <stdbool.h>

#include "case/case.h"
#include "run/paths.h"
#include "run/shard.h"

struct attn_session;

struct attn_suite_wish {
    const char *const *cases; /* .cases files, packs, quoted case lines; none: the standard suite */
    size_t n_cases;
    const char *filter; /* glob on name or id; NULL: all */
    struct attn_shard shard;
    bool seed_given;
    uint64_t seed;    /* replaces the seed of every case without data= */
    const char *more; /* a folder of cases and of packs that the standard suite has, too; or NULL */
    bool full;        /* the standard suite and what takes longer */
    int fuzz;         /* this many random cases instead; the seed is then that of the whole set */
    struct attn_session *session; /* whose backends must take a random case; NULL: each counts */
};

/* Parses the cases, resolves packs, filters, and keeps those of the shard. The standard suite is
 * every file of the cases folder and every pack of the packs folder, and those in the folder `more`
 * of either; with `full`, those in the folders `long` and `full`, too. A folder among the arguments
 * stands for the case files in it; a note on stderr counts those of its subfolders. selection: may
 * be NULL. Returns 0, or -1 with the parser's message. */
int attn_suite_load(const struct attn_paths *paths, const struct attn_suite_wish *wish,
                    struct attn_case_list *list, struct attn_selection *selection, char *why,
                    size_t size);

/* Is the case from the suite's own cases folder? There a refusal must be an expected one. */
bool attn_suite_is_standard(const struct attn_paths *paths, const struct attn_case *c);

#endif
