/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - joins the records of a run into one row per result. Every writer of the report and the
 * comparison read it. Rows and strings point into the run's JSON, which must outlive the view. */
#ifndef ATTN_REPORT_VIEW_H
#define ATTN_REPORT_VIEW_H

#include "report/types.h"

/* The word in place of a missing figure: "FAIL", "n/a" (the backend refused), "budget", "memory",
 * "crash", "timeout", "oom", "error", "untimed"; "not run" for NULL. */
const char *attn_row_mark(const struct attn_view_row *row);
/* A skip because time or memory was missing, which is no refusal: its reason begins "budget" or
 * "needs". */
bool attn_row_lacks_means(const struct attn_view_row *row);

/* Uses verify and bench records and ignores other types. Returns 0, or -1 with the reason: a record
 * is no object, or has no id, backend or known status. */
int attn_view_create(const json_t *records, const json_t *machine, struct attn_view *view,
                     char *why, size_t size);
void attn_view_free(struct attn_view *view);

/* The key of a result as text: id, backend, options, threads and `cache`. */
#define ATTN_VIEW_KEY_MAX 800
void attn_view_key(const json_t *record, const char *cache, char *key, size_t size);

/* Allocates the median of each round in a bench record's samples_ns and returns their number.
 * Returns 0 and allocates nothing if there are none, or if any sample is not a positive number. */
size_t attn_view_round_medians(const json_t *bench, double **medians);

/* The range of the medians of rounds, for a time without an interval: "10.2 to 16.8 ms" with `to`
 * between, and "3 rounds: 10.2 to 16.8 ms"; "1 round"; "" if the rounds are not known. */
#define ATTN_ROUNDS_TEXT 96
const char *attn_row_range(const struct attn_view_row *row, const char *to,
                           char text[ATTN_ROUNDS_TEXT]);
const char *attn_row_rounds(const struct attn_view_row *row, char text[ATTN_ROUNDS_TEXT]);
/* An interval of 95 % from fewer rounds is wider than what anybody takes from it: Student's t of 2
 * rounds is 12.7, of 3 it is 4.3. And what disturbs one round easily disturbs two. */
#define ATTN_INTERVAL_ROUNDS 4
/* How documents explain that. */
#define ATTN_ROUNDS_CONVENTION                                                                     \
    "Fewer than 4 rounds, or an interval beyond half or twice the median: the range of round "     \
    "medians"

/* Whether anything was timed: a run of verify has verdicts only. */
bool attn_view_timed(const struct attn_view *view);
/* Whether a row has a time of right numbers, and whether these are exact. */
bool attn_row_timed(const struct attn_view_row *row);
bool attn_row_exact(const struct attn_view_row *row);
/* The reason of a row without "budget: ", which its mark says. */
const char *attn_reason_text(const char *reason);
/* Whether it was timed with cold caches. */
bool attn_row_cold(const struct attn_view_row *row);

#endif
