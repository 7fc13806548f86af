/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h - compares two runs, or two backends of one run, case by case. */
#ifndef ATTN_COMPARE_H
#define ATTN_COMPARE_H

#include <stdio.h>

#include "report/pairs.h"

/* Writes a table, or JSON, to `out` and the verdicts' exit code to *code: 4 where anything is
 * slower or broke or, with the gate, needs more memory or instructions, 3 where accuracy has
 * drifted, 5 under strict where anything is unclear, 8 where the two runs cannot be compared
 * (comparable.h names what differs) unless options->cross insists, 7 where no result is in both.
 * With 7 and 8 the output says why in one sentence, which is left in (why, size) too. `next` may
 * equal `base`. Returns 0, or -1 with the reason. */
int attn_compare(const struct attn_run_data *base, const struct attn_run_data *next,
                 const struct attn_compare_options *options, FILE *out, enum attn_exit *code,
                 char *why, size_t size);

#endif
