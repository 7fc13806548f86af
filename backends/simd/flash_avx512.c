/* SPDX-License-Identifier: Apache-2.0 */
/* flash_avx512.c - the AVX-512 instance of flash_template.h, compiled with -mavx512f and
 * entered only after the processor was asked. */
#include "vector_avx512.h"

#define FLASH_PAIRS 0
#define FLASH_TILES 0
#define FLASH_CHAIN 0

#include "flash_template.h"
#include "gemm_template.h"

const struct attn_flash_isa attn_flash_avx512 = {.name = "avx512",
                                                 .mr = FLASH_MR,
                                                 .nr = FLASH_NR,
                                                 .step = 1,
                                                 .direct_rows = 7,
                                                 .run_item = run_item,
                                                 .merge_parts = merge_parts,
                                                 .run_gemm = run_gemm};
