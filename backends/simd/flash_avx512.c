/* SPDX-License-Identifier: Apache-2.0 */
/* flash_avx512.c - the AVX-512 instance of flash_template.h and gemm_template.h, compiled with
 * -mavx512f. It runs only after the processor was asked. */
#include "flash.h"
#include "vector_avx512.h"

/* 24 sums of 16 floats, four vectors of the packed operand and a broadcast in 32 registers. 10
 * loads for 24 products. */
#define FLASH_MR       6
#define FLASH_NV       4
#define FLASH_TYPE     ATTN_F32
#define FLASH_PRODUCTS FLASH_OF_FLOATS

#include "flash_template.h"
#include "gemm_template.h"
#include "matrix_tile.h"

#include "matrix_multiply.h"
#include "matrix_vectors.h"
#include "wkv_template.h"

#include "decay_template.h"

#include "chunked_template.h"

#include "project_template.h"

#include "performer_template.h"

#include "landmarks_template.h"

#include "backward_template.h"
#include "lsh_template.h"

const struct attn_flash_isa attn_flash_avx512 = {.name = "avx512",
                                                 .mr = FLASH_MR,
                                                 .nr = FLASH_NR,
                                                 .step = 1,
                                                 .direct_rows = 7,
                                                 .run_item = run_item,
                                                 .merge_parts = merge_parts,
                                                 .run_gemm = run_gemm,
                                                 .run_wkv = run_wkv,
                                                 .run_decay = run_decay,
                                                 .run_chunked = run_chunked,
                                                 .run_project = run_project,
                                                 .run_performer = run_performer,
                                                 .run_lsh = run_lsh,
                                                 .weigh_landmarks = weigh_landmarks,
                                                 .invert_landmarks = invert_landmarks,
                                                 .prepare_backward = prepare_backward,
                                                 .run_backward = run_backward};
