/* SPDX-License-Identifier: Apache-2.0 */
/* team.c - pinned threads behind a gate. */
#include "worker/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "host/protocol.h"

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t opened;
    uint32_t waiting;
    bool open, cancelled;
};

struct member {
    struct gate *gate;
    uint32_t index, processor, n;
    void (*body)(void *context, uint32_t i);
    void *context;
};

/* The last to arrive opens it. Returns whether the work is to be done. */
static bool pass(struct gate *gate, uint32_t n)
{
    pthread_mutex_lock(&gate->mutex);
    if (++gate->waiting == n) {
        gate->open = true;
        pthread_cond_broadcast(&gate->opened);
    }
    while (!gate->open)
        pthread_cond_wait(&gate->opened, &gate->mutex);
    const bool go = !gate->cancelled;
    pthread_mutex_unlock(&gate->mutex);
    return go;
}

static void cancel(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->open = gate->cancelled = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->mutex);
}

static void *member_main(void *argument)
{
    const struct member *member = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(member->processor, &set);
    sched_setaffinity(0, sizeof(set), &set);
    if (pass(member->gate, member->n))
        member->body(member->context, member->index);
    return NULL;
}

int attn_team_run(uint32_t n, const uint32_t *processors, void (*body)(void *context, uint32_t i),
                  void *context)
{
    static pthread_t threads[ATTN_PROCESSORS_MAX];
    static struct member members[ATTN_PROCESSORS_MAX];
    struct gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};
    uint32_t started = 0;

    for (; started < n; started++) {
        members[started] = (struct member){.gate = &gate,
                                           .index = started,
                                           .processor = processors[started],
                                           .n = n,
                                           .body = body,
                                           .context = context};
        if (pthread_create(&threads[started], NULL, member_main, &members[started]) != 0)
            break;
    }
    if (started < n)
        cancel(&gate);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return started == n ? 0 : -1;
}
