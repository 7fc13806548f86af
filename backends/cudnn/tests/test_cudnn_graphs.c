/* SPDX-License-Identifier: Apache-2.0 */
/* test_cudnn_graphs.c - cuDNN offers engines for what this backend takes, on devices that are only
 * described to it: the graphs are built as on a GPU, and kernels are compiled, but not run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../engine.h"
#include "../graph.h"
#include "../library.h"
#include "../ready.h"
#include "../supports.h"
#include "specs.h"

/* What cuDNN writes of a device, with the figures of its data sheet. */
#define DEVICE(name, capability, processors, l2, shared)                                           \
    "{\"cudaDeviceId\":0,\"deviceVer\":" capability ",\"driverVer\":13000,\"deviceName\":\"" name  \
    "\",\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"                 \
    "\"regsPerBlock\":65536,\"multiProcessorCount\":" processors ",\"smClockRateKHz\":1410000,"    \
    "\"memClockRateKHz\":1593000,\"l2CacheSize\":" l2 ",\"warpSize\":32,"                          \
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":" shared ","               \
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"       \
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"    \
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":85014937600}"
static const char *const described[] = {
    DEVICE("A100", "800", "108", "41943040", "166912"),
    DEVICE("H100", "900", "132", "52428800", "232448"),
};
#define DEVICES (sizeof described / sizeof *described)
static const char turing[] = DEVICE("T4", "750", "40", "4194304", "65536");

static void *device_of(const char *json)
{
    char why[512] = "";
    void *device = NULL;
    if (attn_cudnn_open(why, sizeof why) != ATTN_OK ||
        attn_cudnn_device(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                          (int64_t)strlen(json), json, &device, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
    return device;
}

/* The builder only asserts it, which a release does not. */
static void fits(const struct attn_cudnn_graph *graph)
{
    assert_in_range(graph->n_owned, 1, ATTN_CUDNN_DESCRIPTORS);
    assert_in_range(graph->n_operations, 1, ATTN_CUDNN_OPERATIONS);
    assert_in_range(graph->n_scalars, 1, ATTN_CUDNN_SCALARS);
}

static int offered(const struct test_spec *spec, void *device, int plan, char *why, size_t size)
{
    struct test_problem made;
    struct attn_cudnn_graph *graph = NULL;
    make(spec, &made);
    int status = attn_cudnn_supports(&made.problem, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_graph_create(&made.problem, device, &graph, why, size);
    if (status == ATTN_OK)
        fits(graph);
    if (status == ATTN_OK && plan)
        status = attn_cudnn_graph_plan(graph, why, size);
    if (status == ATTN_OK && plan)
        attn_cudnn_graph_describe(graph, why, size);
    if (graph)
        attn_cudnn_graph_destroy(graph);
    test_problem_free(&made);
    return status;
}

static void engines_are_offered(void **state)
{
    (void)state;
    size_t refused = 0;
    for (size_t d = 0; d < DEVICES; d++) {
        void *device = device_of(described[d]);
        for (size_t s = 0; s < sizeof taken / sizeof *taken; s++) {
            char why[512] = "";
            if (offered(&taken[s], device, 0, why, sizeof why) != ATTN_OK) {
                print_error("device %zu, %s: %s\n", d, taken[s].name, why);
                refused++;
            }
        }
        attn_cudnn.DestroyDescriptor(device);
    }
    assert_int_equal(refused, 0);
}

/* Each on another device. */
static void kernels_are_compiled(void **state)
{
    (void)state;
    static const struct test_spec specs[] = {
        {.name = "causal",
         .sq = 512,
         .sk = 512,
         .dq = 128,
         .dtype = ATTN_BF16,
         .flags = ATTN_FLAG_CAUSAL,
         .with = WITH_LSE},
        {.name = "everything",
         .left = 16,
         .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW,
         .with = WITH_LEN | WITH_BIAS | WITH_ALIBI | WITH_SINK | WITH_LSE},
        {GRADIENTS("gradients, everything"), .left = 16,
         .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW, .with = WITH_LEN | WITH_BIAS | WITH_ALIBI},
        {GRADIENTS("gradients, d 192, 128"), .dq = 192, .dv = 128, .dtype = ATTN_BF16},
    };
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        char why[512] = "";
        void *device = device_of(described[s % DEVICES]);
        if (offered(&specs[s], device, 1, why, sizeof why) != ATTN_OK)
            fail_msg("%s: %s", specs[s].name, why);
        assert_non_null(strstr(why, "engine "));
        print_message("%s: %s\n", specs[s].name, why);
        attn_cudnn.DestroyDescriptor(device);
    }
}

/* The kept graph serves the same problem only, and one plan at a time. */
static void a_planned_graph_is_kept(void **state)
{
    (void)state;
    static struct attn_cudnn_key keys[2];
    struct attn_cudnn_graph *graphs[4] = {NULL};
    struct test_problem made[2];
    char why[512] = "";
    void *device = device_of(described[0]);
    for (int p = 0; p < 2; p++)
        make(&taken[p], &made[p]);
    for (int g = 0; g < 4; g++) {
        const int p = g == 3;
        if (attn_cudnn_ready_take(&made[p].problem, device, &keys[p], &graphs[g], why,
                                  sizeof why) != ATTN_OK)
            fail_msg("%s", why);
        if (g == 0 || g == 2) /* the second is taken while the first is in use elsewhere */
            attn_cudnn_ready_give(&keys[0], graphs[g]);
    }
    assert_ptr_equal(graphs[1], graphs[0]);
    assert_ptr_not_equal(graphs[2], graphs[1]);
    assert_ptr_not_equal(graphs[3], graphs[2]);
    attn_cudnn_graph_destroy(graphs[1]);
    attn_cudnn_graph_destroy(graphs[3]);
    for (int p = 0; p < 2; p++)
        test_problem_free(&made[p]);
    attn_cudnn.DestroyDescriptor(device);
}

static void is_refused(const struct test_spec *spec, const char *json)
{
    char why[512] = "";
    void *device = device_of(json);
    assert_int_equal(offered(spec, device, 0, why, sizeof why), ATTN_UNSUPPORTED);
    assert_true(strlen(why) > 0);
    assert_null(strchr(why, '\n'));
    attn_cudnn.DestroyDescriptor(device);
}

/* cuDNN is asked: a device that has no such kernels is refused, in a sentence. */
static void other_devices_are_refused(void **state)
{
    (void)state;
    static const struct test_spec gradients = {GRADIENTS("gradients")},
                                  wide = {GRADIENTS("wide gradients"), .dq = 256};
    is_refused(&taken[0], turing);
    is_refused(&gradients, turing);
    is_refused(&wide, described[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_are_offered),
        cmocka_unit_test(kernels_are_compiled),
        cmocka_unit_test(a_planned_graph_is_kept),
        cmocka_unit_test(other_devices_are_refused),
    };
    return cmocka_run_group_tests_name("cudnn_graphs", tests, NULL, NULL);
}
