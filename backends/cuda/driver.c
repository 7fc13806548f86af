/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - the device, through the CUDA driver (libcuda.so.1), opened at run time. Declared here
 * is what is used of its stable binary interface, under the names of cuda.h, so that nothing of
 * CUDA is linked or included. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

#ifndef DRIVER /* tests bring one of their own */
#define DRIVER "libcuda.so.1"
#endif
#ifndef LEAST_CAPABILITY /* 10 major + minor, of the kernels; libraries have their own */
#define LEAST_CAPABILITY 80
#endif

enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2 };
enum {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
};
enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
/* Of tensor maps. */
enum {
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
    CU_TENSOR_MAP_SWIZZLE_128B = 3,
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2,
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0
};
enum { CU_STREAM_DEFAULT = 0, CU_EVENT_DEFAULT = 0 };
/* Dynamic shared memory that every kernel may have without asking. */
#define SHARED_UNASKED (48 * 1024)

typedef int result;
typedef uint64_t device_pointer;

static struct {
    result (*Init)(unsigned);
    result (*DriverGetVersion)(int *);
    result (*GetErrorString)(result, const char **);
    result (*DeviceGetCount)(int *);
    result (*DeviceGet)(int *, int);
    result (*DeviceGetName)(char *, int, int);
    result (*DeviceGetAttribute)(int *, int, int);
    result (*DeviceGetPCIBusId)(char *, int, int);
    result (*DevicePrimaryCtxRetain)(void **, int);
    result (*CtxSetCurrent)(void *);
    result (*CtxSynchronize)(void);
    result (*ModuleLoadData)(void **, const void *);
    result (*ModuleGetFunction)(void **, void *, const char *);
    result (*FuncSetAttribute)(void *, int, int);
    result (*MemAlloc)(device_pointer *, size_t);
    result (*MemFree)(device_pointer);
    result (*MemGetAddressRange)(device_pointer *, size_t *, device_pointer);
    result (*MemGetInfo)(size_t *, size_t *);
    result (*MemcpyHtoD)(device_pointer, const void *, size_t);
    result (*MemcpyDtoH)(void *, device_pointer, size_t);
    result (*MemcpyDtoDAsync)(device_pointer, device_pointer, size_t, void *);
    result (*StreamCreate)(void **, unsigned);
    result (*StreamDestroy)(void *);
    result (*StreamSynchronize)(void *);
    result (*EventCreate)(void **, unsigned);
    result (*EventDestroy)(void *);
    result (*EventRecord)(void *, void *);
    result (*EventElapsedTime)(float *, void *, void *);
    result (*LaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, void *, void **, void **);
    result (*TensorMapEncodeTiled)(void *, int, uint32_t, void *, const uint64_t *,
                                   const uint64_t *, const uint32_t *, const uint32_t *, int, int,
                                   int, int);
} cu;

static const struct {
    const char *symbol;
    void *slot;
} symbols[] = {
    {"cuInit", &cu.Init},
    {"cuDriverGetVersion", &cu.DriverGetVersion},
    {"cuGetErrorString", &cu.GetErrorString},
    {"cuDeviceGetCount", &cu.DeviceGetCount},
    {"cuDeviceGet", &cu.DeviceGet},
    {"cuDeviceGetName", &cu.DeviceGetName},
    {"cuDeviceGetAttribute", &cu.DeviceGetAttribute},
    {"cuDeviceGetPCIBusId", &cu.DeviceGetPCIBusId},
    {"cuDevicePrimaryCtxRetain", &cu.DevicePrimaryCtxRetain},
    {"cuCtxSetCurrent", &cu.CtxSetCurrent},
    {"cuCtxSynchronize", &cu.CtxSynchronize},
    {"cuModuleLoadData", &cu.ModuleLoadData},
    {"cuModuleGetFunction", &cu.ModuleGetFunction},
    {"cuFuncSetAttribute", &cu.FuncSetAttribute},
    {"cuMemAlloc_v2", &cu.MemAlloc},
    {"cuMemFree_v2", &cu.MemFree},
    {"cuMemGetAddressRange_v2", &cu.MemGetAddressRange},
    {"cuMemGetInfo_v2", &cu.MemGetInfo},
    {"cuMemcpyHtoD_v2", &cu.MemcpyHtoD},
    {"cuMemcpyDtoH_v2", &cu.MemcpyDtoH},
    {"cuMemcpyDtoDAsync_v2", &cu.MemcpyDtoDAsync},
    {"cuStreamCreate", &cu.StreamCreate},
    {"cuStreamDestroy_v2", &cu.StreamDestroy},
    {"cuStreamSynchronize", &cu.StreamSynchronize},
    {"cuEventCreate", &cu.EventCreate},
    {"cuEventDestroy_v2", &cu.EventDestroy},
    {"cuEventRecord", &cu.EventRecord},
    {"cuEventElapsedTime", &cu.EventElapsedTime},
    {"cuLaunchKernel", &cu.LaunchKernel},
    {"cuTensorMapEncodeTiled", &cu.TensorMapEncodeTiled}, /* may be missing: before 12.0 */
};

