/* SPDX-License-Identifier: Apache-2.0 */
/* emulated_driver.cpp - a CUDA driver for tests, over the emulation: the part of libcuda.so.1 that
 * driver.c calls, and the part of the management library that nvml.c calls. It has one GPU for each
 * planted bug, in the order of EMULATED_PLANTS. GPU 0 has no bug. It refuses what a driver would
 * refuse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>

#include "../backward_pairs.h"
#include "../backward_tile.h"
#include "../flash_hopper.h"
#include "../flash_pairs.h"
#include "../flash_tile.h"
#include "../instances.h"
#include "../steps_kernels.h"

#define TILE(type, width, kind, tiles, warps, keys, masked)                                        \
    static void flash_##type##_##width##_##kind(const void *args)                                  \
    {                                                                                              \
        flash_tile<type, width, tiles, warps, keys, masked>::run(*(const attn_cuda_args *)args);   \
    }
#define ENTRY(type, width, kind)                                                                   \
    {"flash_" #type "_" #width "_" #kind, flash_##type##_##width##_##kind, 0},
#define TILE_F16(width, kind, ...)   TILE(f16, width, kind, __VA_ARGS__)
#define TILE_BF16(width, kind, ...)  TILE(bf16, width, kind, __VA_ARGS__)
#define ENTRY_F16(width, kind, ...)  ENTRY(f16, width, kind)
#define ENTRY_BF16(width, kind, ...) ENTRY(bf16, width, kind)

#define BACKWARD(type, width, step)                                                                \
    static void backward_##type##_##width##_queries(const void *args)                              \
    {                                                                                              \
        backward_tile<type, width, step, false>::run(*(const attn_cuda_args *)args);               \
    }                                                                                              \
    static void backward_##type##_##width##_keys(const void *args)                                 \
    {                                                                                              \
        backward_tile<type, width, step, true>::run(*(const attn_cuda_args *)args);                \
    }
#define BACKWARD_ENTRY(type, width)                                                                \
    {"backward_" #type "_" #width "_queries", backward_##type##_##width##_queries, 0},             \
        {"backward_" #type "_" #width "_keys", backward_##type##_##width##_keys, 0},
#define BACKWARD_F16(width, step)        BACKWARD(f16, width, step)
#define BACKWARD_BF16(width, step)       BACKWARD(bf16, width, step)
#define BACKWARD_ENTRY_F16(width, step)  BACKWARD_ENTRY(f16, width)
#define BACKWARD_ENTRY_BF16(width, step) BACKWARD_ENTRY(bf16, width)

#define HOPPER(type, width, groups, keys, stages)                                                  \
    static void flash_##type##_##width##_hopper(const void *args)                                  \
    {                                                                                              \
        flash_hopper<type, width, groups, keys, stages>::run(                                      \
            *(const attn_cuda_hopper_args *)args);                                                 \
    }
#define HOPPER_ENTRY(type, width, groups, keys, stages) ENTRY(type, width, hopper)

namespace
{

ATTN_CUDA_HOPPER_TILES(f16, HOPPER)
ATTN_CUDA_HOPPER_TILES(bf16, HOPPER)
ATTN_CUDA_TILES(TILE_F16)
ATTN_CUDA_TILES(TILE_BF16)
ATTN_CUDA_BACKWARD_TILES(BACKWARD_F16)
ATTN_CUDA_BACKWARD_TILES(BACKWARD_BF16)

template <class T> void rows(const void *args)
{
    flash_rows<T, ATTN_CUDA_ROW_WARPS>(*(const attn_cuda_args *)args);
}

template <class T> void merge(const void *args)
{
    merge_rows<T, ATTN_CUDA_ROW_WARPS>(*(const attn_cuda_args *)args);
}

void nothing(const void *)
{
}

template <class T> void softmax(const void *args)
{
    softmax_row<T>(*(const attn_cuda_softmax *)args);
}

template <class T> void repair(const void *args)
{
    repair_rows<T, ATTN_CUDA_ROW_WARPS>(*(const attn_cuda_args *)args);
}

template <class T> void lay(const void *args)
{
    lay_row<T>(*(const attn_cuda_lay *)args);
}

template <class T> void project(const void *args)
{
    project_rows<T>(*(const attn_cuda_args *)args);
}

template <class T> void pairs(const void *args)
{
    flash_pairs<T>::run(*(const attn_cuda_args *)args);
}

template <class T> void delta(const void *args)
{
    delta_rows<T, ATTN_CUDA_ROW_WARPS>(*(const attn_cuda_args *)args);
}

template <class T> void backward_queries(const void *args)
{
    backward_pairs<T>::queries(*(const attn_cuda_args *)args);
}

template <class T> void backward_keys(const void *args)
{
    backward_pairs<T>::keys(*(const attn_cuda_args *)args);
}

template <class T> void bias(const void *args)
{
    backward_bias<T>::run(*(const attn_cuda_args *)args);
}

void total(const void *args)
{
    total_rows(*(const attn_cuda_args *)args);
}

#define NAMED(name, function) {name, function, 0},
#define NAMED_ALL(type, suffix)                                                                    \
    NAMED("flash_" #suffix "_rows", rows<type>)                                                    \
    NAMED("merge_" #suffix, merge<type>)                                                           \
    NAMED("softmax_" #suffix, softmax<type>)                                                       \
    NAMED("repair_" #suffix, repair<type>)                                                         \
    NAMED("lay_" #suffix, lay<type>)                                                               \
    NAMED("project_" #suffix, project<type>)                                                       \
    NAMED("flash_" #suffix "_pairs", pairs<type>)                                                  \
    NAMED("delta_" #suffix, delta<type>)                                                           \
    NAMED("backward_" #suffix "_queries", backward_queries<type>)                                  \
    NAMED("backward_" #suffix "_keys", backward_keys<type>)                                        \
    NAMED("backward_" #suffix "_bias", bias<type>)

struct entry {
    const char *name;
    emulated_kernel *function;
    unsigned shared_allowed;
} kernels[] = {ATTN_CUDA_HOPPER_TILES(f16, HOPPER_ENTRY) ATTN_CUDA_HOPPER_TILES(bf16, HOPPER_ENTRY)
                   ATTN_CUDA_TILES(ENTRY_F16) ATTN_CUDA_TILES(ENTRY_BF16)
                       ATTN_CUDA_BACKWARD_TILES(BACKWARD_ENTRY_F16)
                           ATTN_CUDA_BACKWARD_TILES(BACKWARD_ENTRY_BF16) NAMED_ALL(f16, f16)
                               NAMED_ALL(bf16, bf16) NAMED_ALL(float, f32) NAMED("total_f32", total)
                                   NAMED("launch_null", nothing)};

#define PLANT_NAME(name) #name,
const char *const plants[] = {EMULATED_PLANTS(PLANT_NAME)};

enum {
    SUCCESS = 0,
    INVALID = 1,
    OUT_OF_MEMORY = 2,
    UNSUPPORTED_PTX = 222,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719
};
enum { MULTIPROCESSORS = 16, L2_CACHE_SIZE = 38, MAJOR = 75, MINOR = 76, MAX_DYNAMIC_SHARED = 8 };
/* Shared memory of a block in bytes: without asking, and at most. The second is that of 8.6, 8.9
 * and 12.0, which have the least; the third that of 9.0. */
