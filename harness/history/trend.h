/* SPDX-License-Identifier: Apache-2.0 */
/* trend.h - from the results of a case to its series, with change points. Private to this folder.
 */
#ifndef ATTN_TREND_H
#define ATTN_TREND_H

#include "history/history.h"
#include "history/machines.h"

/* The history of one case: {id, name, case, anchor, chosen (true: the anchor was not asked for),
 * series}. A series has one machine, backend, number of threads and state of the caches: {machine
 * (name), backend, threads, cache, points, changes}. A point is a run: {run, date, commit, plugin,
 * version, status, ratio, low, high, source, anchor_changed}; ratio null: the backend or the anchor
 * was not timed. source: "paired" (alternating batches, as the record says) or "rounds" (round by
 * round). A change: {at (the first point after it), run, date, commit, change (-0.05: 5 % faster),
 * before, after (mean ratios), p}.
 *
 * The caller adds `id`, and `machines` of attn_machines_name.
 *
 * `results` and `names` are of attn_index_results and attn_machines_name. The anchor is that of the
 * wish, else the one that most records name, else the backend timed in most runs; of several the
 * slowest. A series without any ratio is left out. NULL without memory. */
json_t *attn_trend_find(const json_t *results, const json_t *names,
                        const struct attn_history_wish *wish);

#endif
