/* SPDX-License-Identifier: Apache-2.0 */
/* marks.h - the words that stand in a picture where a result has no figure. */
#ifndef ATTN_REPORT_MARKS_H
#define ATTN_REPORT_MARKS_H

#include "report/series.h"

enum { ATTN_MARKS = 11 };
/* Those that a picture shows. */
struct attn_marks {
    bool seen[ATTN_MARKS];
};
/* `mark`: of attn_row_mark, or "no base". Any other text is no mark. */
void attn_marks_add(struct attn_marks *marks, const char *mark);
/* "budget, no time for it; n/a, not supported": what the marks mean; "" if there are none. */
void attn_marks_text(const struct attn_marks *marks, char *text, size_t size);

/* Copies a series without the backends that have a figure at no size, so that no legend has them.
 * `names`: which these are, with the marks of those that were not timed, "mine (budget), yours"; ""
 * if there are none. Adds these marks to *marks. */
void attn_series_keep(const struct attn_view *view, const struct attn_series *all,
                      bool (*has_figure)(const struct attn_view_row *row), struct attn_series *kept,
                      struct attn_marks *marks, char *names, size_t size);

#endif
