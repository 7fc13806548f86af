/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - see pool.h */
#include "pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct member {
    struct attn_pool *pool;
    pthread_t thread;
    int index;
};

struct attn_pool {
    const struct attn_services *services;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    uint64_t round; /* raised for each run: a member works once a round */
    int threads, started, busy;
    bool stop;
    void (*work)(void *context, int thread);
    void *context;
    struct member members[];
};

static void *member_main(void *argument)
{
    struct member *self = argument;
    struct attn_pool *pool = self->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->stop && pool->round == seen)
            pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->stop)
            break;
        seen = pool->round;
        pthread_mutex_unlock(&pool->lock);
        pool->work(pool->context, self->index);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
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
    pthread_cond_init(&made->wake, NULL);
    pthread_cond_init(&made->done, NULL);
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
    if (pool->threads == 1) {
        work(context, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->work = work;
    pool->context = context;
    pool->busy = pool->threads - 1;
    pool->round++;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    work(context, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void attn_pool_destroy(struct attn_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int t = 1; t <= pool->started; t++)
        pthread_join(pool->members[t].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    pool->services->free(pool->services->context, pool);
}
