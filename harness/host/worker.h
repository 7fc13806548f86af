/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the host's side of a worker process: start it, give it problems, judge what happens.
 *
 * No backend code runs in the host. One worker loads one plugin and serves one backend. Whatever it
 * does (crash, hang, exit, failed allocation, nonsense on the socket) comes back as a status and a
 * sentence. The process is always lost after CRASH, TIMEOUT and OOM, after a FAIL by a forbidden
 * access, and after an ERROR by nonsense. The next request then starts a fresh process. Not
 * thread-safe: make all calls from the thread that started the worker, because its death signal is
 * bound to that thread. */
#ifndef ATTN_HOST_WORKER_H
#define ATTN_HOST_WORKER_H

#include "host/types.h"
#include "tensor/instance.h"

struct attn_worker;

/* Loads the plugin and selects the backend. On anything but PASS, *worker is NULL. Loader refusals
 * and an unknown backend are ERROR; a backend that cannot run here (init or probe) is SKIP. */
struct attn_outcome attn_worker_start(const struct attn_worker_config *config,
                                      struct attn_worker **worker);
void attn_worker_stop(struct attn_worker *worker); /* NULL is fine; always leaves no process */

/* The number of the process that has the plugin; 0 if there is no process. */
long attn_worker_pid(const struct attn_worker *worker);

/* Sends a signal to the worker's process group. Not for one in the foreground, which has none. */
void attn_worker_signal(const struct attn_worker *worker, int sig);

/* Sends a signal to the process groups of all live workers. Async-signal-safe: a program's SIGINT
 * and SIGTERM handlers call it, because workers are not in the terminal's group. Use it only in a
 * program that is about to end: it cuts off every current and later request shortly afterwards,
 * even if the worker ignores the signal. */
void attn_workers_forward(int sig);

/* Asks what a plugin file offers, in a separate worker that then exits. */
struct attn_outcome attn_worker_inspect(const struct attn_worker_config *config,
                                        struct attn_plugin_info *info);

/* One verification: create, bind, run `runs` times, fetch, in guarded shared memory. Then it checks
 * the promises: inputs, MXCSR and x87 control word are unchanged, and gaps of strided outputs are
 * untouched. The caller compares values, and so finds elements that were never written. With
 * ATTN_PLACE_START one more run must give another result after the signs of a linear input were
 * turned. FAIL carries the broken promise, SKIP the refusal of `supports`. On PASS the outputs in
 * the instance's memory hold what the backend computed, and *seconds the time of the fastest run.
 */
struct attn_outcome attn_worker_verify(struct attn_worker *worker, struct attn_instance *instance,
                                       enum attn_placement placement, int runs,
                                       struct attn_plan_info *info, double *seconds);

/* A plan bound to the inputs of `instance` and run up to `runs` times, or for `seconds`. Then the
 * inputs of `twin`, which has other values for every role of the same problem, take their place in
 * memory, and the plan runs once more on what lies there now. On PASS the outputs in the memory of
 * `twin` hold the result of that run. FAIL: something still computed or wrote after that run had
 * returned, or more threads computed at once than the configuration gives. A device is bound again.
 * With `keep` the worker keeps the plan after a PASS, beside the next requests. */
struct attn_outcome attn_worker_renew(struct attn_worker *worker, struct attn_instance *instance,
                                      struct attn_instance *twin, int runs, double seconds,
                                      bool keep, struct attn_plan_info *info);

/* Puts the inputs of `instance`, which has the same problem, in the place of those of the plan that
 * was kept, runs it once more, and closes it. On PASS the outputs in the instance's memory hold the
 * result. SKIP: the process that kept the plan is gone. */
struct attn_outcome attn_worker_aged(struct attn_worker *worker, struct attn_instance *instance);

/* A long use of a plan, in guarded memory. With `runs` > 0: that many runs after a first one, all
 * with the bits of the first one, while a processor is busy now and then. With `runs` 0: several
 * plans, one after the other; it fails if each leaves more threads, descriptors or mapped memory
 * behind than the one before. FAIL says what differs. */
struct attn_outcome attn_worker_repeat(struct attn_worker *worker, struct attn_instance *instance,
                                       int runs);

/* The same question about bytes: up to a thousand plans for `seconds`, then up to ten thousand runs
 * of one plan for as long. FAIL if memory grows with them to the end. */
struct attn_outcome attn_worker_growth(struct attn_worker *worker, struct attn_instance *instance,
                                       double seconds);

/* Asks `supports` only: PASS, or SKIP with the reason. */
struct attn_outcome attn_worker_supports(struct attn_worker *worker,
                                         const struct attn_instance *instance);

/* Asks `supports` for the instance's problem, which it accepts, with one flag, word, type, role or
 * space that has no meaning. PASS if every such question is refused, FAIL with the first that is
 * not. */
struct attn_outcome attn_worker_unknowns(struct attn_worker *worker,
                                         const struct attn_instance *instance);

/* One timing in the worker's own memory (64-byte aligned, huge pages advised, first touched
 * there), driven by Google Benchmark. Outputs of the last timed run come back into the instance. A
 * backend that returns an earlier result is a FAIL, as in verification. */
struct attn_outcome attn_worker_bench(struct attn_worker *worker, struct attn_instance *instance,
                                      const struct attn_bench_params *params,
                                      struct attn_bench_reply *reply, struct attn_plan_info *info);

/* Peak memory of create, bind and one run, without the operands. The high-water mark is reset
 * (clear_refs) after the operands are touched. Must be the first request of a fresh worker. *bytes
 * is set on PASS. SKIP with the reason if the kernel does not allow the reset. If the backend
 * reports device memory, *bytes is that memory as the backend counts it, and *taken is the growth
 * of used device memory since before create, as the driver counts it. *taken is 0 for others. */
struct attn_outcome attn_worker_peak(struct attn_worker *worker, struct attn_instance *instance,
                                     uint64_t *bytes, uint64_t *taken);

/* The machine's limits, measured in a worker without a plugin, on `threads` processors and in the
 * same kind of pages that timing uses. */
struct attn_outcome attn_worker_ceilings(struct attn_worker *worker,
                                         struct attn_ceilings *ceilings);

#endif
