/* SPDX-License-Identifier: Apache-2.0 */
/* flash_amx_bf16.c - the AMX-BF16 instance of flash_template.h: products in tiles, with the weights
 * of other rows between their steps. It runs only after processor and system were asked
 * (amx_probe.h). */
#include "amx_tiles.h"
#include "flash.h"
#include "vector_avx512_bf16.h"

#define FLASH_MR       AMX_BLOCK
#define FLASH_NV       4
#define FLASH_TYPE     ATTN_BF16
#define FLASH_PRODUCTS FLASH_OF_TILES

#include "flash_template.h"
#include "gemm_template.h"
#include "matrix_tile.h"

#include "matrix_amx.h"

#include "matrix_pairs.h"

#include "backward_template.h"
#include "chunked_template.h"
#include "performer_pairs.h"
#include "project_pairs.h"

/* Tiles are state of the thread. A run leaves it as it was. */
static void run_item_in_tiles(const struct attn_flash *job,
                              const struct attn_flash_scratch *scratch,
                              const struct attn_flash_item *item,
                              const struct attn_flash_item *next)
{
    amx_begin();
    run_item(job, scratch, item, next);
    amx_end();
}

static void run_gemm_in_tiles(const struct attn_gemm *job, const struct attn_gemm_part *part,
                              struct attn_gemm_scratch *scratch)
{
    amx_begin();
    run_gemm(job, part, scratch);
    amx_end();
}

static void run_project_in_tiles(const struct attn_project_part *part)
{
    amx_begin();
    run_project(part);
    amx_end();
}

static void run_chunked_in_tiles(const struct attn_recurrent_part *part)
{
    amx_begin();
    run_chunked(part);
    amx_end();
}

static void run_performer_in_tiles(const struct attn_recurrent_part *part)
{
    amx_begin();
    run_performer(part);
    amx_end();
}

static void run_backward_in_tiles(struct attn_backward *job,
                                  const struct attn_backward_scratch *scratch, int64_t unit)
{
    amx_begin();
    run_backward(job, scratch, unit);
    amx_end();
}

const struct attn_flash_isa attn_flash_amx_bf16 = {.name = "amx_bf16",
                                                   .mr = FLASH_MR,
                                                   .nr = FLASH_NR,
                                                   .step = FLASH_STEP,
                                                   .pairs = FLASH_TYPE,
                                                   .other = &attn_flash_avx512,
                                                   .direct_rows = 7,
                                                   .beside = AMX_BESIDE,
                                                   .run_item = run_item_in_tiles,
                                                   .merge_parts = merge_parts,
                                                   .run_gemm = run_gemm_in_tiles,
                                                   .run_chunked = run_chunked_in_tiles,
                                                   .run_project = run_project_in_tiles,
                                                   .run_performer = run_performer_in_tiles,
                                                   .prepare_backward = prepare_backward,
                                                   .run_backward = run_backward_in_tiles};
