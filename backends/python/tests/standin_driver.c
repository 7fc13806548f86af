/* SPDX-License-Identifier: Apache-2.0 */
/* standin_driver.c - a libcuda.so.1 for tests: the part of a driver that adapters on a device need,
 * and a device whose memory the host cannot touch.
 *
 * What cuMemAlloc gives out lies in pages without access; the bytes are in a shadow, which only
 * standin.py looks up. Work is done when somebody waits for it, and no sooner: on one queue for all
 * streams that the default stream waits for, and on another that is apart. ATTN_STANDIN names a
 * mistake:
 *   no_device   there is a driver, but no GPU
 *   no_copy_in  copies to the device do not arrive
 *   stale       nor do those to a place that has been copied to before
 *   no_copy_out copies to the host do not arrive
 *   no_wait     waiting returns at once, and events say a millisecond
 *   fast_clock  events say a tenth of what passed */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define ARENA  ((size_t)1 << 30)
#define ALIGN  ((size_t)256)

enum { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2, NO_IMAGE = 200, NOT_READY = 600, FAILED = 719 };
enum { L2_CACHE_SIZE = 38 };
enum { BLOCKS = 4096, WORKS = 65536 };

static unsigned char *shadow;
static uintptr_t window; /* of addresses on the device */
static struct block {
    size_t at, bytes;
} blocks[BLOCKS]; /* in the order of addresses */
static size_t n_blocks, held, most;

struct event {
    int recorded;
    double ms;
};

/* Work of standin.py by its number, or an event that is recorded. */
static struct work {
    int (*call)(long);
    long number;
    struct event *event;
} works[2][WORKS];
static size_t n_works[2];
static int failed;

static int mistake(const char *name)
{
    const char *set = getenv("ATTN_STANDIN");
    return set && strcmp(set, name) == 0;
}

static int run_queue(int apart)
{
    for (size_t w = 0; w < n_works[apart]; w++) {
        const struct work *work = &works[apart][w];
        struct timespec now;
        if (work->call && work->call(work->number) != 0)
            failed = FAILED;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (work->event)
            *work->event = (struct event){1, 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec};
    }
    n_works[apart] = 0;
    return failed;
}

static int add_work(int apart, struct work work)
{
    if (n_works[apart] == WORKS)
        return OUT_OF_MEMORY;
    works[apart][n_works[apart]++] = work;
    return SUCCESS;
}

static struct block *block_of(uint64_t place, size_t bytes)
{
    for (size_t b = 0; b < n_blocks; b++)
        if (place >= window + blocks[b].at &&
            place + bytes <= window + blocks[b].at + blocks[b].bytes)
            return &blocks[b];
    return NULL;
}

/* --- for standin.py --- */

EXPORT void *standin_shadow(uint64_t place, size_t bytes);
EXPORT void *standin_shadow(uint64_t place, size_t bytes)
{
    return block_of(place, bytes) ? shadow + (place - window) : NULL;
}

EXPORT int standin_launch(int (*call)(long), long number, int apart);
EXPORT int standin_launch(int (*call)(long), long number, int apart)
{
    return add_work(apart, (struct work){.call = call, .number = number});
}

/* --- the driver --- */

EXPORT int cuInit(unsigned);
EXPORT int cuInit(unsigned flags)
{
    if (shadow)
        return SUCCESS;
    void *bytes = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *addresses = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (flags || bytes == MAP_FAILED || addresses == MAP_FAILED)
        return INVALID;
    shadow = bytes;
    window = (uintptr_t)addresses;
    return SUCCESS;
}

EXPORT int cuDriverGetVersion(int *);
EXPORT int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return SUCCESS;
}

EXPORT int cuGetErrorString(int, const char **);
EXPORT int cuGetErrorString(int status, const char **text)
{
    *text = status == FAILED ? "unspecified launch failure" : "an error of the stand-in";
    return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *);
EXPORT int cuDeviceGetCount(int *count)
{
    *count = !mistake("no_device");
    return SUCCESS;
}

EXPORT int cuDeviceGet(int *, int);
EXPORT int cuDeviceGet(int *device, int index)
{
    *device = index;
    return SUCCESS;
}

EXPORT int cuDeviceGetName(char *, int, int);
EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    (void)device;
    snprintf(name, (size_t)size, "stand-in");
    return SUCCESS;
}

/* Little cache, so that small operands exceed it. */
EXPORT int cuDeviceGetAttribute(int *, int, int);
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == L2_CACHE_SIZE ? 64 << 10 : 9;
    return SUCCESS;
}

EXPORT int cuDeviceGetPCIBusId(char *, int, int);
EXPORT int cuDeviceGetPCIBusId(char *text, int size, int device)
{
    (void)device;
    snprintf(text, (size_t)size, "0000:00:00.0");
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRetain(void **, int);
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    *context = blocks;
    return SUCCESS;
}

EXPORT int cuCtxSetCurrent(void *);
EXPORT int cuCtxSetCurrent(void *context)
{
    return context == blocks ? SUCCESS : INVALID;
}

EXPORT int cuCtxSynchronize(void);
EXPORT int cuCtxSynchronize(void)
{
    if (mistake("no_wait"))
        return SUCCESS;
    return run_queue(0) ? failed : run_queue(1);
}

