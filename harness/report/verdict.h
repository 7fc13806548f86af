/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h - a run on a screen of 24 lines: who is fastest where, by how much and how sure, how
 * noisy the machine was, what failed, what was not measured and why. */
#ifndef ATTN_REPORT_VERDICT_H
#define ATTN_REPORT_VERDICT_H

#include <stdio.h>

#include "report/ranking.h"

enum { ATTN_VERDICT_LINES = 26 };

struct attn_verdict_line {
    char label[112]; /* "sweep_heads", "Noise" */
    char text[640];
    bool of_group; /* a group of cases; else about the whole run */
    bool warns;    /* stands in a box above the others on the page */
};

struct attn_verdict {
    size_t n;
    struct attn_verdict_line lines[ATTN_VERDICT_LINES];
};

/* `view` and `ranking` are those of the run. Returns 0, or -1: no memory. */
int attn_verdict_make(const struct attn_run_data *run, const struct attn_view *view,
                      const struct attn_ranking *ranking, struct attn_verdict *verdict);

/* One more line about the whole run. */
void attn_verdict_add(struct attn_verdict *verdict, const char *label, const char *text);

/* As text for a terminal of so many columns, or as the first section of a document. */
void attn_verdict_put_text(FILE *out, const struct attn_verdict *verdict, int columns);
void attn_verdict_put_html(FILE *out, const struct attn_verdict *verdict);
void attn_verdict_put_markdown(FILE *out, const struct attn_verdict *verdict);

#endif