constexpr unsigned UNASKED_SHARED = 48 << 10, MOST_SHARED = 99 << 10, HOPPER_SHARED = 227 << 10;
size_t used_memory = (size_t)3 << 20; /* for the driver itself */

char violation[256] = "unspecified launch failure";
int context, module, stream;
/* The operations that were started before an event, and when it was recorded. 0 of them: not yet.
 */
struct event {
    unsigned started;
    double ms;
};
unsigned started = 1;
bool context_is_current;

/* The call that waits for a launch reports its error. */
int pending_status = SUCCESS;

} /* namespace */

#define EXPORT extern "C" __attribute__((visibility("default"))) int

EXPORT cuInit(unsigned flags)
{
    return flags == 0 ? SUCCESS : INVALID;
}

EXPORT cuDriverGetVersion(int *version)
{
    *version = 13000;
    return SUCCESS;
}

EXPORT cuGetErrorString(int status, const char **text)
{
    *text = status == OUT_OF_MEMORY ? "out of memory"
            : status == NOT_FOUND   ? "named symbol not found"
            : status == INVALID     ? "invalid argument"
            : status == UNSUPPORTED_PTX
                ? "the provided PTX was compiled with an unsupported toolchain."
                : violation;
    return SUCCESS;
}

EXPORT cuDeviceGetCount(int *count)
{
    *count = PLANTS;
    return SUCCESS;
}

