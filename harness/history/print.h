/* SPDX-License-Identifier: Apache-2.0 */
/* print.h - a history for a terminal. Private to this folder. */
#ifndef ATTN_HISTORY_PRINT_H
#define ATTN_HISTORY_PRINT_H

#include <jansson.h>
#include <stdio.h>

/* Prints a case of attn_trend_find with its series as tables. */
void attn_history_put(FILE *out, const json_t *history);

/* What the columns mean, once, below all tables. */
void attn_history_put_legend(FILE *out, double margin);

/* Prints the list of attn_index_cases. */
void attn_history_put_cases(FILE *out, const json_t *cases);

#endif
