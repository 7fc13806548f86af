/* SPDX-License-Identifier: Apache-2.0 */
/* racy.c - right answers, and a counter to which two threads add without any order. */
#include <pthread.h>

#include "base.h"

static int runs;

static void *count(void *unused)
{
    runs++;
    return unused;
}

static int run(void *binding, char *why, size_t size)
{
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, count, NULL);
    runs++;
    if (error == 0)
        pthread_join(thread, NULL);
    return base_run(binding, why, size);
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
