/* SPDX-License-Identifier: Apache-2.0 */
/* flash_fetch.h - part of flash_template.h: prefetches between the panels of a product. Each panel
 * of keys asks for a few lines. Many lines at once would take the buffers through which the product
 * reads its own operands. flash_ahead.h chooses the lines. */

/* Lines to prefetch. */
struct ahead {
    const char *k, *v;         /* next row of K and of V */
    int64_t k_step, v_step;    /* bytes from row to row */
    int64_t k_bytes, v_bytes;  /* per row */
    int64_t rows, rows_a_time; /* rows left, rows per panel */

    const char *q[FLASH_MR], *o[FLASH_MR]; /* rows of q, and of w->o or out */
    int64_t q_bytes, o_bytes;              /* per row */
    const char *bias[FLASH_MR];            /* the keys that the tile has of it */
    int64_t bias_bytes;                    /* per row */
    int next, end, a_time;                 /* next row, end of the rows, rows per panel */
};

/* The share of one panel. */

FLASH_INLINE void fetch_ahead(struct ahead *ahead)
{
    int64_t rows = ahead->rows < ahead->rows_a_time ? ahead->rows : ahead->rows_a_time;
    ahead->rows -= rows;
    for (; rows > 0; rows--) {
        for (int64_t at = 0; at < ahead->k_bytes; at += 64)
            __builtin_prefetch(ahead->k + at, 0, 2);
        for (int64_t at = 0; at < ahead->v_bytes; at += 64)
            __builtin_prefetch(ahead->v + at, 0, 2);
        ahead->k += ahead->k_step;
        ahead->v += ahead->v_step;
    }
    for (int n = 0; n < ahead->a_time && ahead->next < ahead->end; n++, ahead->next++) {
        const char *q = ahead->q[ahead->next], *o = ahead->o[ahead->next];
        for (int64_t at = 0; at < ahead->q_bytes; at += 64)
            __builtin_prefetch(q + at);
        for (int64_t at = 0; at < ahead->o_bytes; at += 64)
            __builtin_prefetch(o + at);
        for (int64_t at = 0; at < ahead->bias_bytes; at += 64)
            __builtin_prefetch(ahead->bias[ahead->next] + at, 0, 2);
    }
}
