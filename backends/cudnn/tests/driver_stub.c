/* SPDX-License-Identifier: Apache-2.0 */
/* driver_stub.c - in place of libcuda.so.1: as much of a driver as cuDNN asks for while it plans
 * for a device that is only described. It knows no device, and takes every kernel. */
#define YES(name)                                                                                  \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return 0;                                                                                  \
    }
#define GIVES(name)                                                                                \
    int name(void **);                                                                             \
    int name(void **given)                                                                         \
    {                                                                                              \
        static char something;                                                                     \
        *given = &something;                                                                       \
        return 0;                                                                                  \
    }

#define SAYS(name)                                                                                 \
    int name(int, const char **);                                                                  \
    int name(int error, const char **text)                                                         \
    {                                                                                              \
        (void)error;                                                                               \
        *text = #name;                                                                             \
        return 0;                                                                                  \
    }

int cuInit(unsigned);
int cuInit(unsigned flags)
{
    (void)flags;
    return 100; /* no device */
}

int cuDriverGetVersion(int *);
int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

SAYS(cuGetErrorName)
SAYS(cuGetErrorString)
GIVES(cuLibraryLoadData)
GIVES(cuLibraryGetKernel)
GIVES(cuKernelGetFunction)
YES(cuCtxGetCurrent)
YES(cuCtxGetDevice)
YES(cuCtxGetLimit)
YES(cuCtxPopCurrent)
YES(cuCtxPushCurrent)
YES(cuDeviceGet)
YES(cuDeviceGetAttribute)
YES(cuDeviceGetCount)
YES(cuDevicePrimaryCtxRelease)
YES(cuDevicePrimaryCtxReset)
YES(cuDevicePrimaryCtxRetain)
YES(cuFuncGetAttribute)
YES(cuFuncSetAttribute)
YES(cuKernelGetAttribute)
YES(cuKernelSetAttribute)
YES(cuLaunchCooperativeKernel)
YES(cuLaunchKernel)
YES(cuLaunchKernelEx)
YES(cuLibraryLoadFromFile)
YES(cuLibraryUnload)
YES(cuLinkAddData)
YES(cuLinkAddData_v2)
YES(cuLinkAddFile_v2)
YES(cuLinkComplete)
YES(cuLinkCreate)
YES(cuLinkCreate_v2)
YES(cuLinkDestroy)
YES(cuMemcpyDtoH_v2)
YES(cuModuleGetFunction)
YES(cuModuleGetGlobal_v2)
YES(cuModuleLoadData)
YES(cuModuleLoadDataEx)
YES(cuModuleLoadFatBinary)
YES(cuModuleUnload)
YES(cuOccupancyMaxActiveBlocksPerMultiprocessor)
YES(cuOccupancyMaxPotentialClusterSize)
YES(cuStreamGetCtx)
YES(cuStreamSynchronize)
YES(cuTensorMapEncodeTiled)
