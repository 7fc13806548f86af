/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - processor time that a backend uses: more than it is given, or after `run` has returned.
 */
#ifndef ATTN_WORKER_LOAD_H
#define ATTN_WORKER_LOAD_H

#include "worker/plan.h"

/* Seconds so far. */
struct attn_load {
    double wall;
    double process; /* processor time of this process and of the processes that it has started */
    double thread;  /* of the calling thread alone */
    double delayed; /* of the calling thread: ready, but others had the processor; 0: not known */
};

struct attn_load attn_load_now(void);
double attn_load_children(void); /* processor time of the processes that it has started */

/* Leaves what was used since `from` out of what was used since `before`. */
void attn_load_leave_out(struct attn_load *before, const struct attn_load *from);

/* Has the backend computed since `before` on no more threads at once than the setup gives, and may
 * no thread run on a processor that was not given? Call both from the thread that calls `run`.
 * While that one computes or would like to, all others together may have the time of one thread
 * less. This shows on a busy machine, too, where all of them together get less than one processor.
 * Threads that wait are not counted: a library may keep some. Nor is the time in which a run is
 * handed to a thread of a runtime; `runs`: how many there may have been. Returns 0, or -1 with
 * status and reason in the reply. */
int attn_load_check(const struct attn_load *before, int64_t runs, const struct attn_setup *setup,
                    struct attn_message_reply *reply);

/* Notes which processors the process was started with. */
void attn_load_inherit(void);

/* Gives the calling thread, and threads that it starts later, one processor more than the setup, if
 * the machine has one: threads that should take turns can then be seen to run at the same time. */
void attn_load_widen(const struct attn_setup *setup);
void attn_load_narrow(const struct attn_setup *setup);

/* Call it after `run` has returned. If there is anybody else who could still compute or write,
 * waits for about `seconds`. With more than one thread it waits longer while the process is busy:
 * threads of a pool may spin for a while. Returns 0, or -1 with status and reason: the process
 * stays busy, or an output has changed. */
int attn_load_settle(const struct attn_message_request *request, const struct attn_tensor *tensors,
                     const struct attn_setup *setup, double seconds,
                     struct attn_message_reply *reply);

/* FNV-1a (Fowler, Noll, Vo) of the elements of an operand. */
uint64_t attn_hash_elements(const struct attn_tensor *tensor, uint32_t element);

#endif
