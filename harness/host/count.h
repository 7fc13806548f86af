/* SPDX-License-Identifier: Apache-2.0 */
/* count.h - how many instructions a run executes, counted by valgrind's tool callgrind. */
#ifndef ATTN_HOST_COUNT_H
#define ATTN_HOST_COUNT_H

#include "host/types.h"
#include "tensor/instance.h"

/* The worker's function in which instructions count. */
#define ATTN_COUNTED_FUNCTION attn_counted_run

/* What a worker under valgrind has told. */
struct attn_count {
    uint64_t instructions;         /* of one run, after others */
    struct attn_backend_info info; /* of the backend there */
    struct attn_plan_info plan;    /* of the plan there */
};

/* Starts a worker of its own under callgrind and runs the instance in it. On PASS *count is set and
 * the outputs of the counted run are in the instance. Valgrind shows programs a processor with AVX2
 * at most: a backend may be another one there, or refuse. Anything else: why there is no count. */
struct attn_outcome attn_worker_count(const struct attn_worker_config *config,
                                      struct attn_instance *instance, struct attn_count *count);

#endif
