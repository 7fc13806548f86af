/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - see library.h. */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "attnbench/backend.h"

#ifndef LIBRARY /* tests name another */
#define LIBRARY "libcudnn.so.9"
#endif
/* The first that is free of what the frontend of cuDNN works around in its own checks: wrong
 * windows in 9.14, no sinks before 9.13, other strides of the statistics before 9.12. */
#define OLDEST 91500

struct attn_cudnn attn_cudnn;

static const struct {
    const char *symbol;
    void *slot;
} symbols[] = {
    {"cudnnGetVersion", &attn_cudnn.GetVersion},
    {"cudnnGetErrorString", &attn_cudnn.GetErrorString},
    {"cudnnCreate", &attn_cudnn.Create},
    {"cudnnSetStream", &attn_cudnn.SetStream},
    {"cudnnBackendCreateDescriptor", &attn_cudnn.CreateDescriptor},
    {"cudnnBackendDestroyDescriptor", &attn_cudnn.DestroyDescriptor},
    {"cudnnBackendSetAttribute", &attn_cudnn.SetAttribute},
    {"cudnnBackendGetAttribute", &attn_cudnn.GetAttribute},
    {"cudnnBackendFinalize", &attn_cudnn.Finalize},
    {"cudnnBackendExecute", &attn_cudnn.Execute},
};

int attn_cudnn_open(char *why, size_t size)
{
    static int opened;
    if (opened)
        return ATTN_OK;
    /* never closed: it keeps libraries of its own open */
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, size, "cuDNN is not installed (%s cannot be opened)", LIBRARY);
        return ATTN_NO_DEVICE;
    }
    for (size_t s = 0; s < sizeof symbols / sizeof *symbols; s++) {
        void *address = dlsym(library, symbols[s].symbol);
        if (!address) {
            snprintf(why, size, "%s lacks %s", LIBRARY, symbols[s].symbol);
            return ATTN_NO_DEVICE;
        }
        memcpy(symbols[s].slot, &address, sizeof address);
    }
    const unsigned version = (unsigned)attn_cudnn.GetVersion();
    if (version < OLDEST) {
        snprintf(why, size, "cuDNN %u.%u is too old: %d.%d is needed", version / 10000,
                 version / 100 % 100, OLDEST / 10000, OLDEST / 100 % 100);
        return ATTN_NO_DEVICE;
    }
    opened = 1;
    return ATTN_OK;
}

int attn_cudnn_check(int status, const char *doing, char *why, size_t size)
{
    if (status == 0)
        return ATTN_OK;
    snprintf(why, size, "%s: cuDNN says: %s (%d)", doing, attn_cudnn.GetErrorString(status),
             status);
    switch (status / 1000) { /* a category of cudnnStatus_t */
    case 3:
        return ATTN_UNSUPPORTED;
    case 4:
        return status == 4003 || status == 4004 ? ATTN_OUT_OF_MEMORY : ATTN_FAILED;
    default:
        return ATTN_FAILED;
    }
}

int attn_cudnn_device(int name, int type, int64_t count, const void *value, void **device,
                      char *why, size_t size)
{
    static const char doing[] = "describing the GPU";
    void *made = NULL;
    int status = attn_cudnn_check(
        attn_cudnn.CreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made), doing, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_check(attn_cudnn.SetAttribute(made, name, type, count, value), doing,
                                  why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_check(attn_cudnn.Finalize(made), doing, why, size);
    if (status == ATTN_OK)
        *device = made;
    else if (made)
        attn_cudnn.DestroyDescriptor(made);
    return status;
}
