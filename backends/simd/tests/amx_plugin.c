/* SPDX-License-Identifier: Apache-2.0 */
/* amx_plugin.c - the AMX rung over emulated tile instructions as a backend `amx_emu`, for tests:
 * the plugin's own slots around an instance that was compiled with amx_emulation.h. */
#define TABLE_ELSEWHERE
#include "../plugin.c"

extern const struct attn_flash_isa attn_flash_amx_emu;

/* What surrounds the products is not emulated. */
static int probe_amx_emu(const struct attn_services *services, char *why, size_t size)
{
    return probe_avx512_bf16(services, why, size);
}

static int create_amx_emu(const struct attn_problem *problem, const struct attn_services *services,
                          void **plan, char *why, size_t size)
{
    return create(&attn_flash_amx_emu, problem, services, plan, why, size);
}

RUNG(amx_emu, supports_bf16, "AVX-512 and emulated AMX");

static const struct attn_backend *const emulated[] = {&amx_emu};

const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .n_backends = 1,
    .backends = emulated,
};
