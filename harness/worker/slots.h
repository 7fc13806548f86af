/* SPDX-License-Identifier: Apache-2.0 */
/* slots.h - what surrounds every call of a plugin's slot. */
#ifndef ATTN_WORKER_SLOTS_H
#define ATTN_WORKER_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "host/protocol.h"

/* Before a slot is called: tells the host, puts the fault handlers in place, notes the
 * floating-point state. */
void attn_slot_enter(uint32_t slot);

/* After it has returned: was the floating-point state (MXCSR but for its sticky flags, x87 control
 * word) left as it was. Restores it. Returns 0, or -1 with the broken promise. */
int attn_slot_leave(char *why, size_t size);

#endif
