/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - the records of a run, joined into one row a result: what every writer of the report and
 * the comparison read. Rows and strings point into the run's JSON, which must outlive the view. */
#ifndef ATTN_REPORT_VIEW_H
#define ATTN_REPORT_VIEW_H

#include "report/types.h"

/* What stands in the place of a figure that is not there: "FAIL", "n/a" (refused by the backend),
 * "budget", "memory", "crash", "timeout", "oom", "error", "untimed"; "not run" for NULL. */
const char *attn_row_mark(const struct attn_view_row *row);
/* A skip for want of time or memory, which is no refusal: its reason begins "budget" or "needs". */
bool attn_row_lacks_means(const struct attn_view_row *row);

/* Returns 0, or -1 with the reason: a record that is no object, or without id, backend or a known
 * status (records of other types than verify and bench are passed over). */
int attn_view_create(const json_t *records, const json_t *machine, struct attn_view *view,
                     char *why, size_t size);
void attn_view_free(struct attn_view *view);

/* The finite positive median of each round in a bench record's samples_ns, newly allocated. Returns
 * their number; 0, with nothing allocated, where there are none or any sample is no positive
 * number. */
size_t attn_view_round_medians(const json_t *bench, double **medians);

#endif
