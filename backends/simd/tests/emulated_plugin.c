/* SPDX-License-Identifier: Apache-2.0 */
/* emulated_plugin.c - the rungs that this machine may lack over emulated instructions, as backends
 * `amx_bf16_emu` and `avx512_fp16_emu`, for tests: the plugin's own slots around instances that
 * were compiled with amx_emulation.h and fp16_emulation.h. */
#define TABLE_ELSEWHERE
#pragma GCC diagnostic ignored "-Wunused-function" /* slots of the others */
#include "../plugin.c"

extern const struct attn_flash_isa attn_flash_amx_emu, attn_flash_fp16_emu;

/* What surrounds the products is not emulated. */
static int probe_amx_bf16_emu(const struct attn_services *services, char *why, size_t size)
{
    return probe_avx512_bf16(services, why, size);
}

static int probe_avx512_fp16_emu(const struct attn_services *services, char *why, size_t size)
{
    return probe_avx512_pairs(services, why, size);
}

static int create_amx_bf16_emu(const struct attn_problem *problem,
                               const struct attn_services *services, void **plan, char *why,
                               size_t size)
{
    return create(&attn_flash_amx_emu, problem, services, plan, why, size);
}

static int create_avx512_fp16_emu(const struct attn_problem *problem,
                                  const struct attn_services *services, void **plan, char *why,
                                  size_t size)
{
    return create(&attn_flash_fp16_emu, problem, services, plan, why, size);
}

RUNG(amx_bf16_emu, supports_bf16, "f32", "AVX-512 and emulated AMX");
RUNG(avx512_fp16_emu, supports_f16, SUMS_FP16, "AVX-512 and emulated FP16");

static const struct attn_backend *const emulated[] = {&amx_bf16_emu, &avx512_fp16_emu};

const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .n_backends = sizeof emulated / sizeof *emulated,
    .backends = emulated,
};
