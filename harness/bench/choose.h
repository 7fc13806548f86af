/* SPDX-License-Identifier: Apache-2.0 */
/* choose.h - which cases have turns, where there is no time for all. */
#ifndef ATTN_BENCH_CHOOSE_H
#define ATTN_BENCH_CHOOSE_H

#include <stdbool.h>

#include "case/case.h"

struct attn_choice {
    const struct attn_case *c;
    double cost; /* seconds of the rounds that it wants still */
    int made;    /* rounds that it has had */
    double work; /* attn_family_work */
    bool chosen; /* result */
};

/* Chooses of n cases, as long as they take no more than `left` seconds together. First those that
 * have had rounds, the most rounds first: a ratio of few rounds says little. Then families of cases
 * (of one name up to '/', or else up to '_') take turns: next is the one with the fewest chosen
 * cases, of several the one with most work, and of it the cheapest case. So what a run is mostly
 * about is known surely, even where popular libraries take part, whose workers take long to start.
 */
void attn_choose(struct attn_choice *choices, size_t n, double left);

/* FLOPs of all cases of a list that belong to the family of c. */
double attn_family_work(const struct attn_case_list *cases, const struct attn_case *c);

#endif
