/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h - the device as the plugin uses it. driver.c implements it with the CUDA driver, and tests/
 * on the host. Functions that return an int give ATTN_OK, or another attn_result with one sentence
 * in (why, size), like the slots. */
#ifndef ATTN_CUDA_GPU_H
#define ATTN_CUDA_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "args.h"
#include "attnbench/backend.h"

/* Opens the device that the options name, once per process. ATTN_NO_DEVICE without driver or
 * device. */
int attn_gpu_open(const struct attn_services *services, char *why, size_t size);
/* Makes the context of this device the thread's, where a library may have set another. */
int attn_gpu_enter(char *why, size_t size);
int attn_gpu_index(void);
void attn_gpu_version(char *text, size_t size);
/* Number of multiprocessors: at least so many blocks run at the same time. */
int attn_gpu_processors(void);

/* Memory of the device, aligned to 256 bytes; 0 bytes are allowed. */
int attn_gpu_allocate(uint64_t bytes, void **memory, char *why, size_t size);
void attn_gpu_release(void *memory);
int attn_gpu_copy_in(void *device, const void *host, size_t bytes, char *why, size_t size);
int attn_gpu_copy_out(void *host, const void *device, size_t bytes, char *why, size_t size);

/* Finds a kernel by its name in instances.h and allows it this much dynamic shared memory. It is
 * never freed. */
int attn_gpu_kernel(const char *name, uint32_t shared_bytes, void **kernel, char *why, size_t size);

/* Are there kernels named flash_TYPE_WIDTH_hopper, and does the device run them. */
int attn_gpu_hopper(void);
/* A tensor of 16-bit elements for their copies, in boxes of `rows` rows and 64 columns. The tensor
 * has these extents, in the order of its strides; the last stride is 1, the others are multiples of
 * 8 elements, and none is 0. */
int attn_gpu_map(struct attn_cuda_map *map, const struct attn_cuda_view *view,
                 const int32_t extent[4], int bf16, uint32_t rows, char *why, size_t size);

struct attn_gpu_grid {
    uint32_t blocks_x, blocks_z, threads, shared_bytes;
};

/* The kernel of this name does nothing. */
#define ATTN_GPU_NULL "launch_null"

/* A queue of launches, with a mark before and after each run. For many runs, the first and the last
 * mark count. */
int attn_gpu_queue_create(void **queue, char *why, size_t size);
/* The same on the legacy default stream, which waits for every stream that was not made to be apart
 * from it (cuStreamNonBlocking): marks for what others launch. */
int attn_gpu_queue_default(void **queue, char *why, size_t size);
void attn_gpu_queue_destroy(void *queue);
/* The CUDA stream of a queue, for libraries. */
void *attn_gpu_stream(void *queue);
int attn_gpu_mark(void *queue, int end, char *why, size_t size);
/* `args` is the structure of this kernel. It is copied. */
int attn_gpu_launch(void *queue, void *kernel, const struct attn_gpu_grid *grid, const void *args,
                    char *why, size_t size);
int attn_gpu_wait(void *queue, char *why, size_t size);
int attn_gpu_copy_within(void *queue, void *to, const void *from, size_t bytes, char *why,
                         size_t size);
/* Waits for everything that was started in the context, on whatever stream. */
int attn_gpu_settle(char *why, size_t size);
/* Nanoseconds per run of the runs that the last attn_gpu_wait waited for. */
int attn_gpu_elapsed(void *queue, double *ns, char *why, size_t size);

/* The slot `device`: memory and clocks; an empty launch and a copy, timed at the first call. */
void attn_gpu_device(struct attn_device *device);

/* The part of driver.c: memory and cache. Returns the device's address on the PCI bus. */
const char *attn_gpu_memory(struct attn_device *device);
/* Resets the peak of allocated memory to what is allocated now. */
void attn_gpu_count_anew(void);

/* The part of nvml.c: clocks, temperature, power, and what holds clocks down, or why it is not
 * known. */
void attn_gpu_clocks(const char *pci, struct attn_device *device);

#endif
