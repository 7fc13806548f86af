/* SPDX-License-Identifier: Apache-2.0 */
/* cublas.c - see cublas.h. Declared here is what is used of the library's stable binary interface
 * (CUDA 12 and later: 64-bit sizes), under the names of its headers, so that nothing of CUDA is
 * linked or included. */
#include "cublas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef CUBLAS /* tests bring one of their own */
#define CUBLAS "libcublas.so.13", "libcublas.so.12"
#endif
#define WORKSPACE (UINT64_C(32) << 20) /* what the manual recommends for Hopper, the largest */

enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_ALLOC_FAILED = 3 };
enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_PEDANTIC = 69 };
enum { CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16 }; /* joined to the default 0 */
enum { CUBLAS_GEMM_DEFAULT = -1 };
enum { MAJOR_VERSION = 0, MINOR_VERSION = 1, PATCH_LEVEL = 2 };

typedef int status;

static struct {
    status (*GetProperty)(int, int *);
    const char *(*GetStatusString)(status);
    status (*Create)(void **);
    status (*Destroy)(void *);
    status (*SetStream)(void *, void *);
    status (*SetWorkspace)(void *, void *, size_t);
    status (*SetMathMode)(void *, int);
    status (*Gemm)(void *, int, int, int64_t, int64_t, int64_t, const void *, const void *, int,
                   int64_t, long long, const void *, int, int64_t, long long, const void *, void *,
                   int, int64_t, long long, int64_t, int, int);
} blas;

static const struct {
    const char *symbol;
    void *slot;
} symbols[] = {
    {"cublasGetProperty", &blas.GetProperty}, {"cublasGetStatusString", &blas.GetStatusString},
    {"cublasCreate_v2", &blas.Create},        {"cublasDestroy_v2", &blas.Destroy},
    {"cublasSetStream_v2", &blas.SetStream},  {"cublasSetWorkspace_v2", &blas.SetWorkspace},
    {"cublasSetMathMode", &blas.SetMathMode}, {"cublasGemmStridedBatchedEx_64", &blas.Gemm},
};

struct attn_cublas {
    void *handle, *workspace, *queue;
};

static int check(status got, const char *doing, char *why, size_t size)
{
    if (got == CUBLAS_STATUS_SUCCESS)
        return ATTN_OK;
    snprintf(why, size, "%s: cuBLAS says: %s (%d)", doing, blas.GetStatusString(got), got);
    return got == CUBLAS_STATUS_ALLOC_FAILED ? ATTN_OUT_OF_MEMORY : ATTN_FAILED;
}

int attn_cublas_open(char *why, size_t size)
{
    static const char *const names[] = {CUBLAS};
    static int opened;
    void *library = NULL;
    for (size_t n = 0; !opened && !library && n < sizeof names / sizeof *names; n++)
        library = dlopen(names[n], RTLD_NOW | RTLD_LOCAL); /* never closed, as the driver */
    if (!opened && !library) {
        snprintf(why, size, "no cuBLAS of CUDA 12 or later is installed (%s cannot be opened)",
                 names[0]);
        return ATTN_NO_DEVICE;
    }
    for (size_t s = 0; !opened && s < sizeof symbols / sizeof *symbols; s++) {
        void *address = dlsym(library, symbols[s].symbol);
        if (!address) {
            snprintf(why, size, "cuBLAS lacks %s", symbols[s].symbol);
            return ATTN_NO_DEVICE;
        }
        memcpy(symbols[s].slot, &address, sizeof address);
    }
    opened = 1;
    return ATTN_OK;
}

void attn_cublas_version(char *text, size_t size)
{
    int version[3] = {0};
    for (int part = MAJOR_VERSION; blas.GetProperty && part <= PATCH_LEVEL; part++)
        blas.GetProperty(part, &version[part]);
    snprintf(text, size, "cuBLAS %d.%d.%d", version[MAJOR_VERSION], version[MINOR_VERSION],
             version[PATCH_LEVEL]);
}

int attn_cublas_create(void *queue, struct attn_cublas **out, char *why, size_t size)
{
    int got = attn_cublas_open(why, size);
    if (got != ATTN_OK)
        return got;
    struct attn_cublas *made = calloc(1, sizeof *made);
    if (!made) {
        snprintf(why, size, "no memory for cuBLAS");
        return ATTN_OUT_OF_MEMORY;
    }
    made->queue = queue;
    got = attn_gpu_allocate(WORKSPACE, &made->workspace, why, size);
    if (got == ATTN_OK)
        got = check(blas.Create(&made->handle), "starting cuBLAS", why, size);
    if (got == ATTN_OK)
        got = check(blas.SetStream(made->handle, attn_gpu_stream(queue)), "setting the stream", why,
                    size);
    if (got == ATTN_OK) /* after SetStream, which puts the library's own back */
        got = check(blas.SetWorkspace(made->handle, made->workspace, WORKSPACE),
                    "setting the workspace", why, size);
    if (got == ATTN_OK)
        got =
            check(blas.SetMathMode(made->handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                  "setting the arithmetic", why, size);
    if (got == ATTN_OK)
        *out = made;
    else
        attn_cublas_destroy(made);
    return got;
}

void attn_cublas_destroy(struct attn_cublas *cublas)
{
    if (!cublas)
        return;
    if (cublas->handle)
        blas.Destroy(cublas->handle);
    attn_gpu_release(cublas->workspace);
    free(cublas);
}

void *attn_cublas_queue(const struct attn_cublas *cublas)
{
    return cublas->queue;
}

uint64_t attn_cublas_bytes(void)
{
    return WORKSPACE;
}

static int type_of(const struct attn_cublas_matrix *matrix)
{
    return matrix->dtype == ATTN_F16    ? CUDA_R_16F
           : matrix->dtype == ATTN_BF16 ? CUDA_R_16BF
                                        : CUDA_R_32F;
}

int attn_cublas_multiply(struct attn_cublas *cublas, const struct attn_cublas_product *p, char *why,
                         size_t size)
{
    const float one = 1, old = p->adds ? 1 : 0;
    const struct attn_cublas_matrix *a = &p->a, *b = &p->b, *c = &p->c;
    return check(blas.Gemm(cublas->handle, a->transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                           b->transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p->m, p->n, p->k, &one,
                           a->data, type_of(a), a->ld, a->stride, b->data, type_of(b), b->ld,
                           b->stride, &old, c->data, type_of(c), c->ld, c->stride, p->batch,
                           a->dtype == ATTN_F32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F,
                           CUBLAS_GEMM_DEFAULT),
                 "multiplying matrices", why, size);
}