EXPORT cuDeviceGet(int *device, int index)
{
    *device = index;
    return index >= 0 && index < PLANTS ? SUCCESS : INVALID;
}

EXPORT cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "emulation, bug %s", plants[device]);
    return SUCCESS;
}

/* Few multiprocessors, so that keys are split from few keys on. Little cache, so that small
 * operands exceed it. */
EXPORT cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const struct {
        int attribute, value;
    } known[] = {{MAJOR, device < plant_hopper ? 8 : 9},
                 {MINOR, 0},
                 {MULTIPROCESSORS, 2},
                 {L2_CACHE_SIZE, 64 << 10}};
    for (const auto &one : known)
        if (one.attribute == attribute) {
            *value = one.value;
            return SUCCESS;
        }
    return INVALID;
}

EXPORT cuDeviceGetPCIBusId(char *text, int size, int device)
{
    snprintf(text, (size_t)size, "0000:%02x:00.0", (unsigned)device);
    return SUCCESS;
}

EXPORT cuDevicePrimaryCtxRetain(void **made, int device)
{
    emulated_plant = device;
    *made = &context;
    return SUCCESS;
}

EXPORT cuCtxSetCurrent(void *wanted)
{
    context_is_current = wanted == &context;
    return context_is_current ? SUCCESS : INVALID;
}

EXPORT cuCtxSynchronize()
{
    return pending_status;
}

EXPORT cuModuleLoadData(void **made, const void *image)
{
    *made = &module;
    if (PLANTED(old_driver))
        return UNSUPPORTED_PTX;
    return context_is_current && image ? SUCCESS : INVALID;
}

EXPORT cuModuleGetFunction(void **function, void *from, const char *name)
{
    for (entry &known : kernels)
        if (from == &module && strcmp(known.name, name) == 0) {
            *function = &known;
            return SUCCESS;
        }
    return NOT_FOUND;
}

EXPORT cuFuncSetAttribute(void *function, int attribute, int value)
{
    ((entry *)function)->shared_allowed = (unsigned)value;
    const unsigned most = emulated_plant < plant_hopper ? MOST_SHARED : HOPPER_SHARED;
    return attribute == MAX_DYNAMIC_SHARED && (unsigned)value <= most ? SUCCESS : INVALID;
}

EXPORT cuMemAlloc_v2(uint64_t *place, size_t bytes)
{
    if (bytes == 0)
        return INVALID;
    *place = (uintptr_t)emulated_alloc(bytes);
    used_memory += *place ? bytes : 0;
    return *place ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t place)
{
    *base = place;
    *bytes = emulated_size((void *)place);
    return *bytes > 0 ? SUCCESS : INVALID;
}

EXPORT cuMemFree_v2(uint64_t place)
{
    used_memory -= emulated_size((void *)place);
    return emulated_free((void *)place) ? SUCCESS : INVALID;
}

EXPORT cuMemGetInfo_v2(size_t *left, size_t *all)
{
    *all = (size_t)16 << 30;
    *left = *all - used_memory;
    return SUCCESS;
}

EXPORT cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    if (!emulated_holds((void *)to, bytes))
        return INVALID;
    memcpy((void *)to, from, bytes);
    return SUCCESS;
}

EXPORT cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    if (!emulated_holds((void *)from, bytes))
        return INVALID;
    memcpy(to, (void *)from, bytes);
    return SUCCESS;
}

EXPORT cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *on)
{
    if (!emulated_holds((void *)to, bytes) || !emulated_holds((void *)from, bytes) || on != &stream)
        return INVALID;
    memcpy((void *)to, (void *)from, bytes);
    started++;
    return SUCCESS;
}

EXPORT cuStreamCreate(void **made, unsigned)
{
    *made = &stream;
    return SUCCESS;
}

EXPORT cuStreamDestroy_v2(void *old)
{
    return old == &stream ? SUCCESS : INVALID;
}

EXPORT cuStreamSynchronize(void *on)
{
    return on == &stream ? pending_status : INVALID;
}

