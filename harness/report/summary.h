/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h - protocol, machine and build of a run in one line each, verdicts in one number each,
 * for footers and pages. */
#ifndef ATTN_REPORT_SUMMARY_H
#define ATTN_REPORT_SUMMARY_H

#include "report/types.h"

/* Texts of one line each. Protocol: "5 rounds of 10 samples", as they were made, or "3 to 5 rounds"
 * if a budget left some results fewer; of a run without timings, what was asked for.
 * Machine: "EPYC ..., 2 threads". Build: "attnbench 0.1.0 (abc of DATE), Release, run on DATE". */
void attn_protocol_text(const struct attn_view *view, const json_t *machine, char *text,
                        size_t size);
/* What the intervals of times are, if there are any. */
const char *attn_interval_text(const struct attn_view *view);
void attn_machine_text(const json_t *machine, char *text, size_t size);
void attn_build_text(const json_t *machine, char *text, size_t size);
/* "Linux 6.1.0, 16.0 GiB of memory, GNU 12.2.0 (-O3 ...)" */
void attn_system_text(const json_t *machine, char *text, size_t size);

/* def.c of each operator counts them, and its OP.md says how. */
#define ATTN_FLOP_CONVENTION "FLOPs: counted as in the operator's OP.md"
/* Of gradients: five products of each allowed cell, whatever a kernel recomputes. */
#define ATTN_FLOP_BACKWARD "FLOPs of a cell: 2 (3 dk + 2 dv)"

/* How attn_view_row bounds its interval. */
#define ATTN_WHISKER_BOUND "No whisker passes the best sample or the machine's limit."

/* Whether a verdict needs attention: it is not pass, approx or skip. */
bool attn_row_is_trouble(const struct attn_view_row *row);

/* The largest error over its bound in any case of a backend; NAN if there is none. */
double attn_worst_ratio(const struct attn_view *view, size_t backend);

/* The largest error over the bound of the best arithmetic of the type. NAN if there is none. */
double attn_worst_grade(const struct attn_view *view, size_t backend);

/* Number of verdicts of all backends together. */
size_t attn_verdict_count(const struct attn_view *view, enum attn_status status);

#endif
