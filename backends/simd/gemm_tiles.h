/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_tiles.h - part of gemm_template.h: the products of gemm_product.h by AMX tiles. Panels of
 * weights are those of pairs, with an inner extent of whole tiles. */

/* Some rows of x, and the panels of a block. */
struct gemm_operands {
    const void *x;
    int64_t x_bytes; /* between two rows */
    const void *w;   /* [panels][depth][NR] pairs */
    uint32_t type;
    int64_t depth, panels;
    float *s; /* [rows][LD] */
};

/* `count` <= MR rows of x from r on. In place if they are whole tiles of one batch: tiles read rows
 * that do not exist. */
static void gemm_rows(const struct attn_gemm *job, const struct gemm_block *block, int64_t r,
                      int count, float *copy, struct gemm_operands *op)
{
    const bool whole = count == AMX_ROWS || count == 2 * AMX_ROWS;
    if (whole && job->x.stride[2] == 1 && block->depth <= job->inner - block->e0 &&
        r / job->batch_rows == (r + count - 1) / job->batch_rows) {
        op->x = (const uint16_t *)job->x.data + gemm_index(job, &job->x, r, block->e0);
        op->x_bytes = job->x.stride[1] * (int64_t)sizeof(uint16_t);
        return;
    }
    op->x = copy;
    op->x_bytes = ATTN_GEMM_DEPTH * (int64_t)sizeof *copy;
    for (int n = 0; n < count; n++, copy += ATTN_GEMM_DEPTH) {
        const float *row = gemm_pairs(job, block, r + n, copy);
        if (row != copy)
            memcpy(copy, row, (size_t)block->depth * sizeof(uint16_t));
    }
}

FLASH_APART void gemm_product(int count, const struct gemm_operands *op)
{
    const float *w = op->w;
    for (int64_t column = 0; column < op->panels * FLASH_NR; column += AMX_BLOCK) {
        const float *from = w + column / FLASH_NR * FLASH_NR * op->depth + column % FLASH_NR;
        amx_multiply(count, AMX_BLOCK,
                     (struct amx_product){.a = op->x,
                                          .a_bytes = op->x_bytes,
                                          .b = from,
                                          .steps = 2 * op->depth / AMX_INNER,
                                          .c = op->s + column,
                                          .c_row = LD});
    }
}