EXPORT cuEventCreate(void **made, unsigned)
{
    *made = calloc(1, sizeof(event));
    return *made ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT cuEventDestroy_v2(void *old)
{
    free(old);
    return SUCCESS;
}

EXPORT cuEventRecord(void *which, void *on)
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *(event *)which = {started, 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec};
    return on == &stream ? SUCCESS : INVALID;
}

/* A millisecond for each launch and copy, or what the emulation took, if that was more: a clock
 * that says less than half of what passed is one that lies. It says nothing about the time of a
 * GPU. */
EXPORT cuEventElapsedTime(float *ms, void *first, void *last)
{
    const event begin = *(event *)first, end = *(event *)last;
    if (begin.started == 0 || end.started <= begin.started)
        return INVALID;
    *ms = (float)std::max<double>(end.started - begin.started, end.ms - begin.ms);
    return SUCCESS;
}

EXPORT cuTensorMapEncodeTiled(void *to, int type, uint32_t rank, void *data, const uint64_t *extent,
                              const uint64_t *stride, const uint32_t *box, const uint32_t *every,
                              int interleave, int swizzle, int promotion, int fill)
{
    emulated_map map = {(uintptr_t)data, {}, {2}, box[1], EMULATED_MAP};
    if ((type != 6 && type != 9) || rank != 4 || interleave != 0 || swizzle != 3 || promotion > 3 ||
        fill != 0 || (uintptr_t)to % 64 != 0 || (uintptr_t)data % 16 != 0)
        return INVALID;
    for (int axis = 0; axis < 4; axis++) {
        map.extent[axis] = extent[axis];
        map.stride[axis] = axis > 0 ? stride[axis - 1] : 2;
        if (extent[axis] < 1 || extent[axis] > UINT64_C(1) << 32 || every[axis] != 1 ||
            box[axis] < 1 || box[axis] > 256 ||
            (axis > 0 && (map.stride[axis] % 16 != 0 || map.stride[axis] >= UINT64_C(1) << 40)))
            return INVALID;
    }
    if (box[0] != 64 || box[2] != 1 || box[3] != 1)
        return INVALID;
    memcpy(to, &map, sizeof(map));
    return SUCCESS;
}

EXPORT cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads,
                      unsigned threads_y, unsigned threads_z, unsigned shared, void *on,
                      void **parameters, void **)
{
    const entry *kernel = (const entry *)function;
    if (x == 0 || y != 1 || z == 0 || z > 65535 || threads == 0 || threads > 1024 ||
        threads_y != 1 || threads_z != 1 ||
        shared > (kernel->shared_allowed ? kernel->shared_allowed : UNASKED_SHARED) ||
        on != &stream)
        return INVALID;
    const char *wrong =
        emulated_launch(kernel->function, parameters[0], (int)x, (int)z, (int)threads, shared);
    if (wrong) {
        snprintf(violation, sizeof(violation), "%s", wrong);
        pending_status = LAUNCH_FAILED;
    }
    started++;
    return SUCCESS;
}

/* ---- the management library: it knows the first GPU, which is hot and lacks power ---- */

EXPORT nvmlInit_v2(void)
{
    return SUCCESS;
}

extern "C" __attribute__((visibility("default"))) const char *nvmlErrorString(int status)
{
    return status == INVALID ? "Not Found" : "Success";
}

EXPORT nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **handle)
{
    *handle = &context;
    return strcmp(pci, "0000:00:00.0") == 0 ? SUCCESS : INVALID;
}

EXPORT nvmlDeviceGetClockInfo(void *, int type, unsigned *mhz)
{
    *mhz = type == 1 ? 1410 : 1593;
    return type == 1 || type == 2 ? SUCCESS : INVALID;
}

EXPORT nvmlDeviceGetTemperature(void *, int sensor, unsigned *celsius)
{
    *celsius = 81;
    return sensor == 0 ? SUCCESS : INVALID;
}

EXPORT nvmlDeviceGetPowerUsage(void *, unsigned *milliwatts)
{
    *milliwatts = 399500;
    return SUCCESS;
}

EXPORT nvmlDeviceGetCurrentClocksThrottleReasons(void *, unsigned long long *bits)
{
    *bits = 0x4 | 0x20;
    return SUCCESS;
}
