/* SPDX-License-Identifier: Apache-2.0 */
/* flash.h - what the plan, the masks and the kernel instances share: one attention job, cut
 * into items, and the scratch memory one thread needs for an item.
 *
 * Operands are f32, f16 or bf16; all arithmetic and all scratch memory is f32. 16-bit elements are
 * widened where an operand is packed or, in place, where it is read, and narrowed where a result is
 * stored.
 *
 * Letters: b batch, h query head, g group of query heads, i query, j key, c column, u hidden unit,
 * r folded row. The query heads of one key/value head are a group, folded into the rows: with G of
 * them, row r = i*G + (h - g*G), so that K and V are packed once for all of them and neighbouring
 * rows have neighbouring masks. Where heads have score parameters of their own, each is a group by
 * itself. An item is up to item_rows consecutive rows of one (b, g).
 *
 * Where few rows meet many keys (decoding) an item is all rows of a (b, g) and the keys of one of
 * `splits` parts: it leaves its share of the output in `parts`, and who finishes the last part of a
 * (b, g) merges them. How keys are split depends on the shape of one batch entry alone. */
#ifndef ATTN_SIMD_FLASH_H
#define ATTN_SIMD_FLASH_H

#include <stdbool.h>
#include <stdint.h>

#include "attnbench/problem.h"

/* Error bounds of the instances' exp and tanh (see flash_softmax.h), relative. */
#define ATTN_FLASH_E_EXP  2e-7
#define ATTN_FLASH_E_TANH 2.5e-7
/* That of the exp of weights that are stored in 16 bits (flash_weights_pairs.h). */
#define ATTN_PAIRS_E_EXP 1.1e-4

/* Most keys a tile, and the floats between two rows of scores: a constant, so that the rows of a
 * micro-kernel are one pointer with displacements; more than a power of two, so that they do not
 * fall into the same cache sets. A single row that is read in place has the room of several. */
#define ATTN_FLASH_MOST_KEYS    512
#define ATTN_FLASH_ROW_KEYS     (4 * ATTN_FLASH_MOST_KEYS)
#define ATTN_FLASH_SCORE_STRIDE (ATTN_FLASH_MOST_KEYS + 16)

/* A problem prepared for the kernels. Everything but the data pointers is fixed by the plan. */
struct attn_flash {
    const struct attn_problem *problem; /* that of the plan */
    struct attn_operands operands;
    uint32_t dtype; /* of q, k and v: f32, f16 or bf16. Any of them: out, weights, bias, alibi, sink
                       and score parameters; lse is f32 */
    int64_t b, groups, group, sq, sk; /* group: query heads in one of the groups */
    int64_t share;                    /* groups that share a key/value head */
    int64_t dq, dk, dv, dh;
    int64_t dp;     /* width of the queries that meet the keys: dk, additive: dh */
    uint32_t score; /* enum attn_score */
    uint64_t flags; /* ATTN_FLAG_* */

    /* Scores live in the log2 domain: what is packed (k, M, w_v; gaussian: the score itself) is
     * multiplied by `factor`: scale*log2(e), or scale/softcap times what tanh_log2 wants where
     * softcap follows with its own factor cap2; both times -1/2 for gaussian. */
    float factor;
    float unit; /* what scores in memory are multiplied by to lie in that domain: 1, or factor where
                   K is packed as pairs, which cannot take it, and nothing else follows */
    float cap2; /* softcap * log2(e) */
    float keep_by;      /* 1 / (1 - dropout_p) */
    uint32_t keep_from; /* attn_dropout_threshold */

    bool direct;       /* few rows: K and V are read in place (flash_direct.h) */
    int64_t key_block; /* keys a tile, a multiple of the instance's nr */
    int64_t item_rows; /* most rows an item, a multiple of mr */
    int64_t splits;    /* parts of the keys, 1: not split */
    int64_t part_keys; /* keys a part, a multiple of key_block */
    float *parts; /* [b][groups][splits], each attn_flash_part(job) floats: [rows][dv rounded up
                     to a vector] output, [rows] maximum, [rows] denominator */
};

struct attn_flash_item {
    int64_t head;       /* b * groups + g */
    int64_t row0, rows; /* folded rows; all of them where keys are split */
    int64_t part;
};

/* tanh_log2(x) is tanh(x / ATTN_FLASH_TANH): x is packed with this factor, 2 log2(e). */
#define ATTN_FLASH_TANH 2.8853900817779268

