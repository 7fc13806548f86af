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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"
#include "results/status.h"
#include "tensor/instance.h"

/* What every backend promises, whatever it computes. */
enum attn_promise {
    ATTN_PROMISE_NONE,
    ATTN_PROMISE_INPUTS, /* inputs are not written to */
    ATTN_PROMISE_BOUNDS, /* nothing outside the operands' elements is read or written */
    ATTN_PROMISE_STATE   /* floating-point state is left as it was */
};

struct attn_outcome {
    enum attn_status status;
    enum attn_promise broken; /* with FAIL, where it is one of these */
    char reason[512];         /* one sentence; "" on PASS */
};

/* What a plugin file says of itself, learnt in a worker. */
#define ATTN_BACKENDS_MAX 16
#define ATTN_OPTIONS_MAX  16
struct attn_option_info {
    char key[32], choices[128], fallback[64], help[128];
    uint32_t type;
};
struct attn_backend_info {
    char name[32];
    char description[256];
    char version[128];
    uint32_t exactness;
    uint32_t device; /* 1: it runs on a device, whose own clock times it */
    bool available;
    char reason[256]; /* why not, from init or probe */
    uint32_t n_options;
    struct attn_option_info options[ATTN_OPTIONS_MAX];
};
struct attn_plugin_info {
    char path[4096];
    uint32_t n_backends;
    struct attn_backend_info backends[ATTN_BACKENDS_MAX];
};

struct attn_worker_config {
    const char *worker_path; /* attnbench-worker */
    const char *plugin_path; /* NULL: no plugin, for ceilings only */
    const char *backend;     /* name within the plugin; NULL: only attn_worker_inspect follows */
    const char *options;     /* "key=value,key=value" as given with -b, or "" */
    int threads;
    const char *log_path; /* stdout and stderr of the worker, appended; NULL: discarded */
    size_t log_cap;       /* bytes that a worker may add; 16 times that, all may; 0: 1 MiB */
    uint64_t rss_limit;   /* bytes of resident and of data memory; 0: 90 % of MemAvailable */
    double timeout_s;     /* watchdog for each request; 0: 60 */
    bool foreground;      /* --debug: own terminal, no watchdog */
};

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

/* How operands lie in the guarded mapping. */
enum attn_placement {
    ATTN_PLACE_END,  /* the last byte of every operand is the last before a guard page */
    ATTN_PLACE_START /* the first byte of every operand follows a guard page */
};

/* What the plan said of itself, with every request. */
struct attn_plan_info {
    char path[256]; /* describe */
    bool has_numerics;
    struct attn_numerics numerics; /* source points into source_text or is NULL */
    char source_text[256];
    uint64_t workspace_bytes;
    uint32_t threads_seen; /* threads of the worker after run; 0: not counted */
    bool fresh;            /* a run with other inputs in the same place gave another result */
    char protection[128];  /* what the machine gave: "guards, sealed inputs" ... */
};

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

#define ATTN_SAMPLES_MAX 64
struct attn_bench_params {
    bool cold;       /* evict caches before every timed run */
    double min_time; /* seconds a sample, hot */
    int samples;     /* <= ATTN_SAMPLES_MAX; 1 where one run takes over 1 s */
};
struct attn_bench_reply {
    int n;
    double
        samples_ns[ATTN_SAMPLES_MAX]; /* time of one run, each a mean over a sample's iterations */
    int64_t iterations[ATTN_SAMPLES_MAX]; /* of a device each is a batch of runs */
    /* The device before the first sample and after the last; struct_size 0: it has none that says
     * anything of itself. */
    struct attn_device before, after;
};

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
#define ATTN_RUNGS_MAX 4
struct attn_rung {
    /* "avx512", "avx2"; "sse2" or "base" where there is nothing wider; "amx": matrix tiles */
    char isa[16];
    /* peak of its multiply-adds, GFLOP/s; 0: it has none in that type */
    double f32, f64, f16, bf16;
};
#define ATTN_READS_MAX 5
struct attn_read {
    uint64_t bytes; /* what the processors have of this cache together; 0: memory */
    double gbs;     /* a plain read of the widest rung, of half of it; memory: of 4 x the last */
};
struct attn_ceilings {
    uint32_t n_rungs, n_reads;
    struct attn_rung rungs[ATTN_RUNGS_MAX]; /* widest last, matrix tiles behind all */
    struct attn_read reads[ATTN_READS_MAX]; /* nearest first, memory last */
};
struct attn_outcome attn_worker_ceilings(struct attn_worker *worker,
                                         struct attn_ceilings *ceilings);

#endif
