/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the table of backends, one for each adapter found when the plugin is loaded. */
#include <stdio.h>
#include <stdlib.h>

#include "python.h"

static struct attn_adapter adapters[ATTN_ADAPTERS_MAX];

struct slots {
    int (*probe)(const struct attn_services *, char *, size_t);
    void (*version)(char *, size_t);
    int (*supports)(const struct attn_problem *, const struct attn_services *, char *, size_t);
    int (*create)(const struct attn_problem *, const struct attn_services *, void **, char *,
                  size_t);
};

/* clang-format off */
#define SLOT 0
#include "slots_template.h"
#define SLOT 1
#include "slots_template.h"
#define SLOT 2
#include "slots_template.h"
#define SLOT 3
#include "slots_template.h"
#define SLOT 4
#include "slots_template.h"
#define SLOT 5
#include "slots_template.h"
#define SLOT 6
#include "slots_template.h"
#define SLOT 7
#include "slots_template.h"
#define SLOT 8
#include "slots_template.h"
#define SLOT 9
#include "slots_template.h"
#define SLOT 10
#include "slots_template.h"
#define SLOT 11
#include "slots_template.h"
#define SLOT 12
#include "slots_template.h"
#define SLOT 13
#include "slots_template.h"
#define SLOT 14
#include "slots_template.h"
#define SLOT 15
#include "slots_template.h"

static const struct slots *const slots[ATTN_ADAPTERS_MAX] = {
    &slots_0, &slots_1, &slots_2, &slots_3, &slots_4, &slots_5, &slots_6, &slots_7, &slots_8, &slots_9, &slots_10, &slots_11, &slots_12, &slots_13, &slots_14, &slots_15};
/* clang-format on */

/* Libraries read these when they are imported; OMP_NUM_THREADS the harness has set. */
static int init(const struct attn_services *services, char *why, size_t size)
{
    char threads[16];
    (void)why, (void)size;
    snprintf(threads, sizeof(threads), "%u", services->threads);
    setenv("OPENBLAS_NUM_THREADS", threads, 1);
    setenv("MKL_NUM_THREADS", threads, 1);
    return ATTN_OK;
}

static struct attn_backend backends[ATTN_ADAPTERS_MAX];
static const struct attn_backend *table[ATTN_ADAPTERS_MAX];

/* The symbol attn_plugin under a name of our own: const as the header declares it, it would lie in
 * memory that is read-only by the time the adapters have been listed. */
extern ATTN_EXPORT struct attn_plugin listed __asm__(ATTN_PLUGIN_SYMBOL);
struct attn_plugin listed = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .init = init,
    .backends = table,
};

static void put_on_device(struct attn_backend *backend)
{
    backend->bind = attn_python_device_bind;
    backend->run = attn_python_device_run;
    backend->enqueue = attn_python_device_enqueue;
    backend->wait = attn_python_device_wait;
    backend->time_device = attn_python_device_time;
    backend->fetch = attn_python_device_fetch;
    backend->release = attn_python_device_release;
    backend->device = attn_python_device_ask;
}

/* Runs within dlopen, before the loader looks at the table. */
__attribute__((constructor)) static void list_adapters(void)
{
    listed.n_backends = attn_adapters_find(adapters);
    for (uint32_t a = 0; a < listed.n_backends; a++) {
        backends[a] = (struct attn_backend){
            .struct_size = sizeof(struct attn_backend),
            .exactness = adapters[a].exactness,
            .name = adapters[a].name,
            .description = adapters[a].description,
            .version = slots[a]->version,
            .probe = slots[a]->probe,
            .supports = slots[a]->supports,
            .create = slots[a]->create,
            .numerics = attn_python_numerics,
            .bind = attn_python_bind,
            .run = attn_python_run,
            .release = attn_python_release,
            .describe = attn_python_describe,
            .destroy = attn_python_destroy,
            .options = adapters[a].options,
            .n_options = adapters[a].n_options,
        };
        if (attn_adapter_on_device(&adapters[a]))
            put_on_device(&backends[a]);
        table[a] = &backends[a];
    }
}
