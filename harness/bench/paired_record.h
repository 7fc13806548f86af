/* SPDX-License-Identifier: Apache-2.0 */
/* paired_record.h - rounds in which all backends of a case take turns, batch by batch.
 *
 * They are run by paired.c, after the rounds of rounds.c. What disturbs the machine disturbs all
 * backends of a case alike, so that ratios between them are known far better than their times. */
#ifndef ATTN_BENCH_PAIRED_RECORD_H
#define ATTN_BENCH_PAIRED_RECORD_H

#include <jansson.h>

#include "live/group.h"
#include "live/processors.h"
#include "results/figures.h"
#include "run/entry.h"

/* One backend in one round. */
struct attn_paired_round {
    int round; /* of the block: rounds of one number had the same cycles */
    struct attn_group_side side;
    bool no_ratio; /* to another anchor, or by another clock, than other rounds */
    uint32_t n_processors, processors[ATTN_CLAIM_MAX];
    bool alone;   /* no other attnbench has claimed these processors */
    double steal; /* share of their time that the host of the virtual machine took away */
    double load;  /* runnable threads of the machine, mean of a minute; -1: unknown */
};

/* All rounds of one backend on one case. */
struct attn_paired_rounds {
    struct attn_paired_round *rounds; /* [settings.rounds] or NULL. Owned */
    int n;
    int put_off; /* how often the case was put off because the machine was slower than before */
    int64_t iterations; /* runs of a batch, as the first round has found them; 0: not yet */
    const struct attn_contestant *anchor; /* whom the ratios are to; NULL: nobody */
    double seconds;                       /* wall clock of its turns, begin and end included */
    bool settled;      /* its place is known: it has no rounds while others want some (paired.c) */
    char why_not[256]; /* why rounds are missing; "": none are */
};

/* Makes the ratios, once all rounds are known. Returns 0, or -1: no memory. */
int attn_paired_ratios(struct attn_paired_rounds *p);

/* After it: its time over the anchor's, over all rounds. False if there is none. */
bool attn_paired_to_anchor(const struct attn_paired_rounds *p, struct attn_interval *ratio);

void attn_paired_free(struct attn_paired_rounds *p);

/* The low quantile of a run's time over all rounds, in ns. False if there is none. */
bool attn_paired_low(const struct attn_paired_rounds *p, struct attn_interval *low);

/* The field `live` of a bench record (harness/results/README.md). NULL: no memory. */
json_t *attn_paired_json(const struct attn_paired_rounds *p);

#endif