/* Working memory of one thread, aligned to 64 bytes. */
struct attn_flash_scratch {
    float *k;    /* [key_block/nr][dk][nr] packed keys */
    float *held; /* [16][dk or dv, rounded up to 16] rows of K or V in f32; 16-bit operands alone */
    float *v;    /* [dv/nr, rounded up][key_block][nr] packed values */
    float *s;    /* [1 + beside][mr][ATTN_FLASH_SCORE_STRIDE] scores, then weights, of row groups */
    float *q;    /* [item_rows][dp rounded up to a vector] queries that cannot be read in place */
    float *o;    /* [item_rows][dv rounded up to a vector] unnormalised output */
    float *max;  /* [item_rows] running maximum, log2 domain */
    float *sum;  /* [item_rows] running denominator, relative to max */
    int64_t *lo; /* [item_rows] first key that lengths, causal and window allow */
    int64_t *hi; /* [item_rows] one past the last */
    unsigned char *stage; /* [item_rows/mr] how far the output of each row group has come */

    /* Score parameters of the item's heads, packed; bilinear and additive only. */
    float *p_q;    /* [dp/nr][dq][nr] M^T or W_q, zeros beyond dp */
    float *x;      /* [mr][dq rounded up to a vector] queries before they are projected */
    float *p_k;    /* [dh][dk] W_k */
    float *w_v;    /* [dh] */
    float *hidden; /* [dh][ATTN_FLASH_SCORE_STRIDE] W_k k of a tile */
};

struct attn_gemm;
struct attn_gemm_part;
struct attn_gemm_scratch;

/* One instance of the templates: its micro-kernel shape and its entries. */
struct attn_flash_isa {
    const char *name;
    int mr; /* rows a micro-kernel */
    int nr; /* keys (scores) or columns (output) a micro-kernel */

    /* What the inner extents of its products are rounded up to: 1, of floats; or they are pairs of
     * a 16-bit type, and this even (flash_pack_pairs.h). Pairs are for dot products of that type
     * with more than `direct_rows` a key/value head; `other` serves the rest. */
    int step;
    uint32_t pairs; /* enum attn_dtype; 0 with floats */
    int chain;      /* products that are summed in that type before their sum joins one of f32; 0:
                       none */
    const struct attn_flash_isa *other;       /* NULL with floats */
    const struct attn_flash_isa *projections; /* whose run_gemm stands in for its own; NULL: none */

    /* Groups of mr rows that are under way beside the one at hand, each with scores of its own. */
    int beside;

    /* Up to so many rows a key/value head packing K and V costs more than it saves: they are read
     * in place, by `other` where there is one. */
    int direct_rows;

    /* Computes one item. Any thread, distinct scratch. Reads no byte outside the operands; needs no
     * alignment of theirs beyond the element. `next` is the item that this thread will compute
     * after it, or NULL: what it reads may be asked for ahead of time. */
    void (*run_item)(const struct attn_flash *job, const struct attn_flash_scratch *scratch,
                     const struct attn_flash_item *item, const struct attn_flash_item *next);

    /* Where keys are split: merges the parts of head b * groups + g, all complete, in the order of
     * their keys. Any thread. */
    void (*merge_parts)(const struct attn_flash *job, const struct attn_flash_scratch *scratch,
                        int64_t head);

    /* Computes a part of a projection (gemm.h). Any thread, disjoint parts, distinct scratch. */
    void (*run_gemm)(const struct attn_gemm *job, const struct attn_gemm_part *part,
                     struct attn_gemm_scratch *scratch);
};

extern const struct attn_flash_isa attn_flash_avx2, attn_flash_avx512, attn_flash_avx512_bf16,
    attn_flash_avx512_fp16, attn_flash_amx_bf16;

static inline int64_t attn_round_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* 32-bit elements of packed operands that hold `count` of the inner axis. */
static inline int64_t attn_flash_inner(const struct attn_flash_isa *isa, int64_t count)
{
    return isa->step == 1 ? count : attn_round_up(count, isa->step) / 2;
}

/* Floats of a part; 16 is the longest vector. */
static inline int64_t attn_flash_part(const struct attn_flash *job)
{
    return attn_round_up(job->sq * job->group * (attn_round_up(job->dv, 16) + 2), 16);
}

#endif
