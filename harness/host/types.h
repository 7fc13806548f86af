/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - what a worker is configured with, and what comes back from it: outcomes, and what
 * plugins, plans, timings and the machine's limits say. Host, protocol and worker share them. */
#ifndef ATTN_HOST_TYPES_H
#define ATTN_HOST_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"
#include "results/status.h"

/* What every backend promises, whatever it computes. */
enum attn_promise {
    ATTN_PROMISE_NONE,
    ATTN_PROMISE_INPUTS, /* inputs are not written to */
    ATTN_PROMISE_BOUNDS, /* nothing outside the operands' elements is read or written */
    ATTN_PROMISE_STATE   /* floating-point state is left as it was */
};

/* Reasons of an ERROR that says nothing about the plugin begin with one of these: the harness could
 * not do its part, for lack of memory, processes or descriptors. Another time it may. */
#define ATTN_NO_WORKER   "cannot start the worker: "
#define ATTN_NO_OPERANDS "cannot make the operands: "

struct attn_outcome {
    enum attn_status status;
    enum attn_promise broken; /* with FAIL: the broken promise, if it is one of these */
    bool short_of; /* with ERROR: the host is short of memory, files or processes to start a worker,
                    * so that nothing is known of the plugin */
    char reason[512]; /* one sentence; "" on PASS */
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

/* The constants of its comments stand in worker.c and process.c. */
struct attn_worker_config {
    const char *worker_path; /* attnbench-worker */
    const char *plugin_path; /* NULL: no plugin, for ceilings only */
    const char *backend;     /* name within the plugin; NULL: only attn_worker_inspect follows */
    const char *options;     /* "key=value,key=value" as given with -b, or "" */
    int threads;
    const uint32_t *processors; /* [threads] to run on; NULL: the first that this process has */
    const char *log_path;       /* stdout and stderr of the worker, appended; NULL: discarded */
    size_t log_cap;     /* bytes that a worker may add, LOG_CAPS times that all; 0: LOG_CAP */
    uint64_t rss_limit; /* bytes of resident and of data memory; 0: most of what is available */
    double timeout_s;   /* watchdog for each request; 0: TIMEOUT_S */
    bool foreground;    /* --debug: own terminal, no watchdog */
    /* A program with its arguments, found on PATH, that starts the worker; the last is NULL. NULL:
     * none. Not copied. */
    const char *const *wrapper;
};

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

#define ATTN_SAMPLES_MAX 64
#define ATTN_SPOTS_MAX   3
/* One element of an input that changes between two runs of a timing: from its home value to the
 * bits in `away`, or back. */
struct attn_spot {
    uint32_t tensor;
    uint32_t reserved;
    uint64_t offset; /* bytes from the operand's first element */
    uint64_t away;   /* bits of the element, in its low bytes */
};

/* Which inputs a run had: bit 0: every place is away; bit 1: the second set. Or the first set with
 * one or two places away, as `mixed` says. */
enum attn_state {
    ATTN_STATE_AWAY = 1,
    ATTN_STATE_SECOND = 2,
    ATTN_STATE_MIXED = 4,
    ATTN_STATES = 5
};

struct attn_instance;
struct attn_bench_params {
    bool cold;       /* evict caches before every timed run */
    double min_time; /* seconds per sample, hot */
    int samples;     /* <= ATTN_SAMPLES_MAX; 1 if a run is long (LONG_RUN_S, timing.c) */
    /* Other data for the same problem: inputs alternate between the samples, and elements change
     * between runs. It receives the outputs of a run drawn at random. NULL: inputs stay. */
    struct attn_instance *twin;
    const struct attn_spot *spots; /* [n_spots] */
    uint32_t n_spots;
    /* Steps from home, modulo twice the number of places, to the one state among those that are
     * mixed that the last run has, and from which one may be drawn; 0: there is none. Plugins do
     * not know which it is. */
    uint32_t mixed;
    bool scrambles; /* inputs may be scrambled (scramble.h); the reply then has a seed */
};
struct attn_bench_reply {
    int n;
    double
        samples_ns[ATTN_SAMPLES_MAX]; /* time of one run, each a mean over a sample's iterations */
    double cpu_ns[ATTN_SAMPLES_MAX];  /* processor time of the thread that called run; 0: unknown */
    int64_t iterations[ATTN_SAMPLES_MAX]; /* for a device, each is a batch of runs */
    /* The device before the first and after the last sample; struct_size 0: the backend reports no
     * device. */
    struct attn_device before, after;
    uint32_t last;       /* enum attn_state: that of the inputs of the last run */
    uint32_t drawn;      /* 1 + that of the run drawn at random; 0: none was */
    uint64_t drawn_seed; /* by which that run's inputs were scrambled; 0: they were not */
};

/* The clock of live batches: the same for all batches of a plan. */
enum attn_clock {
    ATTN_CLOCK_THREAD,  /* processor time of the thread that calls `run` */
    ATTN_CLOCK_PROCESS, /* processor time of all threads: the plugin has threads of its own */
    ATTN_CLOCK_WALL,    /* several threads were given, which wait for each other */
    ATTN_CLOCK_DEVICE   /* the device's own */
};

/* One batch of runs in a live worker (host/live.h). Times are of the whole batch. */
struct attn_live_sample {
    int64_t iterations;  /* runs of the batch; in the first sample, of every batch */
    double wall_ns;      /* in the first sample, the fastest of several single runs */
    double processor_ns; /* thread or process, as `clock` says; process if that is the wall clock */
    double device_ns;    /* 0: no device */
    uint64_t switches;   /* involuntary: others took the processor */
    uint64_t bytes;      /* of operands */
    uint64_t huge_bytes; /* of these in pages of 2 MiB */
    uint32_t clock;      /* enum attn_clock */
    uint32_t reserved;
};

/* The machine's limits. */
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
    double clock_ghz;                       /* of all processors together; 0: not known */
    struct attn_rung rungs[ATTN_RUNGS_MAX]; /* widest last, then matrix tiles */
    struct attn_read reads[ATTN_READS_MAX]; /* nearest first, memory last */
};

#endif
