/* SPDX-License-Identifier: Apache-2.0 */
/* slots.c - phase, handlers and floating-point state around a slot. */
#include "worker/slots.h"

#include <fenv.h>
#include <stdio.h>

#include "worker/channel.h"
#include "worker/fault.h"

#if defined(__x86_64__)

#include <xmmintrin.h>

struct fp_state {
    unsigned mxcsr;
    unsigned short x87;
};

#define MXCSR_STICKY 0x3Fu

static struct fp_state fp_read(void)
{
    struct fp_state state = {.mxcsr = _mm_getcsr() & ~MXCSR_STICKY};
    __asm__ volatile("fnstcw %0" : "=m"(state.x87));
    return state;
}

static void fp_restore(struct fp_state state)
{
    _mm_setcsr(state.mxcsr);
    __asm__ volatile("fldcw %0" : : "m"(state.x87));
}

static int fp_compare(struct fp_state was, struct fp_state is, char *why, size_t size)
{
    if (was.mxcsr != is.mxcsr)
        snprintf(why, size, "leaves MXCSR changed (0x%04x -> 0x%04x)", was.mxcsr, is.mxcsr);
    else if (was.x87 != is.x87)
        snprintf(why, size, "leaves the x87 control word changed (0x%04x -> 0x%04x)", was.x87,
                 is.x87);
    else
        return 0;
    return -1;
}

#else

/* Elsewhere what C itself can tell: the rounding mode. */
struct fp_state {
    int rounding;
};

static struct fp_state fp_read(void)
{
    return (struct fp_state){.rounding = fegetround()};
}

static void fp_restore(struct fp_state state)
{
    fesetround(state.rounding);
}

static int fp_compare(struct fp_state was, struct fp_state is, char *why, size_t size)
{
    if (was.rounding == is.rounding)
        return 0;
    snprintf(why, size, "leaves the rounding mode changed (%d -> %d)", was.rounding, is.rounding);
    return -1;
}

#endif

static struct fp_state before;

void attn_slot_enter(uint32_t slot)
{
    const struct attn_message_phase message = {
        .head = {.length = sizeof(message), .type = ATTN_MESSAGE_PHASE}, .slot = slot};
    attn_channel_send(&message.head);
    attn_fault_slot(slot);
    attn_fault_arm();
    before = fp_read();
}

int attn_slot_leave(char *why, size_t size)
{
    const struct fp_state after = fp_read();
    attn_fault_slot(ATTN_SLOT_NONE);
    fp_restore(before);
    return fp_compare(before, after, why, size);
}