EXPORT int cuModuleLoadData(void **, const void *);
EXPORT int cuModuleLoadData(void **module, const void *image)
{
    (void)module, (void)image;
    return NO_IMAGE;
}

#define REFUSES(name)                                                                              \
    EXPORT int name(void);                                                                         \
    EXPORT int name(void)                                                                          \
    {                                                                                              \
        return INVALID;                                                                            \
    }
REFUSES(cuModuleGetFunction)
REFUSES(cuFuncSetAttribute)
REFUSES(cuLaunchKernel)

EXPORT int cuMemAlloc_v2(uint64_t *, size_t);
EXPORT int cuMemAlloc_v2(uint64_t *place, size_t bytes)
{
    size_t at = 0, b = 0;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    for (; b < n_blocks && blocks[b].at < at + bytes; b++)
        at = blocks[b].at + blocks[b].bytes;
    if (n_blocks == BLOCKS || bytes > ARENA - at)
        return OUT_OF_MEMORY;
    memmove(&blocks[b + 1], &blocks[b], (n_blocks - b) * sizeof(*blocks));
    blocks[b] = (struct block){at, bytes};
    n_blocks++;
    if (!mistake("stale"))
        memset(shadow + at, 0xff, bytes); /* NaN in every type */
    held += bytes;
    most = held > most ? held : most;
    *place = window + at;
    return SUCCESS;
}

EXPORT int cuMemGetAddressRange_v2(uint64_t *, size_t *, uint64_t);
EXPORT int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t place)
{
    const struct block *block = block_of(place, 1);
    if (!block)
        return INVALID;
    *base = window + block->at;
    *bytes = block->bytes;
    return SUCCESS;
}

/* Waits for everything, as a driver does. */
EXPORT int cuMemFree_v2(uint64_t);
EXPORT int cuMemFree_v2(uint64_t place)
{
    run_queue(0);
    run_queue(1);
    struct block *block = block_of(place, 1);
    if (!block || window + block->at != place)
        return INVALID;
    held -= block->bytes;
    n_blocks--;
    memmove(block, block + 1, (n_blocks - (size_t)(block - blocks)) * sizeof(*block));
    return SUCCESS;
}

EXPORT int cuMemGetInfo_v2(size_t *, size_t *);
EXPORT int cuMemGetInfo_v2(size_t *left, size_t *all)
{
    *all = ARENA;
    *left = ARENA - most;
    return SUCCESS;
}

EXPORT int cuMemcpyHtoD_v2(uint64_t, const void *, size_t);
EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    static unsigned char copied[ARENA / ALIGN];
    if (!block_of(to, bytes))
        return INVALID;
    unsigned char *before = &copied[(to - window) / ALIGN];
    if (mistake("no_copy_in") || (mistake("stale") && *before))
        return SUCCESS;
    *before = 1;
    run_queue(0);
    memcpy(shadow + (to - window), from, bytes);
    return SUCCESS;
}

EXPORT int cuMemcpyDtoH_v2(void *, uint64_t, size_t);
EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    if (!block_of(from, bytes))
        return INVALID;
    if (!mistake("no_wait"))
        run_queue(0);
    if (!mistake("no_copy_out"))
        memcpy(to, shadow + (from - window), bytes);
    return SUCCESS;
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t, uint64_t, size_t, void *);
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    (void)stream;
    if (!block_of(to, bytes) || !block_of(from, bytes))
        return INVALID;
    memcpy(shadow + (to - window), shadow + (from - window), bytes);
    return SUCCESS;
}

EXPORT int cuStreamCreate(void **, unsigned);
EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
    *stream = &n_works;
    return flags == 0 ? SUCCESS : INVALID;
}

EXPORT int cuStreamDestroy_v2(void *);
EXPORT int cuStreamDestroy_v2(void *stream)
{
    return stream == &n_works ? run_queue(0) : INVALID;
}

EXPORT int cuStreamSynchronize(void *);
EXPORT int cuStreamSynchronize(void *stream)
{
    (void)stream;
    return mistake("no_wait") ? SUCCESS : run_queue(0);
}

EXPORT int cuEventCreate(void **, unsigned);
EXPORT int cuEventCreate(void **event, unsigned flags)
{
    *event = calloc(1, sizeof(struct event));
    return flags ? INVALID : *event ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int cuEventDestroy_v2(void *);
EXPORT int cuEventDestroy_v2(void *event)
{
    run_queue(0);
    free(event);
    return SUCCESS;
}

EXPORT int cuEventRecord(void *, void *);
EXPORT int cuEventRecord(void *event, void *stream)
{
    (void)stream;
    return add_work(0, (struct work){.event = event});
}

EXPORT int cuEventElapsedTime(float *, void *, void *);
EXPORT int cuEventElapsedTime(float *ms, void *first, void *last)
{
    const struct event *begin = first, *end = last;
    if (mistake("no_wait")) {
        *ms = 1;
        return SUCCESS;
    }
    *ms = (float)((end->ms - begin->ms) / (mistake("fast_clock") ? 10 : 1));
    return begin->recorded && end->recorded ? SUCCESS : NOT_READY;
}
