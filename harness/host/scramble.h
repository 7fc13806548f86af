/* SPDX-License-Identifier: Apache-2.0 */
/* scramble.h - new inputs from old ones and a seed: the worker makes them, and the host makes them
 * again for its reference. */
#ifndef ATTN_HOST_SCRAMBLE_H
#define ATTN_HOST_SCRAMBLE_H

#include <stdint.h>

#include "attnbench/backend.h"

/* Turns high bits of the mantissas of an operand of floating type; others stay. Signs and exponents
 * stay, and with them what is zero, infinite or NaN. The same seed a second time turns them back.
 * index: of the operand in its problem, so that two operands alike differ afterwards. */
void attn_scramble(const struct attn_tensor *tensor, uint32_t index, uint64_t seed);

#endif