/* A launch costs what this kernel takes. */
static const unsigned char null_image[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                                          ".visible .entry " ATTN_GPU_NULL "() { ret; }\n";

/* The kernels, embedded by image.c: one fat binary a type, and one for sm_90a; that is a byte of 0
 * if it was not built. */
extern const unsigned char attn_cuda_f16[], attn_cuda_bf16[], attn_cuda_f32[], attn_cuda_hopper[];
static struct image {
    const char *type;
    const unsigned char *data;
    void *module; /* NULL: not loaded yet */
} images[] = {{ATTN_GPU_NULL, null_image, NULL},
              {"_hopper", attn_cuda_hopper, NULL},
              {"_f16", attn_cuda_f16, NULL},
              {"_bf16", attn_cuda_bf16, NULL},
              {"_f32", attn_cuda_f32, NULL}};

static struct {
    int opened, index, processors, driver, l2_bytes, capability; /* capability: as above */
    void *context;
    char name[128], pci[32];
    uint64_t held, most; /* bytes allocated now, and at most */
} device;

/* ATTN_OK, or what the driver says of a call, as a sentence. */
static int check(result status, const char *doing, char *why, size_t size)
{
    const char *text = NULL;
    if (status == CUDA_SUCCESS)
        return ATTN_OK;
    if (cu.GetErrorString(status, &text) != CUDA_SUCCESS || !text)
        text = "unknown error";
    snprintf(why, size, "%s: the CUDA driver says: %s (%d)", doing, text, status);
    return status == CUDA_ERROR_OUT_OF_MEMORY ? ATTN_OUT_OF_MEMORY : ATTN_FAILED;
}

static int load_driver(char *why, size_t size)
{
    /* never closed: the driver keeps threads of its own */
    void *library = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, size, "no CUDA driver is installed (%s cannot be opened)", DRIVER);
        return ATTN_NO_DEVICE;
    }
    for (size_t s = 0; s < sizeof symbols / sizeof *symbols; s++) {
        void *address = dlsym(library, symbols[s].symbol);
        if (!address && symbols[s].slot != &cu.TensorMapEncodeTiled) {
            snprintf(why, size, "the CUDA driver lacks %s: it is too old", symbols[s].symbol);
            return ATTN_NO_DEVICE;
        }
        memcpy(symbols[s].slot, &address, sizeof address);
    }
    return ATTN_OK;
}

static int open_device(int index, char *why, size_t size)
{
    int count = 0, handle, major = 0, minor = 0;
    int status = check(cu.Init(0), "starting CUDA", why, size);
    if (status == ATTN_OK)
        status = check(cu.DeviceGetCount(&count), "counting GPUs", why, size);
    if (status == ATTN_OK && (index < 0 || index >= count)) {
        snprintf(why, size, "there is no GPU %d: the CUDA driver knows %d", index, count);
        return ATTN_NO_DEVICE;
    }
    if (status == ATTN_OK)
        status = check(cu.DeviceGet(&handle, index), "opening the GPU", why, size);
    if (status == ATTN_OK)
        status = check(cu.DeviceGetName(device.name, sizeof device.name, handle), "naming the GPU",
                       why, size);
    if (status == ATTN_OK)
        status = check(
            cu.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle),
            "asking the GPU", why, size);
    if (status == ATTN_OK)
        status = check(
            cu.DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle),
            "asking the GPU", why, size);
    if (status == ATTN_OK && 10 * major + minor < LEAST_CAPABILITY) {
        snprintf(why, size, "%s has compute capability %d.%d, and %d.%d is needed", device.name,
                 major, minor, LEAST_CAPABILITY / 10, LEAST_CAPABILITY % 10);
        return ATTN_NO_DEVICE;
    }
    if (status == ATTN_OK)
        status = check(cu.DeviceGetAttribute(&device.processors,
                                             CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle),
                       "asking the GPU", why, size);
    if (status == ATTN_OK)
        status = check(
            cu.DeviceGetAttribute(&device.l2_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, handle),
            "asking the GPU", why, size);
    if (status == ATTN_OK)
        status = check(cu.DeviceGetPCIBusId(device.pci, sizeof device.pci, handle),
                       "asking the GPU", why, size);
    if (status == ATTN_OK)
        status = check(cu.DriverGetVersion(&device.driver), "asking the driver", why, size);
    if (status == ATTN_OK)
        status =
            check(cu.DevicePrimaryCtxRetain(&device.context, handle), "opening the GPU", why, size);
    if (status == ATTN_OK)
        status = attn_gpu_enter(why, size);
    device.index = index;
    device.capability = 10 * major + minor;
    return status;
}

