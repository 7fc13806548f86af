/* SPDX-License-Identifier: Apache-2.0 */
/* clocks.h - wall and processor time of the worker, and who had the processor. */
#ifndef ATTN_WORKER_CLOCKS_H
#define ATTN_WORKER_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct attn_reading {
    double wall, thread, process; /* seconds; the thread is the caller */
    long given;                   /* times that the caller has given the processor back by itself */
};

struct attn_reading attn_clocks_read(void);

/* Seconds of one clock; 0: there is none. */
double attn_clock_seconds(clockid_t clock);

/* Times that others took the processor from the caller, or from all threads of the process. */
uint64_t attn_clocks_switches(bool process);

/* Seconds for which threads of this process have waited for a processor; 0 where the kernel does
 * not say. */
double attn_clocks_delayed(void);

#endif
