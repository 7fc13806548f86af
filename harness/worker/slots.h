/* SPDX-License-Identifier: Apache-2.0 */
/* slots.h - what is done before and after every call of a plugin's slot. */
#ifndef ATTN_WORKER_SLOTS_H
#define ATTN_WORKER_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "host/protocol.h"

/* Before a slot: tells the host, installs the fault handlers, saves the floating-point state. */
void attn_slot_enter(uint32_t slot);

/* After a slot: checks that the floating-point state (MXCSR without its sticky flags, x87 control
 * word) is unchanged, and restores it. Returns 0, or -1 with the broken promise. */
int attn_slot_leave(char *why, size_t size);

#endif
