/* SPDX-License-Identifier: Apache-2.0 */
/* flash.h - what the plan and the kernel instances share: one attention job, its items, and the
 * scratch memory that one thread needs for an item.
 *
 * Operands are f32, f16 or bf16. Scratch memory and sums are f32; flash_template.h says what
 * differs in instances on pairs. Elements of 16 bits are widened when an operand is packed or, in
 * place, when it is read. Results are narrowed when they are stored.
 *
 * Letters: b batch, h query head, g group of query heads, i query, j key, c column, u hidden unit,
 * r folded row.
 *
 * The query heads of one key/value head form a group and are folded into the rows: in a group of G
 * heads, row r is i*G + (h - g*G). So K and V are packed once for all of them, and neighbouring
 * rows have neighbouring masks. If heads have score parameters of their own, each head is a group.
 *
 * An item is up to item_rows consecutive rows of one (b, g). If few rows meet many keys (decoding),
 * an item is all rows of a (b, g) and one of `splits` parts of the keys. It leaves its share of the
 * output in `parts`. The thread that finishes the last part of a (b, g) merges the parts. How keys
 * are split depends on the shape of one batch entry only. */
#ifndef ATTN_SIMD_FLASH_H
#define ATTN_SIMD_FLASH_H

#include <stdbool.h>
#include <stdint.h>

#include "attnbench/problem.h"

/* Relative error bounds of exp2_negative, tanh_log2 and exp2_brief (flash_exp.h). */
#define ATTN_FLASH_E_EXP  2e-7
#define ATTN_FLASH_E_TANH 2.5e-7
#define ATTN_PAIRS_E_EXP  1.1e-4

/* Error bounds of weight functions (flash_weight_fn.h). */
#define ATTN_FLASH_E_SIGMOID 4e-7
#define ATTN_FLASH_E_RELU2   2.5e-7
#define ATTN_FLASH_A_LAPLACE 5e-7

/* Most keys per tile, and the floats between two rows of scores. The stride is a constant: a
 * micro-kernel addresses its rows by one pointer and displacements. It is more than a power of two:
 * rows do not fall into the same cache sets. A single row that reads K and V in place may use the
 * room of several rows. */
#define ATTN_FLASH_MOST_KEYS    512
#define ATTN_FLASH_MOST_PLACED  384 /* disentangled scores: columns of a group fit in a row, too */
#define ATTN_FLASH_ROW_KEYS     (4 * ATTN_FLASH_MOST_KEYS)
#define ATTN_FLASH_SCORE_STRIDE (ATTN_FLASH_MOST_KEYS + 16)

/* Which rows a pass over a job computes. If the rows of global tokens have operands of their own,
 * a run makes a pass over the others and one over them. */
enum attn_flash_rows { ATTN_ROWS_ALL, ATTN_ROWS_LOCAL, ATTN_ROWS_GLOBAL };

/* A problem prepared for the kernels. The plan fixes all of it except the data pointers. */
struct attn_flash {
    const struct attn_problem *problem; /* that the plan was made for */
    struct attn_operands operands;
    uint32_t dtype; /* of q, k and v: f32, f16 or bf16. out, weights, bias, alibi, sink and score
                       parameters have any of these types; lse is f32 */
    int64_t b, groups, group, sq, sk; /* group: query heads per group */
    int64_t share;                    /* groups that share a key/value head */
    int64_t dq, dk, dv, dh;
    int64_t dp;     /* width of the queries that meet the keys: dk; additive scores: dh */
    uint32_t score; /* enum attn_score */
    uint64_t flags; /* ATTN_FLAG_* */

    /* Scores lie in the log2 domain. `factor` brings them there. It is scale * log2(e). With
     * softcap it is scale / softcap * ATTN_FLASH_TANH instead, and softcap adds its own factor
     * cap2. Gaussian scores have -1/2 in it as well. One of these three takes it: */
    float factor;
    float packed;  /* multiplies k, M or w_v when they are packed, or q if K is read in place. 1 if
                      these cannot take `factor`: gaussian scores, K packed as pairs, and a factor
                      beyond ATTN_FLASH_MOST_PACKED, with which they might overflow */
    float unit;    /* multiplies scores in the exponential. 1, except with K packed as pairs if
                      nothing comes before the exponential */
    bool late;     /* neither of the two does: scores in memory are multiplied by `factor` */
    float cap2;    /* softcap * log2(e) */
    float keep_by; /* 1 / (1 - dropout_p) */
    uint32_t keep_from; /* attn_dropout_threshold */

