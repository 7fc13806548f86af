/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.c - clocks and what holds them down, through NVIDIA's management library, opened at run
 * time. Declared here is what is used of its stable binary interface. A driver without it, or one
 * that lets a container see less, only leaves figures out. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"

#ifndef NVML /* tests bring one of their own */
#define NVML "libnvidia-ml.so.1"
#endif
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_TEMPERATURE_GPU = 0 };

typedef int result; /* 0: success */

static struct {
    result (*Init)(void);
    result (*GetHandle)(const char *, void **);
    const char *(*ErrorString)(result);
    result (*GetClock)(void *, int, unsigned *);
    result (*GetTemperature)(void *, int, unsigned *);
    result (*GetPower)(void *, unsigned *);
    result (*GetReasons)(void *, unsigned long long *);
} nvml;

/* The first are needed. Of the others, which newer drivers call deprecated, one that is missing
 * only leaves its figure out. */
#define NEEDED 3
static const struct {
    const char *symbol;
    void *slot;
} symbols[] = {
    {"nvmlInit_v2", &nvml.Init},
    {"nvmlDeviceGetHandleByPciBusId_v2", &nvml.GetHandle},
    {"nvmlErrorString", &nvml.ErrorString},
    {"nvmlDeviceGetClockInfo", &nvml.GetClock},
    {"nvmlDeviceGetTemperature", &nvml.GetTemperature},
    {"nvmlDeviceGetPowerUsage", &nvml.GetPower},
    /* two names of one function */
    {"nvmlDeviceGetCurrentClocksThrottleReasons", &nvml.GetReasons},
    {"nvmlDeviceGetCurrentClocksEventReasons", &nvml.GetReasons},
};

/* nvmlClocksThrottleReason*, bit 0 first. */
static const char *const reasons[] = {
    "idle",       "application clocks", "power cap",       "hardware slowdown",
    "sync boost", "heat (software)",    "heat (hardware)", "power brake",
    "display",
};

/* NULL, or why there is no handle. */
static const char *open_handle(const char *pci, void **handle)
{
    static char why[128];
    void *library = dlopen(NVML, RTLD_NOW | RTLD_LOCAL); /* never closed, as the driver */
    if (!library)
        return NVML " cannot be opened";
    for (size_t s = 0; s < sizeof symbols / sizeof *symbols; s++) {
        void *address = dlsym(library, symbols[s].symbol);
        if (!address && s >= NEEDED)
            continue;
        if (!address) {
            snprintf(why, sizeof why, "%s lacks %s", NVML, symbols[s].symbol);
            return why;
        }
        memcpy(symbols[s].slot, &address, sizeof address);
    }
    result status = nvml.Init();
    if (status == 0)
        status = nvml.GetHandle(pci, handle);
    if (status == 0)
        return NULL;
    snprintf(why, sizeof why, "NVML says: %s", nvml.ErrorString(status));
    return why;
}

static void read_reasons(void *handle, char *text, size_t size)
{
    unsigned long long bits = 0;
    size_t used = 0;
    if (!nvml.GetReasons) {
        snprintf(text, size, "not known: %s lacks the function", NVML);
        return;
    }
    const result status = nvml.GetReasons(handle, &bits);
    if (status != 0) {
        snprintf(text, size, "not known: NVML says: %s", nvml.ErrorString(status));
        return;
    }
    snprintf(text, size, "none");
    for (size_t r = 0; r < sizeof reasons / sizeof *reasons && used < size; r++)
        if (bits >> r & 1)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? "; " : "", reasons[r]);
}

void attn_gpu_clocks(const char *pci, struct attn_device *device)
{
    static const char *fault;
    static void *handle;
    unsigned value;
    if (!handle && !fault)
        fault = open_handle(pci, &handle);
    if (fault) {
        snprintf(device->throttled, sizeof device->throttled, "not known: %s", fault);
        return;
    }
    if (nvml.GetClock && nvml.GetClock(handle, NVML_CLOCK_SM, &value) == 0)
        device->clock_mhz = value;
    if (nvml.GetClock && nvml.GetClock(handle, NVML_CLOCK_MEM, &value) == 0)
        device->memory_clock_mhz = value;
    if (nvml.GetTemperature && nvml.GetTemperature(handle, NVML_TEMPERATURE_GPU, &value) == 0)
        device->temperature_c = value;
    if (nvml.GetPower && nvml.GetPower(handle, &value) == 0)
        device->power_w = value / 1000.0; /* from mW */
    read_reasons(handle, device->throttled, sizeof device->throttled);
}
