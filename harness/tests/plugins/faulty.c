/* SPDX-License-Identifier: Apache-2.0 */
/* faulty.c - right answers, and a fault of one kind in one place, as options of the environment
 * say: ATTN_TEST_FAULT=KIND:PLACE[:ARGUMENT]. Prints "reached KIND" before what is to be prevented,
 * and "done KIND" after it has not been. */
#include "faulty/faults.h"

#include <string.h>
#include <unistd.h>

char fault_kind[32], fault_argument[512];
const struct base_binding *fault_bound;
static char place[32];

void fault_done(int yes)
{
    if (yes)
        printf("done %s\n", fault_kind);
    fflush(stdout);
}

void fault_pause(void)
{
    for (;;)
        pause();
}

/* The fault, if this is its place. */
static void at(const char *here)
{
    static const struct fault *const all[] = {faults_of_ends, faults_of_memory, faults_of_messages,
                                              faults_of_state, faults_of_processes};
    if (strcmp(here, place) != 0)
        return;
    for (size_t t = 0; t < sizeof(all) / sizeof(all[0]); t++)
        for (const struct fault *f = all[t]; f->name; f++)
            if (strcmp(f->name, fault_kind) == 0) {
                printf("reached %s\n", fault_kind);
                fflush(stdout);
                f->commit();
            }
}

__attribute__((constructor)) static void construct(void)
{
    const char *wish = getenv("ATTN_TEST_FAULT");
    if (wish)
        sscanf(wish, "%31[^:]:%31[^:]:%511s", fault_kind, place, fault_argument);
    at("constructor");
}

static int init(const struct attn_services *services, char *why, size_t size)
{
    (void)services, (void)why, (void)size;
    at("init");
    return ATTN_OK;
}

static int probe(const struct attn_services *services, char *why, size_t size)
{
    (void)services, (void)why, (void)size;
    at("probe");
    return ATTN_OK;
}

static void version(char *text, size_t size)
{
    at("version");
    snprintf(text, size, "1");
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    const int result = base_supports(problem, services, why, size);
    if (result == ATTN_OK)
        at("supports");
    return result;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    at("create");
    return base_create(problem, services, plan, why, size);
}

static void numerics(const void *plan, struct attn_numerics *out)
{
    at("numerics");
    base_numerics(plan, out);
}

static void describe(const void *plan, char *text, size_t size)
{
    (void)plan;
    at("describe");
    snprintf(text, size, "plain");
}

static uint64_t workspace_bytes(const void *plan)
{
    (void)plan;
    at("workspace");
    return 0;
}

static int bind_tensors(void *plan, const struct attn_tensor *tensors, uint32_t n, void **binding,
                        char *why, size_t size)
{
    at("bind");
    const int result = base_bind(plan, tensors, n, binding, why, size);
    fault_bound = *binding;
    return result;
}

static int run(void *binding, char *why, size_t size)
{
    at("run");
    return base_run(binding, why, size);
}

static int fetch(void *binding, char *why, size_t size)
{
    (void)binding, (void)why, (void)size;
    at("fetch");
    return ATTN_OK;
}

static void release(void *binding)
{
    at("release");
    base_release(binding);
}

static void destroy(void *plan)
{
    at("destroy");
    base_destroy(plan);
}

static const struct attn_backend backend = {
    .struct_size = offsetof(struct attn_backend, device),
    .name = "faulty",
    .description = "a fault of one kind in one place",
    .probe = probe,
    .version = version,
    .supports = supports,
    .create = create,
    .numerics = numerics,
    .describe = describe,
    .workspace_bytes = workspace_bytes,
    .bind = bind_tensors,
    .run = run,
    .fetch = fetch,
    .release = release,
    .destroy = destroy,
};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table), .init = init};
