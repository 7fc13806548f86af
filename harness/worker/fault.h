/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - turns a fatal signal into one message to the host, with the address relative to an
 * operand. */
#ifndef ATTN_WORKER_FAULT_H
#define ATTN_WORKER_FAULT_H

#include <stddef.h>
#include <stdint.h>

/* Address space that belongs to one operand, its guards included. */
struct attn_fault_region {
    uintptr_t begin, end; /* of the guards */
    uintptr_t data;       /* the operand's first element */
};

/* Sets up the handler's stack. Returns 0, or -1: no memory. */
int attn_fault_init(void);

/* Installs the handlers, again before each slot, because libraries install their own. */
void attn_fault_arm(void);

/* Sets the regions that faults are compared with; index t is operand t. count 0: none. */
void attn_fault_watch(const struct attn_fault_region *regions, uint32_t count);

/* Sets the slot being called, for the message. */
void attn_fault_slot(uint32_t slot);

#endif
