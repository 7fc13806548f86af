/* SPDX-License-Identifier: Apache-2.0 */
/* predict.h - how long a run will take, before it is made. */
#ifndef ATTN_PREDICT_H
#define ATTN_PREDICT_H

#include "run/seat.h"

/* Would a run take longer than --run-limit, or far longer than the fastest of the seat's peers?
 * Then the verdict is a skip that says so. Predicted from a run that has been timed: of a case of
 * the same kind, else of a smaller case with the same features, which is run here. Where neither
 * can be had, nothing is refused. */
bool attn_predict_refuses(struct attn_seat *seat, const struct attn_instance *instance,
                          struct attn_judgement *verdict);

/* Notes how long a run took; seconds 0: there was none. */
void attn_predict_saw(struct attn_seat *seat, const struct attn_instance *instance, double seconds);

#endif
