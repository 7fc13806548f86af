/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - what a figure is read against: an empty launch, and a copy within memory. */
#include "gpu.h"

/* An empty launch takes some microseconds: a millisecond of them. */
#define LAUNCHES 512
#define COPIES   8
/* What is copied is so many times the largest cache, so that nothing of it is found there. */
#define CACHES 8

/* A launch of a kernel, or without one a copy. */
struct job {
    void *kernel, *to, *from;
    size_t bytes;
};

static int start(void *queue, const struct job *job, char *why, size_t size)
{
    static const struct attn_gpu_grid grid = {.blocks_x = 1, .blocks_z = 1, .threads = 32};
    static const struct attn_cuda_args args;
    int status = attn_gpu_mark(queue, 0, why, size);
    if (status == ATTN_OK)
        status = job->kernel
                     ? attn_gpu_launch(queue, job->kernel, &grid, &args, why, size)
                     : attn_gpu_copy_within(queue, job->to, job->from, job->bytes, why, size);
    return status == ATTN_OK ? attn_gpu_mark(queue, 1, why, size) : status;
}

/* Nanoseconds of one of so many, after as many that wake the device; 0: it failed. */
static double time_one(void *queue, const struct job *job, int count)
{
    char why[256];
    double ns = 0;
    int status = ATTN_OK;
    for (int trial = 0; trial < 2 && status == ATTN_OK; trial++) {
        for (int n = 0; n < count && status == ATTN_OK; n++)
            status = start(queue, job, why, sizeof why);
        if (status == ATTN_OK)
            status = attn_gpu_wait(queue, why, sizeof why);
    }
    if (status == ATTN_OK)
        status = attn_gpu_elapsed(queue, &ns, why, sizeof why);
    return status == ATTN_OK ? ns : 0;
}

static double time_launch(void *queue)
{
    char why[256];
    struct job job = {.kernel = NULL};
    if (attn_gpu_kernel(ATTN_GPU_NULL, 0, &job.kernel, why, sizeof why) != ATTN_OK)
        return 0;
    return time_one(queue, &job, LAUNCHES);
}

/* GB/s, what is read and what is written; 0: no memory is left for it. */
static double time_copy(void *queue, uint64_t bytes)
{
    char why[256];
    struct job job = {.bytes = bytes};
    double ns = 0;
    if (attn_gpu_allocate(bytes, &job.to, why, sizeof why) == ATTN_OK &&
        attn_gpu_allocate(bytes, &job.from, why, sizeof why) == ATTN_OK)
        ns = time_one(queue, &job, COPIES);
    attn_gpu_release(job.to);
    attn_gpu_release(job.from);
    attn_gpu_count_anew();
    return ns > 0 ? 2 * (double)bytes / ns : 0;
}

void attn_gpu_device(struct attn_device *device)
{
    static double launch_ns, copy_gbs;
    static int measured;
    char why[256];
    void *queue;
    const char *pci = attn_gpu_memory(device);
    if (!measured && attn_gpu_queue_create(&queue, why, sizeof why) == ATTN_OK) {
        launch_ns = time_launch(queue);
        copy_gbs = time_copy(queue, CACHES * device->cache_bytes);
        attn_gpu_queue_destroy(queue);
        pci = attn_gpu_memory(device); /* again, with what was loaded for this */
    }
    measured = 1;
    device->launch_ns = launch_ns;
    device->copy_gbs = copy_gbs;
    attn_gpu_clocks(pci, device);
}
