/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - oneDNN itself: finding its CPU runtime, its version, and what this machine can do. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "onednn.h"

int attn_onednn_prepare(char *why, size_t size)
{
    const char runtime[] = "/libintelocl.so";
    Dl_info where;
    char path[4096];
    /* a function pointer as an object pointer: POSIX has it so, ISO C only through memcpy */
    const dnnl_version_t *(*function)(void) = dnnl_version;
    void *address;
    memcpy(&address, &function, sizeof(address));
    if (!dladdr(address, &where) || !where.dli_fname)
        return ATTN_OK;
    const char *slash = strrchr(where.dli_fname, '/');
    size_t folder = slash ? (size_t)(slash - where.dli_fname) : 0;
    if (!slash || folder + sizeof(runtime) > sizeof(path))
        return ATTN_OK;
    memcpy(path, where.dli_fname, folder);
    memcpy(path + folder, runtime, sizeof(runtime));
    if (access(path, R_OK) != 0 || setenv("OCL_ICD_FILENAMES", path, 0) == 0)
        return ATTN_OK; /* no such file: a oneDNN over OpenMP or TBB, which needs nothing */
    snprintf(why, size, "the environment for oneDNN's CPU runtime could not be set");
    return ATTN_FAILED;
}

void attn_onednn_version(char *text, size_t size)
{
    const dnnl_version_t *v = dnnl_version();
    const char *runtime = v->cpu_runtime == DNNL_RUNTIME_SYCL  ? "SYCL"
                          : v->cpu_runtime == DNNL_RUNTIME_OMP ? "OpenMP"
                          : v->cpu_runtime == DNNL_RUNTIME_TBB ? "TBB"
                          : v->cpu_runtime == DNNL_RUNTIME_SEQ ? "sequential"
                                                               : "other";
    snprintf(text, size, "oneDNN %d.%d.%d (%.8s), CPU runtime %s", v->major, v->minor, v->patch,
             v->hash, runtime);
}

int attn_onednn_open(struct attn_onednn_library *library, const struct attn_services *services,
                     char *why, size_t size)
{
    /* One for the process, never closed: each engine leaves megabytes in the library's runtime. The
     * slots of a process are called from one thread. */
    static struct attn_onednn_library shared;
    dnnl_status_t status = dnnl_success;
    if (!shared.engine)
        status = dnnl_engine_create(&shared.engine, dnnl_cpu, 0);
    if (!status && !shared.stream)
        status = dnnl_stream_create(&shared.stream, shared.engine, dnnl_stream_default_flags);
    if (status) {
        snprintf(why, size, "oneDNN finds no CPU to run on (status %d)", (int)status);
        return ATTN_NO_DEVICE;
    }
    *library = shared;
    library->services = services;
    return ATTN_OK;
}

int attn_onednn_uses_tiles(void)
{
    const unsigned tiles = dnnl_cpu_isa_avx512_core_amx;
    return ((unsigned)dnnl_get_effective_cpu_isa() & tiles) == tiles;
}

/* Asks for one small product, described and not made. */
static int ask(uint32_t dtype)
{
    const dnnl_dims_t dims = {1, 16, 16}, strides = {256, 16, 1};
    dnnl_memory_desc_t in = NULL, out = NULL;
    dnnl_primitive_desc_t product = NULL;
    dnnl_engine_t engine = NULL;
    dnnl_status_t status = dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (!status)
        status =
            dnnl_memory_desc_create_with_strides(&in, 3, dims, attn_onednn_type(dtype), strides);
    if (!status)
        status = dnnl_memory_desc_create_with_strides(&out, 3, dims, dnnl_f32, strides);
    if (!status)
        status = dnnl_matmul_primitive_desc_create(&product, engine, in, in, NULL, out, NULL);
    if (product)
        dnnl_primitive_desc_destroy(product);
    if (out)
        dnnl_memory_desc_destroy(out);
    if (in)
        dnnl_memory_desc_destroy(in);
    if (engine)
        dnnl_engine_destroy(engine);
    return !status;
}

int attn_onednn_multiplies(uint32_t dtype)
{
    /* 0: not asked yet; 1: no; 2: yes. The answer is the machine's, and the slots of a process are
     * called from one thread. */
    static int answer[ATTN_BF16 + 1];
    if (!answer[dtype])
        answer[dtype] = 1 + ask(dtype);
    return answer[dtype] == 2;
}
