/* SPDX-License-Identifier: Apache-2.0 */
/* flash_product_tiles.h - part of flash_template.h: the two products in AMX tiles (amx_tiles.h).
 * Operands are those of flash_pack_pairs.h. Rows of q lie query_stride apart.
 *
 * The vectors work on a block of sums, in memory, while the products of the next block run. */

#define FLASH_FORBIDS 0 /* flash_kernel_f32.h */

/* Raises top to the scores of keys [from, to). */
static void raise_top(int count, const struct span *x, int64_t from, int64_t to)
{
    for (int r = 0; r < count && from < to; r++) {
        const float *s = x->s + r * LD;
        vf top = vf_load(x->top + r * VF_LANES);
        for (int64_t j = from; j < to; j += VF_LANES)
            top = vf_max(vf_load(s + j), top);
        vf_store(x->top + r * VF_LANES, top);
    }
}

/* Dot products of `count` rows with the keys of a span. */
FLASH_APART void score_product(int count, const struct span *x)
{
    int64_t raise_from = x->from, raise_to = x->from;
    for (int64_t j = x->from, end; j < x->to; j = end) {
        end = j / FLASH_NR * FLASH_NR + FLASH_NR;
        end = end < x->to ? end : x->to;
        if (x->ahead)
            fetch_ahead(x->ahead);
        const float *k = x->k + j / FLASH_NR * FLASH_NR * x->dk + j % FLASH_NR;
        for (int64_t n = 0; n < end - j; n += AMX_BLOCK)
            amx_multiply(count, end - j - n,
                         (struct amx_product){.a = x->q[0],
                                              .a_bytes = x->dk * AMX_PAIR,
                                              .b = k + n,
                                              .steps = 2 * x->dk / AMX_INNER,
                                              .c = x->s + j + n,
                                              .c_row = LD,
                                              .meanwhile = x->meanwhile});
        raise_top(count, x, raise_from, raise_to);
        raise_from = j;
        raise_to = j >= x->clean_from && end <= x->clean_to ? end : j;
    }
    raise_top(count, x, raise_from, raise_to);
}

/* The sums of one block, columns [column, column + AMX_BLOCK) as far as they exist, join o. */
static void join_sums(int count, const struct product *x, int64_t column, const float *sums)
{
    int64_t left = x->width - column, columns = left < AMX_BLOCK ? left : AMX_BLOCK;
    for (int r = 0; r < count; r++) {
        const float *o = x->o + r * x->width + column;
        const vf by = vf_set1(x->by[r]), rescale = vf_set1(x->rescale[r]);
        for (int64_t c = 0; c < columns; c += VF_LANES) {
            vf sum = vf_load(sums + r * AMX_BLOCK + c);
            if (!x->fresh)
                sum = vf_fma(rescale, vf_load(o + c), sum);
            vf_storeu(x->to[r] + column + c, vf_mul(by, sum));
        }
    }
}

/* Takes whole steps of keys around [lo, hi). Weights and V are 0 outside. */
FLASH_APART void value_product(int count, const struct product *x)
{
    float sums[2][AMX_BLOCK * AMX_BLOCK] __attribute__((aligned(64)));
    const int64_t lo = x->lo / (AMX_INNER / 2) * (AMX_INNER / 2);
    const int64_t steps = (attn_round_up(x->hi, AMX_INNER / 2) - lo) / (AMX_INNER / 2);
    for (int64_t c = 0; c < x->width; c += AMX_BLOCK) {
        const float *v = x->v + c / FLASH_NR * x->v_panel + c % FLASH_NR + lo * x->v_key;
        amx_multiply(count, x->width - c,
                     (struct amx_product){.a = x->p + lo,
                                          .a_bytes = LD * AMX_PAIR,
                                          .b = v,
                                          .steps = steps,
                                          .c = sums[c / AMX_BLOCK % 2],
                                          .c_row = AMX_BLOCK,
                                          .meanwhile = x->meanwhile});
        if (c > 0)
            join_sums(count, x, c - AMX_BLOCK, sums[c / AMX_BLOCK % 2 ^ 1]);
    }
    int64_t last = (x->width - 1) / AMX_BLOCK;
    join_sums(count, x, last * AMX_BLOCK, sums[last % 2]);
}
