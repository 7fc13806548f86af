/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - see pool.h
 *
 * Each run is a new value of `round`. A waiting thread looks at it for a while before it sleeps.
 * Sleepers are counted, so no thread takes the lock while none sleeps. A thread that goes to sleep
 * raises `asleep` and then looks at the condition once more. A thread that changes the condition
 * then looks at `asleep`. All of this is sequentially consistent, so one of the two sees the other.
 */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __x86_64__
#define RELAX() __builtin_ia32_pause()
#else
#define RELAX() ((void)0)
#endif

/* Looks before sleeping, 20 to 60 us by processor. That is longer than from one run to the next, or
 * from the projections to attention, and too short to disturb what is timed next. */
#define LOOKS 1500

struct member {
    struct attn_pool *pool;
    pthread_t thread;
    int index;
};

/* A condition variable that costs nothing while no thread sleeps. */
struct bell {
    pthread_cond_t rung;
    atomic_int asleep;
};

struct attn_pool {
    const struct attn_services *services;
    pthread_mutex_t lock;
    struct bell wake, done;
    atomic_uint round; /* raised for each run: a member works once per round */
    atomic_int busy;   /* members still at work */
    atomic_bool stop;
    int threads, started;
    void (*work)(void *context, int thread);
    void *context;
    struct member members[];
};

static void ring(struct attn_pool *pool, struct bell *bell)
{
    if (!atomic_load(&bell->asleep))
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&bell->rung);
    pthread_mutex_unlock(&pool->lock);
}

/* Returns when ready(pool, seen) is true. */
static void await(struct attn_pool *pool, struct bell *bell,
                  bool (*ready)(struct attn_pool *pool, unsigned seen), unsigned seen)
{
    for (int n = 0; n < LOOKS; n++) {
        if (ready(pool, seen))
            return;
        if (n % 32 == 31)
            sched_yield(); /* both threads may share a processor */
        RELAX();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&bell->asleep, 1);
    while (!ready(pool, seen))
        pthread_cond_wait(&bell->rung, &pool->lock);
    atomic_fetch_sub(&bell->asleep, 1);
    pthread_mutex_unlock(&pool->lock);
}

static bool called(struct attn_pool *pool, unsigned seen)
{
    return atomic_load(&pool->round) != seen || atomic_load(&pool->stop);
}

static bool finished(struct attn_pool *pool, unsigned seen)
{
    (void)seen;
    return atomic_load(&pool->busy) == 0;
}

static void *member_main(void *argument)
{
    struct member *self = argument;
    struct attn_pool *pool = self->pool;
    for (unsigned seen = 0;; seen++) {
        await(pool, &pool->wake, called, seen);
        if (atomic_load(&pool->stop))
            return NULL;
        pool->work(pool->context, self->index);
        if (atomic_fetch_sub(&pool->busy, 1) == 1)
            ring(pool, &pool->done);
    }
}

int attn_pool_create(const struct attn_services *services, int threads, struct attn_pool **pool,
                     char *why, size_t size)
{
    size_t bytes = sizeof(struct attn_pool) + (size_t)threads * sizeof(struct member);
    struct attn_pool *made = services->alloc(services->context, bytes, 64);
    if (!made) {
        snprintf(why, size, "no memory for a pool of %d threads", threads);
        return ATTN_OUT_OF_MEMORY;
    }
    memset(made, 0, bytes);
    made->services = services;
    made->threads = threads;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->wake.rung, NULL);
    pthread_cond_init(&made->done.rung, NULL);
    for (int t = 1; t < threads; t++) {
        made->members[t] = (struct member){.pool = made, .index = t};
        int error = pthread_create(&made->members[t].thread, NULL, member_main, &made->members[t]);
        if (error) {
            snprintf(why, size, "thread %d of %d could not be started: %s", t, threads,
                     strerror(error));
            attn_pool_destroy(made);
            return ATTN_FAILED;
        }
        made->started = t;
    }
    *pool = made;
    return ATTN_OK;
}

void attn_pool_run(struct attn_pool *pool, void (*work)(void *context, int thread), void *context)
{
    if (pool->threads > 1) {
        pool->work = work;
        pool->context = context;
        atomic_store(&pool->busy, pool->threads - 1);
        atomic_fetch_add(&pool->round, 1);
        ring(pool, &pool->wake);
    }
    work(context, 0);
    if (pool->threads > 1)
        await(pool, &pool->done, finished, 0);
}

void attn_pool_destroy(struct attn_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    ring(pool, &pool->wake);
    for (int t = 1; t <= pool->started; t++)
        pthread_join(pool->members[t].thread, NULL);
    pthread_cond_destroy(&pool->done.rung);
    pthread_cond_destroy(&pool->wake.rung);
    pthread_mutex_destroy(&pool->lock);
    pool->services->free(pool->services->context, pool);
}