    /* Global tokens, or a window in steps: flash_sparse.h. The tokens are listed when a run starts:
     * those of batch b from tokens[b * sk] on, in ascending order; tokens_before has for each batch
     * how many there are before each tile of keys, and in all. */
    bool sparse;
    int32_t *tokens, *tokens_before;
    enum attn_flash_rows rows;

    bool direct;       /* few rows: K and V are read in place (flash_direct.h) */
    int64_t key_block; /* keys per tile, a multiple of the instance's nr */
    int64_t item_rows; /* most rows per item, a multiple of mr */
    int64_t splits;    /* parts of the keys; 1: not split */
    int64_t part_keys; /* keys per part, a multiple of key_block */
    float *parts; /* [b][groups][splits], each attn_flash_part(job) floats: [rows][dv rounded up
                     to a vector] output, [rows] maximum, [rows] denominator */
};

/* Packed operands take a factor up to this size, so they overflow only where an element exceeds
 * 2^120. Some kinds of attention learn scales of up to 100. A score that is multiplied late costs
 * a pass over the scores. */
#define ATTN_FLASH_MOST_PACKED 0x1p8f

/* What one call of run_item computes. */
struct attn_flash_item {
    int64_t head;       /* b * groups + g */
    int64_t row0, rows; /* folded rows; all rows of the head if keys are split */
    int64_t part;       /* of the keys; 0 if they are not split */
};

/* tanh_log2(x) is tanh(x / ATTN_FLASH_TANH). Its argument is packed with this factor, 2 log2(e). */
#define ATTN_FLASH_TANH 2.8853900817779268

/* Working memory of one thread, aligned to 64 bytes. */
struct attn_flash_scratch {
    float *k;    /* [key_block/nr][dk][nr] packed keys */
    float *held; /* [16][dk or dv, rounded up to 16] rows of K, V or a table of positions in f32;
                    only with 16-bit operands, or disentangled scores */
    float *v;    /* [dv/nr, rounded up][key_block][nr] packed values */
    float *s;    /* [1 + beside][mr][ATTN_FLASH_SCORE_STRIDE] scores, then weights, of row groups */
    float *q;    /* [item_rows][dp rounded up to a vector] queries that cannot be read in place */
    float *o;    /* [item_rows][dv rounded up to a vector] unnormalised output */
    float *max;  /* [item_rows] running maximum, in the log2 domain */
    float *sum;  /* [item_rows] running denominator, relative to max */
    int64_t *lo; /* [item_rows] first key that lengths, causal and window allow */
    int64_t *hi; /* [item_rows] one past the last */
    unsigned char *stage; /* [item_rows/mr] enum stage of each row group (flash_join.h) */

    /* Packed score parameters of the item's heads; bilinear and additive scores only. */
    float *p_q;    /* [dp/nr][dq][nr] M^T or W_q, zeros beyond dp */
    float *x;      /* [mr][dq rounded up to a vector] queries before their projection */
    float *p_k;    /* [dh][dk] W_k */
    float *w_v;    /* [dh] */
    float *hidden; /* [dh][ATTN_FLASH_SCORE_STRIDE] W_k k of a tile */

    /* Products with positions; disentangled scores only (flash_places.h). */
    int32_t *column; /* [distances] of a tile and an item: their columns */
    int32_t *kr_row; /* [columns] rows of KR */
    int32_t *qr_row; /* [columns] rows of QR */
    int32_t *starts; /* [columns + 1] first distance of a column */
    float *kr;       /* [columns/nr, rounded up][dk][nr] packed rows of KR */
    float *p2c;      /* [columns][ATTN_FLASH_SCORE_STRIDE] k.QR; not with K in place */
    float *c2p;      /* [mr][ATTN_FLASH_SCORE_STRIDE] q.KR of a group */
};

/* A number of f32 is the sum of as many of bf16, exactly: products of pairs meet a state so. */
enum { ATTN_STATE_PARTS = 3 };

struct attn_recurrent_part;
struct attn_project_part;
struct attn_landmark_part;
struct attn_backward;
struct attn_backward_scratch;
struct attn_gemm;
struct attn_gemm_part;
struct attn_gemm_scratch;

/* One instance of the templates: the shape of its micro-kernels, and its functions. */
struct attn_flash_isa {
    const char *name; /* NULL: the compiler has no such instructions; the rest is 0 */
    int mr;           /* rows of a micro-kernel */
    int nr;           /* keys (scores) or columns (output) of a micro-kernel */

