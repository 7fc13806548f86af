/* SPDX-License-Identifier: Apache-2.0 */
/* signs.h - inputs that were never there before, where it can be so with the host's references.
 *
 * If the sign of a column of v is turned, so is that of the same column of out, and nothing else
 * changes: not a rounding, not a bound. Each time that inputs are exchanged a sign is drawn for
 * every column, so a result that was kept for the same inputs is not found again. Of gradients, v
 * and dout are turned together, and with them dv. The host sees results with the signs turned back.
 * It is for inputs that cannot be scrambled (host/scramble.h). */
#ifndef ATTN_WORKER_SIGNS_H
#define ATTN_WORKER_SIGNS_H

#include "host/protocol.h"

/* Column c goes by bit c modulo 256. */
struct attn_signs {
    uint64_t columns[4];
    uint32_t turns; /* tensors of the request whose signs are turned, as bits; 0: of none */
};

/* Which tensors there are to turn: none unless all outputs follow from it. No sign is turned. */
struct attn_signs attn_signs_of(const struct attn_message_request *request);

/* Turns the signs of the inputs or of the outputs; a second time, turns them back. */
void attn_signs_turn(const struct attn_signs *signs, const struct attn_message_request *request,
                     const struct attn_tensor *tensors, bool outputs);

#endif
