/* SPDX-License-Identifier: Apache-2.0 */
/* flash_avx512_fp16.c - the AVX512-FP16 instance of flash_template.h: products of pairs of f16,
 * summed in f16 a few at a time. It runs only after the processor was asked. */
#include "flash.h"
#include "vector_avx512_fp16.h"

/* As in flash_avx512.c. */
#define FLASH_MR       6
#define FLASH_NV       4
#define FLASH_TYPE     ATTN_F16
#define FLASH_PRODUCTS FLASH_OF_CHAINS

#include "flash_template.h"

const struct attn_flash_isa attn_flash_avx512_fp16 = {.name = "avx512_fp16",
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
