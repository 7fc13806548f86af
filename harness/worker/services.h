/* SPDX-License-Identifier: Apache-2.0 */
/* services.h - what the harness offers a backend: counted memory and a log line. */
#ifndef ATTN_WORKER_SERVICES_H
#define ATTN_WORKER_SERVICES_H

#include <stdatomic.h>

#include "attnbench/backend.h"
#include "host/worker.h"

struct attn_service_state {
    _Atomic uint64_t live; /* bytes allocated and not freed yet */
    char option_text[1024];
    struct attn_option options[ATTN_OPTIONS_MAX];
};

/* Fills a services structure whose context is `state`. The caller adds the options. */
void attn_services_init(struct attn_services *services, struct attn_service_state *state,
                        uint32_t threads);

#endif
