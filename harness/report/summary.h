/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h - protocol, machine and build of a run in one line each, for footers and pages. */
#ifndef ATTN_REPORT_SUMMARY_H
#define ATTN_REPORT_SUMMARY_H

#include "report/types.h"

/* "5 rounds of 10 samples", or "3 to 5 rounds" where a budget left some results fewer; "EPYC ..., 2
 * threads"; "attnbench 0.1.0 (abc), built Release, DATE". */
void attn_protocol_text(const struct attn_view *view, const json_t *machine, char *text,
                        size_t size);
void attn_machine_text(const json_t *machine, char *text, size_t size);
void attn_build_text(const json_t *machine, char *text, size_t size);

#define ATTN_FLOP_CONVENTION "FLOPs: 2(dk+dv) per allowed cell and head"

#endif
