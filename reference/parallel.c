/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.c - a loop over threads: each takes the next chunk until none is left. */
#include "reference/parallel.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

/* More threads than this never pay for one loop; it bounds the array on the stack. */
#define MAX_THREADS 256

struct loop {
    void (*body)(void *context, int64_t begin, int64_t end);
    void *context;
    int64_t count, grain, chunks;
    _Atomic int64_t next; /* first chunk that nobody has taken */
};

static void *take_chunks(void *argument)
{
    struct loop *loop = argument;
    for (;;) {
        const int64_t chunk = atomic_fetch_add(&loop->next, 1);
        if (chunk >= loop->chunks)
            return NULL;
        const int64_t begin = chunk * loop->grain;
        const int64_t left = loop->count - begin;
        loop->body(loop->context, begin, begin + (left < loop->grain ? left : loop->grain));
    }
}

void attn_parallel_for(int threads, int64_t count, int64_t grain,
                       void (*body)(void *context, int64_t begin, int64_t end), void *context)
{
    assert(grain > 0);
    if (count <= 0)
        return;
    struct loop loop = {.body = body, .context = context, .count = count, .grain = grain};
    loop.chunks = (count - 1) / grain + 1;
    atomic_init(&loop.next, 0);

    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    if (threads > loop.chunks)
        threads = (int)loop.chunks;
    pthread_t helpers[MAX_THREADS];
    int started = 0;
    while (started < threads - 1 &&
           pthread_create(&helpers[started], NULL, take_chunks, &loop) == 0)
        started++;
    take_chunks(&loop);
    for (int t = 0; t < started; t++)
        pthread_join(helpers[t], NULL);
}