int attn_gpu_enter(char *why, size_t size)
{
    return check(cu.CtxSetCurrent(device.context), "entering the GPU's context", why, size);
}

int attn_gpu_index(void)
{
    return device.index;
}

int attn_gpu_open(const struct attn_services *services, char *why, size_t size)
{
    if (device.opened)
        return ATTN_OK;
    const int index = (int)strtol(attn_option_get(services, "device", "0"), NULL, 10);
    int status = load_driver(why, size);
    if (status == ATTN_OK)
        status = open_device(index, why, size);
    device.opened = status == ATTN_OK;
    return status == ATTN_OK ? ATTN_OK : ATTN_NO_DEVICE;
}

void attn_gpu_version(char *text, size_t size)
{
    if (device.opened)
        snprintf(text, size, "%s, driver for CUDA %d.%d", device.name, device.driver / 1000,
                 device.driver % 1000 / 10);
    else
        snprintf(text, size, "no device opened");
}

int attn_gpu_processors(void)
{
    return device.processors;
}

int attn_gpu_hopper(void)
{
    return device.capability == 90 && attn_cuda_hopper[0] && cu.TensorMapEncodeTiled;
}

int attn_gpu_map(struct attn_cuda_map *map, const struct attn_cuda_view *view,
                 const int32_t extent[4], int bf16, uint32_t rows, char *why, size_t size)
{
    uint64_t dims[4], bytes[4];
    const uint32_t box[4] = {64, rows, 1, 1}, every[4] = {1, 1, 1, 1};
    for (int axis = 0; axis < 4; axis++) {
        /* the driver wants the innermost first; where there is one index alone, any stride does */
        dims[axis] = (uint64_t)extent[3 - axis];
        bytes[axis] = 2 * (uint64_t)(extent[3 - axis] > 1 ? view->stride[3 - axis] : 64);
    }
    return check(cu.TensorMapEncodeTiled(
                     map, bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                     4, view->data, dims, bytes + 1, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
                     CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                 "describing a tensor", why, size);
}

const char *attn_gpu_memory(struct attn_device *to)
{
    size_t left = 0, all = 0;
    if (cu.MemGetInfo(&left, &all) == CUDA_SUCCESS)
        to->used_bytes = all - left;
    to->allocated_bytes = device.most;
    to->cache_bytes = device.l2_bytes > 0 ? (uint64_t)device.l2_bytes : 0;
    return device.pci;
}

void attn_gpu_count_anew(void)
{
    device.most = device.held;
}

/* As the driver rounded it: the same when it is freed. */
static uint64_t size_of(device_pointer place)
{
    device_pointer base;
    size_t bytes = 0;
    return cu.MemGetAddressRange(&base, &bytes, place) == CUDA_SUCCESS ? bytes : 0;
}

int attn_gpu_allocate(uint64_t bytes, void **memory, char *why, size_t size)
{
    device_pointer place = 0;
    char doing[64];
    snprintf(doing, sizeof doing, "allocating %llu bytes on the GPU", (unsigned long long)bytes);
    int status = check(cu.MemAlloc(&place, bytes ? bytes : 1), doing, why, size);
    if (status != ATTN_OK)
        return status;
    device.held += size_of(place);
    device.most = device.held > device.most ? device.held : device.most;
    *memory = (void *)(uintptr_t)place; /* NOLINT(performance-no-int-to-ptr) */
    return ATTN_OK;
}

void attn_gpu_release(void *memory)
{
    if (!memory)
        return;
    device.held -= size_of((uintptr_t)memory);
    cu.MemFree((uintptr_t)memory);
}

int attn_gpu_copy_in(void *to, const void *from, size_t bytes, char *why, size_t size)
{
    return check(cu.MemcpyHtoD((uintptr_t)to, from, bytes), "copying to the GPU", why, size);
}

int attn_gpu_copy_out(void *to, const void *from, size_t bytes, char *why, size_t size)
{
    return check(cu.MemcpyDtoH(to, (uintptr_t)from, bytes), "copying from the GPU", why, size);
}

int attn_gpu_kernel(const char *name, uint32_t shared_bytes, void **kernel, char *why, size_t size)
{
    struct image *image = images;
    while (!strstr(name, image->type))
        image++;
    int status = ATTN_OK;
    if (!image->module) {
        /* kernels of a newer CUDA than the driver's are refused here */
        char doing[64];
        void *module = NULL;
        snprintf(doing, sizeof doing, "loading kernels into a driver for CUDA %d.%d",
                 device.driver / 1000, device.driver % 1000 / 10);
        status = check(cu.ModuleLoadData(&module, image->data), doing, why, size);
        image->module = status == ATTN_OK ? module : NULL;
    }
    if (status == ATTN_OK)
        status = check(cu.ModuleGetFunction(kernel, image->module, name), name, why, size);
    if (status == ATTN_OK && shared_bytes > SHARED_UNASKED)
        status = check(cu.FuncSetAttribute(*kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                           (int)shared_bytes),
                       "asking for shared memory", why, size);
    return status;
}

/* A stream (NULL: the legacy default stream), and the events before the first and after the last of
 * the runs that are waited for. */
struct queue {
    void *stream, *marks[2];
    uint32_t runs, timed; /* since the last wait; before it */
};

static int create_queue(int own_stream, void **out, char *why, size_t size)
{
    struct queue *queue = calloc(1, sizeof *queue);
    int status = ATTN_OK;
    if (!queue) {
        snprintf(why, size, "no memory for a stream");
        return ATTN_OUT_OF_MEMORY;
    }
    if (own_stream)
        status = check(cu.StreamCreate(&queue->stream, CU_STREAM_DEFAULT), "creating a stream", why,
                       size);
    for (int m = 0; m < 2 && status == ATTN_OK; m++)
        status = check(cu.EventCreate(&queue->marks[m], CU_EVENT_DEFAULT), "creating an event", why,
                       size);
    if (status == ATTN_OK)
        *out = queue;
    else
        attn_gpu_queue_destroy(queue);
    return status;
}

int attn_gpu_queue_create(void **queue, char *why, size_t size)
{
    return create_queue(1, queue, why, size);
}

int attn_gpu_queue_default(void **queue, char *why, size_t size)
{
    return create_queue(0, queue, why, size);
}

void attn_gpu_queue_destroy(void *opaque)
{
    struct queue *queue = opaque;
    if (!queue)
        return;
    for (int m = 0; m < 2; m++)
        if (queue->marks[m])
            cu.EventDestroy(queue->marks[m]);
    if (queue->stream)
        cu.StreamDestroy(queue->stream);
    free(queue);
}

void *attn_gpu_stream(void *opaque)
{
    return ((struct queue *)opaque)->stream;
}

/* An event between two runs would hold up the second. */
int attn_gpu_mark(void *opaque, int end, char *why, size_t size)
{
    struct queue *queue = opaque;
    queue->runs += end != 0;
    if (end || queue->runs > 0)
        return ATTN_OK;
    return check(cu.EventRecord(queue->marks[0], queue->stream), "recording an event", why, size);
}

int attn_gpu_copy_within(void *opaque, void *to, const void *from, size_t bytes, char *why,
                         size_t size)
{
    const struct queue *queue = opaque;
    return check(cu.MemcpyDtoDAsync((uintptr_t)to, (uintptr_t)from, bytes, queue->stream),
                 "copying within the GPU", why, size);
}

int attn_gpu_launch(void *opaque, void *kernel, const struct attn_gpu_grid *grid, const void *args,
                    char *why, size_t size)
{
    struct queue *queue = opaque;
    void *parameters[1];
    memcpy(parameters, &args, sizeof args); /* the driver reads them, without saying const */
    return check(cu.LaunchKernel(kernel, grid->blocks_x, 1, grid->blocks_z, grid->threads, 1, 1,
                                 grid->shared_bytes, queue->stream, parameters, NULL),
                 "launching a kernel", why, size);
}

int attn_gpu_wait(void *opaque, char *why, size_t size)
{
    struct queue *queue = opaque;
    int status = ATTN_OK;
    if (queue->runs > 0)
        status =
            check(cu.EventRecord(queue->marks[1], queue->stream), "recording an event", why, size);
    if (status == ATTN_OK)
        status = check(cu.StreamSynchronize(queue->stream), "running a kernel", why, size);
    queue->timed = queue->runs;
    queue->runs = 0;
    return status;
}

int attn_gpu_settle(char *why, size_t size)
{
    return check(cu.CtxSynchronize(), "running a kernel", why, size);
}

int attn_gpu_elapsed(void *opaque, double *ns, char *why, size_t size)
{
    const struct queue *queue = opaque;
    float ms = 0;
    int status = check(cu.EventElapsedTime(&ms, queue->marks[0], queue->marks[1]),
                       "reading an event", why, size);
    if (status == ATTN_OK)
        *ns = 1e6 * (double)ms / (queue->timed > 0 ? queue->timed : 1);
    return status;
}
