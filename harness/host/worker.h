/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the host's side of a worker process: start it, hand it problems, judge what happens.
 *
 * No backend code runs in the host. One worker loads one plugin and serves one backend. Whatever it
 * does (crash, hang, exit, refusal of memory, nonsense on the socket) comes back as a status and a
 * sentence. Where the process is lost over it (always with CRASH, TIMEOUT, OOM; with FAIL after a
 * forbidden access; with ERROR after nonsense), the next request of this worker starts a fresh one
 * by itself. Not thread-safe: all calls from the thread that started the worker (its death signal
 * is bound to that thread). */
#ifndef ATTN_HOST_WORKER_H
#define ATTN_HOST_WORKER_H

#include "host/types.h"
#include "tensor/instance.h"

struct attn_worker;

/* Loads the plugin and selects the backend. On anything but PASS, *worker is NULL. Loader refusals
 * and an unknown backend are ERROR; a backend that can not run here (init or probe) is SKIP. */
struct attn_outcome attn_worker_start(const struct attn_worker_config *config,
                                      struct attn_worker **worker);
void attn_worker_stop(struct attn_worker *worker); /* NULL is fine; always leaves no process */

/* Its process; 0 where there is none. For people who debug it. */
long attn_worker_pid(const struct attn_worker *worker);

/* Sends a signal to the process groups of all live workers. Async-signal-safe: a program's SIGINT
 * and SIGTERM handlers call it, since workers are not in the terminal's group. It is for a program
 * that is about to end: every request under way or made afterwards is cut off within a moment, even
 * where the worker ignores the signal. */
void attn_workers_forward(int sig);

/* What a plugin file offers: a worker of its own that loads, asks and exits. */
struct attn_outcome attn_worker_inspect(const struct attn_worker_config *config,
                                        struct attn_plugin_info *info);

/* One verification: create, bind, run `runs` times, fetch, in guarded shared memory; then the
 * harness's own promises are checked: inputs unchanged, MXCSR and x87 control word unchanged, gaps
 * of strided outputs untouched, every output element written (no primed NaN pattern left is NOT
 * judged here: the caller compares values); with ATTN_PLACE_START also that another run, with the
 * signs of v turned, gives another result. FAIL carries the broken promise; SKIP the refusal of
 * `supports`. On PASS the outputs of the instance (the memory of its OUT, LSE, WEIGHTS operands)
 * hold what the backend computed, and *seconds the time of the fastest run. */
struct attn_outcome attn_worker_verify(struct attn_worker *worker, struct attn_instance *instance,
                                       enum attn_placement placement, int runs,
                                       struct attn_plan_info *info, double *seconds);

/* A plan at work for long, in guarded memory: `runs` more runs after a first one, while a processor
 * of the machine is busy now and then, whose outputs must have the first one's bits; with `runs` 0
 * several plans one after the other, of which not each may leave more threads, descriptors or
 * mapped memory behind than the one before. FAIL says what differs. */
struct attn_outcome attn_worker_repeat(struct attn_worker *worker, struct attn_instance *instance,
                                       int runs);

/* Asks `supports` only: PASS, or SKIP with the reason. */
struct attn_outcome attn_worker_supports(struct attn_worker *worker,
                                         const struct attn_instance *instance);

/* One timing in memory of the worker's own (64-byte aligned, huge pages advised, first touched
 * there), driven by Google Benchmark. Outputs of the last timed run come back into the instance. A
 * backend that hands out an earlier result is a FAIL, as it is in verification. */
struct attn_outcome attn_worker_bench(struct attn_worker *worker, struct attn_instance *instance,
                                      const struct attn_bench_params *params,
                                      struct attn_bench_reply *reply, struct attn_plan_info *info);

/* Peak memory of create, bind and one run above what the operands take: high-water mark reset
 * (clear_refs) after operands are touched. Must be the first request of a fresh worker. *bytes is
 * set on PASS; SKIP with the reason where the kernel does not allow the reset. Of a device that
 * tells of its memory *bytes is that memory instead, as the backend counts it, and *taken by how
 * much more of it is in use than before create, as the driver counts it; 0 for others. */
struct attn_outcome attn_worker_peak(struct attn_worker *worker, struct attn_instance *instance,
                                     uint64_t *bytes, uint64_t *taken);

/* The machine's limits, measured in a worker without a plugin, on `threads` processors and in the
 * same kind of pages that timing uses. */
struct attn_outcome attn_worker_ceilings(struct attn_worker *worker,
                                         struct attn_ceilings *ceilings);

#endif
