/* SPDX-License-Identifier: Apache-2.0 */
/* power.h - how much verdicts prove, by operator and type. */
#ifndef ATTN_REPORT_POWER_H
#define ATTN_REPORT_POWER_H

#include "report/view.h"

/* All verdicts on one operator in one type. */
struct attn_power_line {
    char op[32], dtype[16];
    size_t verdicts, checks_made, checks_apply;
    size_t refused, of; /* usual mistakes */
    double least;       /* smallest share of them of one verdict; NAN: unknown */
    json_t *missed;     /* name -> number of verdicts; without those in `text` */
    char text[320];     /* what was missed most often */
};

struct attn_power_table {
    struct attn_power_line *lines;
    size_t count;
};

/* Returns 0, or -1 without memory. Records without counts of checks are left out. */
int attn_power_table_create(const struct attn_view *view, struct attn_power_table *table);
void attn_power_table_free(struct attn_power_table *table);

#endif
