/* SPDX-License-Identifier: Apache-2.0 */
/* flash_avx512_bf16.c - the AVX512-BF16 instance of flash_template.h and gemm_template.h: products
 * of pairs of bf16, twice as many per cycle as of floats. It runs only after the processor was
 * asked. */
#include "flash.h"
#include "vector_avx512_bf16.h"

/* As in flash_avx512.c. */
#define FLASH_MR       6
#define FLASH_NV       4
#define FLASH_TYPE     ATTN_BF16
#define FLASH_PRODUCTS FLASH_OF_PAIRS

#include "flash_template.h"
#include "gemm_template.h"
#include "matrix_tile.h"

#include "matrix_vectors.h"

#include "matrix_pairs.h"

#include "backward_template.h"
#include "chunked_template.h"
#include "performer_pairs.h"
#include "project_pairs.h"

const struct attn_flash_isa attn_flash_avx512_bf16 = {.name = "avx512_bf16",
                                                      .mr = FLASH_MR,
                                                      .nr = FLASH_NR,
                                                      .step = FLASH_STEP,
                                                      .pairs = FLASH_TYPE,
                                                      .other = &attn_flash_avx512,
                                                      .direct_rows = 2,
                                                      .run_item = run_item,
                                                      .merge_parts = merge_parts,
                                                      .run_gemm = run_gemm,
                                                      .run_chunked = run_chunked,
                                                      .run_project = run_project,
                                                      .run_performer = run_performer,
                                                      .prepare_backward = prepare_backward,
                                                      .run_backward = run_backward};
