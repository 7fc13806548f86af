/* SPDX-License-Identifier: Apache-2.0 */
/* gbench_shim.h - Google Benchmark behind a C function. It chooses the number of iterations, runs
 * the loop and takes the time. It prints nothing. */
#ifndef ATTN_WORKER_GBENCH_SHIM_H
#define ATTN_WORKER_GBENCH_SHIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct attn_gbench_job {
    /* Called before a sample of `n` runs, untimed; NULL: nothing is to be done. */
    int (*before)(void *context, int64_t n);
    /* Called, untimed, after a run that has returned 1. */
    void (*keep)(void *context);
    /* One run. 0: go on; 1: go on after `keep`; any other value ends the measurement. Set either
     * `run`, which is timed in one loop from outside, or `timed_run`, which measures its own
     * seconds. */
    int (*run)(void *context);
    int (*timed_run)(void *context, double *seconds);
    void *context;
    double min_time;    /* seconds per sample; used if iterations is 0 */
    int64_t iterations; /* runs per sample; 0: as many as fill min_time */
    int samples;
};

/* Fills at most `max` samples, each the mean of its iterations. cpu_ns: processor time of this
 * thread for one run; 0 where runs measure themselves. Returns the number of samples, or -1 if a
 * run ended the measurement. May be called many times. */
int attn_gbench_run(const struct attn_gbench_job *job, int max, double *samples_ns, double *cpu_ns,
                    int64_t *iterations);

#ifdef __cplusplus
}
#endif

#endif
