/* SPDX-License-Identifier: Apache-2.0 */
/* flash_avx512_fp16.c - the AVX512-FP16 instance of flash_template.h: both products of pairs of
 * f16, summed in f16 a few at a time. Entered only after the processor was asked. Unmeasured: see
 * README.md. */
#include "vector_avx512_fp16.h"

#define FLASH_PAIRS 1
#define FLASH_TYPE  ATTN_F16
#define FLASH_TILES 0
#define FLASH_STEP  2
#define FLASH_CHAIN 16

#include "flash_template.h"

const struct attn_flash_isa attn_flash_avx512_fp16 = {.name = "avx512_fp16 (unmeasured)",
                                                      .mr = FLASH_MR,
                                                      .nr = FLASH_NR,
                                                      .step = FLASH_STEP,
                                                      .pairs = FLASH_TYPE,
                                                      .chain = FLASH_CHAIN,
                                                      .other = &attn_flash_avx512,
                                                      .projections = &attn_flash_avx512,
                                                      .direct_rows = 7,
                                                      .run_item = run_item,
                                                      .merge_parts = merge_parts};
