/* SPDX-License-Identifier: Apache-2.0 */
/* unrest.h - a thread that keeps a processor busy now and then. It shows what depends on the load.
 */
#ifndef ATTN_UNREST_H
#define ATTN_UNREST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct attn_unrest {
    pthread_t thread;
    bool running;
    atomic_bool stop;
};

/* If no thread can be started, nothing happens. */
void attn_unrest_begin(struct attn_unrest *unrest);
void attn_unrest_end(struct attn_unrest *unrest);

#endif
