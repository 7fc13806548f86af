/* SPDX-License-Identifier: Apache-2.0 */
/* emulated_gpu.cpp - the device of gpu.h on the host: the same plugin and the same kernels, run by
 * the emulation. Backend `cuda_emu`; its option `plant` switches on a bug in a kernel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../flash_tile.h"
#include "../gpu.h"
#include "../instances.h"

#define TILE(type, width, kind, tiles, warps, keys, masked)                                        \
    static void flash_##type##_##width##_##kind(const void *args)                                  \
    {                                                                                              \
        flash_tile<type, width, tiles, warps, keys, masked>::run(*(const attn_cuda_args *)args);   \
    }
#define ENTRY(type, width, kind)                                                                   \
    {"flash_" #type "_" #width "_" #kind, flash_##type##_##width##_##kind},
#define TILE_F16(width, kind, ...)   TILE(f16, width, kind, __VA_ARGS__)
#define TILE_BF16(width, kind, ...)  TILE(bf16, width, kind, __VA_ARGS__)
#define ENTRY_F16(width, kind, ...)  ENTRY(f16, width, kind)
#define ENTRY_BF16(width, kind, ...) ENTRY(bf16, width, kind)

namespace
{

ATTN_CUDA_TILES(TILE_F16)
ATTN_CUDA_TILES(TILE_BF16)

template <class T> void rows(const void *args)
{
    flash_rows<T, ATTN_CUDA_ROW_WARPS>(*(const attn_cuda_args *)args);
}

template <class T> void merge(const void *args)
{
    merge_rows<T, ATTN_CUDA_ROW_WARPS>(*(const attn_cuda_args *)args);
}

const struct entry {
    const char *name;
    emulated_kernel *function;
} kernels[] = {ATTN_CUDA_TILES(ENTRY_F16) ATTN_CUDA_TILES(ENTRY_BF16){"flash_f16_rows", rows<f16>},
               {"flash_bf16_rows", rows<bf16>},
               {"flash_f32_rows", rows<float>},
               {"merge_f16", merge<f16>},
               {"merge_bf16", merge<bf16>},
               {"merge_f32", merge<float>}};

#define PLANT_NAME(name)   #name,
#define PLANT_CHOICE(name) "|" #name
const char *const plants[] = {EMULATED_PLANTS(PLANT_NAME)};
const char plant_choices[] = EMULATED_PLANTS(PLANT_CHOICE);

int queue_of_all;

} /* namespace */

extern "C" {

extern const char attn_gpu_backend[] = "cuda_emu";
extern const char attn_gpu_description[] = "the CUDA kernels on the host, every access checked";
extern const struct attn_option_spec attn_gpu_options[2] = {
    ATTN_GPU_SPLITS,
    {"plant", ATTN_OPTION_CHOICE, 0, plant_choices + 1, "none", "what is wrong with the kernels"},
};

int attn_gpu_open(const struct attn_services *services, char *, size_t)
{
    const char *wanted = attn_option_get(services, "plant", "none");
    for (int p = 0; p < PLANTS; p++)
        if (strcmp(plants[p], wanted) == 0)
            emulated_plant = p;
    return ATTN_OK;
}

void attn_gpu_version(char *text, size_t size)
{
    snprintf(text, size, "emulation of sm_80");
}

int attn_gpu_processors(void)
{
    return 2; /* few, so that few keys are split */
}

int attn_gpu_allocate(uint64_t bytes, void **memory, char *why, size_t size)
{
    *memory = emulated_alloc(bytes);
    if (*memory)
        return ATTN_OK;
    snprintf(why, size, "no memory for an operand");
    return ATTN_OUT_OF_MEMORY;
}

void attn_gpu_release(void *memory)
{
    emulated_free(memory);
}

int attn_gpu_copy_in(void *device, const void *host, size_t bytes, char *, size_t)
{
    memcpy(device, host, bytes);
    return ATTN_OK;
}

int attn_gpu_copy_out(void *host, const void *device, size_t bytes, char *, size_t)
{
    memcpy(host, device, bytes);
    return ATTN_OK;
}

int attn_gpu_kernel(const char *name, uint32_t, void **kernel, char *why, size_t size)
{
    for (const entry &known : kernels)
        if (strcmp(known.name, name) == 0) {
            *kernel = const_cast<entry *>(&known);
            return ATTN_OK;
        }
    snprintf(why, size, "there is no kernel %s", name);
    return ATTN_FAILED;
}

int attn_gpu_queue_create(void **queue, char *, size_t)
{
    *queue = &queue_of_all;
    return ATTN_OK;
}

void attn_gpu_queue_destroy(void *)
{
}

int attn_gpu_mark(void *, int, char *, size_t)
{
    return ATTN_OK;
}

int attn_gpu_launch(void *, void *kernel, const struct attn_gpu_grid *grid,
                    const struct attn_cuda_args *args, char *why, size_t size)
{
    const char *wrong =
        emulated_launch(((const entry *)kernel)->function, args, (int)grid->blocks_x,
                        (int)grid->blocks_z, (int)grid->threads, grid->shared_bytes);
    if (!wrong)
        return ATTN_OK;
    snprintf(why, size, "%s", wrong);
    return ATTN_FAILED;
}

int attn_gpu_wait(void *, char *, size_t)
{
    return ATTN_OK;
}

int attn_gpu_elapsed(void *, double *ns, char *, size_t)
{
    *ns = 1; /* nothing here says how long a GPU would take */
    return ATTN_OK;
}

} /* extern "C" */
