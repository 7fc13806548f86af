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
double attn_clock_wall(void);    /* CLOCK_MONOTONIC */
double attn_clock_process(void); /* CLOCK_PROCESS_CPUTIME_ID */

/* Seconds that the kernel takes at least to bring a page that was not there and to take it back; 0:
 * not known. */
double attn_clocks_fault(void);

/* Times that others took the processor from the caller, or from all threads of the process. */
uint64_t attn_clocks_switches(bool process);
/* Pages that were not there when the caller, or any thread of the process, wanted them. */
uint64_t attn_clocks_faults(bool process);

/* Seconds for which the caller, or all threads of the process, were ready to run and had no
 * processor; 0 where the kernel does not say. */
double attn_clocks_delayed(bool process);

#endif
