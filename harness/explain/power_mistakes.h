/* SPDX-License-Identifier: Apache-2.0 */
/* power_mistakes.h - the usual mistakes by number. Private to this folder. */
#ifndef ATTN_POWER_MISTAKES_H
#define ATTN_POWER_MISTAKES_H

#include "explain/power_trials.h"

/* The mistake without which a verdict says nothing about scores. */
#define ATTN_POWER_UNIFORM 0
#define ATTN_POWER_SCALE   4 /* 2 % off; then 10 %, and twice */
#define ATTN_POWER_SCALES  ((attn_power_set)7 << ATTN_POWER_SCALE)

/* Mistake m in a problem. False: the problem has nothing in which it could be made. */
bool attn_power_wrong(int mistake, const struct attn_problem *problem, struct attn_wrong *wrong);

#endif
