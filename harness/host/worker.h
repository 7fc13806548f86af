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
    enum attn_promise broken; /* with FAIL: the broken promise, if it is one of these */
    char reason[512];         /* one sentence; "" on PASS */
};

/* What a plugin file says about itself. A worker asks it. */
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
    uint32_t device; /* 1: it runs on a device and uses that device's clock */
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
    size_t log_cap;       /* bytes that one worker may add; all together: 16 times that; 0: 1 MiB */
    uint64_t rss_limit;   /* bytes of resident and of data memory; 0: 90 % of MemAvailable */
    double timeout_s;     /* watchdog for each request; 0: 60 */
    bool foreground;      /* --debug: own terminal, no watchdog */
};

struct attn_worker;

/* Loads the plugin and selects the backend. On anything but PASS, *worker is NULL. Loader refusals
 * and an unknown backend are ERROR; a backend that cannot run here (init or probe) is SKIP. */
struct attn_outcome attn_worker_start(const struct attn_worker_config *config,
                                      struct attn_worker **worker);
void attn_worker_stop(struct attn_worker *worker); /* NULL is fine; always leaves no process */

/* The process number, for debugging; 0 if there is no process. */
long attn_worker_pid(const struct attn_worker *worker);

/* Sends a signal to the process groups of all live workers. Async-signal-safe: a program's SIGINT
 * and SIGTERM handlers call it, because workers are not in the terminal's group. Use it only in a
 * program that is about to end: it cuts off every current and later request shortly afterwards,
 * even if the worker ignores the signal. */
void attn_workers_forward(int sig);

/* Asks what a plugin file offers, in a separate worker that then exits. */
struct attn_outcome attn_worker_inspect(const struct attn_worker_config *config,
                                        struct attn_plugin_info *info);

/* How operands lie in the guarded mapping. */
enum attn_placement {
    ATTN_PLACE_END,  /* the last byte of every operand is the last before a guard page */
    ATTN_PLACE_START /* the first byte of every operand follows a guard page */
};

/* What the plan said about itself; part of every reply. */
struct attn_plan_info {
    char path[256]; /* describe */
    bool has_numerics;
    struct attn_numerics numerics; /* source points into source_text or is NULL */
    char source_text[256];
    uint64_t workspace_bytes;
    uint32_t threads_seen; /* threads of the worker after run; 0: not counted */
    bool fresh;            /* a run with other inputs in the same place gave another result */
    char protection[128];  /* the level of protection: "guards, sealed inputs" ... */
};

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

/* A long use of a plan, in guarded memory. With `runs` > 0: that many runs after a first one, all
 * with the bits of the first one, while a processor is busy now and then. With `runs` 0: several
 * plans, one after the other; it fails if each leaves more threads, descriptors or mapped memory
 * behind than the one before. FAIL says what differs. */
struct attn_outcome attn_worker_repeat(struct attn_worker *worker, struct attn_instance *instance,
                                       int runs);

/* Asks `supports` only: PASS, or SKIP with the reason. */
struct attn_outcome attn_worker_supports(struct attn_worker *worker,
                                         const struct attn_instance *instance);

#define ATTN_SAMPLES_MAX 64
struct attn_bench_params {
    bool cold;       /* evict caches before every timed run */
    double min_time; /* seconds per sample, hot */
    int samples;     /* <= ATTN_SAMPLES_MAX; 1 if one run is long */
};
struct attn_bench_reply {
    int n;
    double
        samples_ns[ATTN_SAMPLES_MAX]; /* time of one run, each a mean over a sample's iterations */
    int64_t iterations[ATTN_SAMPLES_MAX]; /* for a device, each is a batch of runs */
    /* The device before the first and after the last sample; struct_size 0: the backend reports no
     * device. */
    struct attn_device before, after;
};

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
#define ATTN_RUNGS_MAX 4
struct attn_rung {
    /* "avx512", "avx2"; "sse2" or "base" if there is nothing wider; "amx": matrix tiles */
    char isa[16];
    /* peak rate of multiply-adds in GFLOP/s; 0: none in that type */
    double f32, f64, f16, bf16;
};
#define ATTN_READS_MAX 5
struct attn_read {
    uint64_t bytes; /* size of this cache over all processors together; 0: memory */
    double gbs;     /* plain read by the widest rung of half of it; memory: of 4 x the last */
};
struct attn_ceilings {
    uint32_t n_rungs, n_reads;
    struct attn_rung rungs[ATTN_RUNGS_MAX]; /* widest last, then matrix tiles */
    struct attn_read reads[ATTN_READS_MAX]; /* nearest first, memory last */
};
struct attn_outcome attn_worker_ceilings(struct attn_worker *worker,
                                         struct attn_ceilings *ceilings);

#endif