    /* The inner extents of its products are rounded up to `step`. 1: products of floats. Even:
     * products of pairs of type `pairs` (flash_pack_pairs.h). Pairs serve dot products of that type
     * with more than direct_rows rows per key/value head; `other` serves everything else. */
    int step;
    uint32_t pairs; /* enum attn_dtype; 0: floats */
    int chain;      /* products summed in that type before their sum joins one of f32; 0: none */
    const struct attn_flash_isa *other;       /* NULL: floats */
    const struct attn_flash_isa *projections; /* its run_gemm is used instead; NULL: the own one */

    /* Row groups under way in addition to the one at hand. Each needs scores of its own. */
    int beside;

    /* Up to this many rows per key/value head, packing K and V costs more than it saves. They are
     * read in place then, by `other` if there is one. */
    int direct_rows;

    /* Computes one item. Any thread, distinct scratch. Reads no byte outside the operands and needs
     * them aligned to their elements only. `next` is the item that this thread computes after it,
     * or NULL; its operands may be prefetched. */
    void (*run_item)(const struct attn_flash *job, const struct attn_flash_scratch *scratch,
                     const struct attn_flash_item *item, const struct attn_flash_item *next);

    /* If keys are split: merges the parts of head b * groups + g in the order of their keys. All of
     * them must be complete. Any thread. */
    void (*merge_parts)(const struct attn_flash *job, const struct attn_flash_scratch *scratch,
                        int64_t head);

    /* Computes a part of a projection (gemm.h). Any thread, disjoint parts, distinct scratch. */
    void (*run_gemm)(const struct attn_gemm *job, const struct attn_gemm_part *part,
                     struct attn_gemm_scratch *scratch);

    /* Compute all steps of some columns of wkv, linear_decay and chunked (recurrent.h). Any thread,
     * disjoint parts, distinct scratch. NULL: this rung does none of them. */
    void (*run_wkv)(const struct attn_recurrent_part *part);
    void (*run_decay)(const struct attn_recurrent_part *part);
    void (*run_chunked)(const struct attn_recurrent_part *part);

    /* Computes a part of the projected keys or values (projected.h). Any thread, disjoint parts,
     * distinct scratch. NULL: this rung does not. */
    void (*run_project)(const struct attn_project_part *part);
    /* Computes a head of performer. NULL: this rung does not. */
    void (*run_performer)(const struct attn_recurrent_part *part);
    /* The same of lsh. */
    void (*run_lsh)(const struct attn_recurrent_part *part);
    /* Of a head of nystrom (landmarks.h): means, A and its largest column sum, which is returned;
     * Z and Z G V. Any thread, distinct scratch. NULL: this rung does not. */
    float (*weigh_landmarks)(const struct attn_landmark_part *part);
    void (*invert_landmarks)(const struct attn_landmark_part *part, float norm);
    /* Gradients (backward.h): what is needed of the rows of a query tile, and a unit, once all rows
     * are prepared. Any thread, distinct scratch. NULL: this rung does not. */
    void (*prepare_backward)(struct attn_backward *job, const struct attn_backward_scratch *scratch,
                             int64_t b, int64_t h, int64_t tile);
    void (*run_backward)(struct attn_backward *job, const struct attn_backward_scratch *scratch,
                         int64_t unit);
};

extern const struct attn_flash_isa attn_flash_avx2, attn_flash_avx512, attn_flash_avx512_bf16,
    attn_flash_avx512_fp16, attn_flash_amx_bf16;

static inline int64_t attn_round_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Columns of v in blocks of about equal size. The largest micro-kernel is 64 columns wide. */
static inline int64_t attn_columns_of(const struct attn_problem *p, int64_t most)
{
    const int64_t blocks = (p->dv + most - 1) / most;
    return attn_round_up((p->dv + blocks - 1) / blocks, 64);
}

/* Tiles of all keys. */
static inline int64_t attn_flash_tiles(const struct attn_flash *job)
{
    return (job->sk + job->key_block - 1) / job->key_block;
}

/* Elements of 32 bits that hold `count` elements of the inner axis of a packed operand. */
static inline int64_t attn_flash_inner(const struct attn_flash_isa *isa, int64_t count)
{
    return isa->step == 1 ? count : attn_round_up(count, isa->step) / 2;
}

/* Floats per part. 16 is the longest vector. */
static inline int64_t attn_flash_part(const struct attn_flash *job)
{
    return attn_round_up(job->sq * job->group * (attn_round_up(job->dv, 16) + 2), 16);
}

#endif
