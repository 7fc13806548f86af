/* SPDX-License-Identifier: Apache-2.0 */
/* anchors.h - the backend that times are relative to. Private to this folder. */
#ifndef ATTN_ANCHORS_H
#define ATTN_ANCHORS_H

#include <jansson.h>
#include <stdbool.h>

#include "history/history.h"

enum { ATTN_ANCHOR_MAX = 257 };

/* Whether `name` names a backend with its options: by both, or by the name alone. */
bool attn_anchor_named(const char *backend, const char *name);

/* The anchor of a case, as attn_trend_find says; "" where no backend can be one. */
void attn_anchor_choose(const json_t *results, const struct attn_history_wish *wish,
                        char anchor[ATTN_ANCHOR_MAX]);

#endif
