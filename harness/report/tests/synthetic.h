/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic.h - a made-up run with everything that a report must cope with: sweeps over S, heads
 * and d, full and causal, four backends that differ in speed and memory, one that measures the
 * harness, and results that failed, crashed, were refused or ran out of budget. */
#ifndef ATTN_REPORT_SYNTHETIC_H
#define ATTN_REPORT_SYNTHETIC_H

#include "report/report.h"

struct synthetic {
    unsigned seed;
    double slowdown; /* factor on the times of backend `slow`; 0: 1 */
    const char *slow;
    double noise; /* standard deviation of the logarithm over rounds; 0: 0.01 */
    int rounds;   /* 0: 5 */
};

/* Records and machine of a run; path is "synthetic". Released with attn_run_release. */
struct attn_run_data synthetic_run(struct synthetic options);

/* Its first records alone, for tests that want no sweep. */
struct attn_run_data synthetic_small(void);

/* Adds the backward pass of the cases of 8 heads of 64, with the results of the forward pass: 2.5
 * times the FLOPs, `factor` times the time, twice the peak. The id has a B before that of the
 * forward pass. */
void synthetic_backward(struct attn_run_data *run, double factor);

/* Multiplies every number in a field of a record, if it has that field. */
void synthetic_scale(json_t *record, const char *key, double factor);

/* Takes away the timings of a backend in the cases whose line holds `word`. */
void synthetic_untime(struct attn_run_data *run, const char *backend, const char *word);

/* A run as a folder, so that it is read back as a real one is. Returns 0 on success. */
int synthetic_folder(const struct attn_run_data *run, const char *folder);

/* A support matrix, object of matrix.json: backends that support all, f32 alone, and nothing for
 * want of a device; one that computes nothing and was asked no further after a crash. */
json_t *synthetic_matrix(void);

#endif
