/* SPDX-License-Identifier: Apache-2.0 */
/* declared_off.h - which checks a plan's declaration switches off. Private to this folder. */
#ifndef ATTN_DECLARED_OFF_H
#define ATTN_DECLARED_OFF_H

#include <jansson.h>
#include <stdio.h>

#include "case/case.h"
#include "host/types.h"

enum { ATTN_DECLARED_OFF_MAX = 8 };

/* Writes the names, as in a record's `checks`, of those that prove less, or are not made, because
 * of what the plan declares. Returns how many there are. The bound still judges these fills. */
int attn_declared_off(const struct attn_plan_info *plan, const struct attn_case *c,
                      const char *names[ATTN_DECLARED_OFF_MAX]);

/* Writes "  off by declaration: census exact", or nothing. */
void attn_declared_off_print(FILE *out, const struct attn_plan_info *plan,
                             const struct attn_case *c);

/* The names as an array. */
json_t *attn_declared_off_json(const struct attn_plan_info *plan, const struct attn_case *c);

#endif
