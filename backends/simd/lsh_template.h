/* SPDX-License-Identifier: Apache-2.0 */
/* lsh_template.h - the kernel of lsh, after performer_template.h, of which it has the products. A
 * head is hashed and sorted, then goes through the sorted list piece by piece: the queries of a
 * piece meet its keys and those of the piece before. A key that is seen twice is met twice. One
 * online softmax goes on through all rounds of a query. */
#include "lsh.h"
#include "recurrent.h"

#include "lsh_hash_template.h"
#include "lsh_tile_template.h"

static void lsh_take_values(const struct attn_recurrent_part *part, const struct attn_lsh_room *w,
                            const int32_t *token, struct attn_lsh_piece *piece)
{
    const struct attn_tensor *v = &part->operands->v;
    const int64_t dv = part->problem->dv;
    vf none = vf_set1(0);
    for (int64_t n = 0; n < w->chunk; n++) {
        float *to = piece->v + n * w->dv_room;
        widen(v, attn_row_start(v, part->b, part->h, token[n]), v->stride[3], dv, to);
        for (int64_t c = 0; c < dv; c += VF_LANES)
            none = vf_fma(vf_load(to + c), vf_set1(0), none);
        piece->id[n] = (float)token[n];
    }
    piece->finite = vf_all_equal(none, vf_set1(0));
    for (int64_t n = 0; n < w->chunk; n += VF_LANES)
        piece->low[n / VF_LANES] = -vf_largest(vf_sub(vf_set1(0), vf_load(piece->id + n)));
}

/* A vector of keys at a time. Their lengths and the factor are multiplied one after the other:
 * together they may be beyond f32. */
static void lsh_take_keys(const struct attn_recurrent_part *part, const struct attn_lsh_room *w,
                          const int32_t *token, const struct attn_lsh_piece *piece)
{
    const struct attn_tensor *q = &part->operands->q;
    const int64_t dk = part->problem->dk;
    const float factor = attn_lsh_factor(part->problem);
    for (int64_t n = 0; n < w->chunk; n += VF_LANES) {
        float *keys = piece->keys + n / w->tile * w->tile * w->dk_room + n % w->tile;
        for (int64_t m = 0; m < VF_LANES && n + m < w->chunk; m++) {
            float *key = w->turn + m * w->dk_room;
            const vf by = vf_set1(w->by[token[n + m]]);
            widen(q, attn_row_start(q, part->b, part->h, token[n + m]), q->stride[3], dk, key);
            for (int64_t c = 0; c < dk; c += VF_LANES)
                vf_store(key + c, vf_mul(vf_load(key + c), by));
        }
        for (int64_t c = 0; c < dk; c += VF_LANES)
            vf_transpose(w->turn + c, w->dk_room, factor, keys + c * w->tile, w->tile);
    }
}

static void lsh_take_piece(const struct attn_recurrent_part *part, const struct attn_lsh_room *w,
                           int64_t number, struct attn_lsh_piece *piece)
{
    lsh_take_values(part, w, w->token + number * w->chunk, piece);
    lsh_take_keys(part, w, w->token + number * w->chunk, piece);
}

/* Queries meet the keys of a tile: all row groups multiply the keys before one multiplies the
 * values, so that what they read stays in the first cache. */
static void lsh_meet_tile(const struct attn_recurrent_part *part, const struct attn_lsh_room *w,
                          const struct lsh_queries *x, const struct attn_lsh_piece *piece,
                          int64_t first)
{
    struct lsh_keys keys[ATTN_LSH_ROWS / FLASH_MR];
    for (int64_t row = 0; row < x->rows; row += FLASH_MR) {
        struct lsh_keys *own = &keys[row / FLASH_MR];
        own->piece = piece;
        own->first = first;
        own->count = attn_clamp(w->chunk - first, 1, w->tile);
        lsh_list_keys(x, row, attn_clamp(x->rows - row, 1, FLASH_MR), own);
        lsh_score(w, part->problem->dk, row, own);
    }
    for (int64_t row = 0; row < x->rows; row++)
        lsh_weigh(x, w, row, &keys[row / FLASH_MR]);
    for (int64_t row = 0; piece->finite && row < x->rows; row += FLASH_MR)
        lsh_join(w, row, &keys[row / FLASH_MR]);
    for (int64_t row = 0; !piece->finite && row < x->rows; row++)
        lsh_join_seen(x, w, row, &keys[row / FLASH_MR]);
}

/* Queries, and what earlier rounds made of them. */
static void lsh_take_queries(const struct attn_recurrent_part *part, const struct attn_lsh_room *w,
                             const struct lsh_queries *x, bool first_round)
{
    const struct attn_tensor *q = &part->operands->q;
    const size_t bytes = (size_t)w->dv_room * sizeof(float);
    for (int64_t n = 0; n < x->rows; n++) {
        const int64_t i = x->token[n];
        float *o = w->o + n * w->dv_room;
        widen(q, attn_row_start(q, part->b, part->h, i), q->stride[3], part->problem->dk,
              w->x + n * w->dk_room);
        w->most[n] = first_round ? -INFINITY : w->all_most[i];
        w->sum[n] = first_round ? 0 : w->all_sum[i];
        if (first_round)
            memset(o, 0, bytes);
        else
            memcpy(o, w->all_o + i * w->dv_room, bytes);
    }
}

static void lsh_keep_queries(const struct attn_lsh_room *w, const struct lsh_queries *x)
{
    for (int64_t n = 0; n < x->rows; n++) {
        const int64_t i = x->token[n];
        memcpy(w->all_o + i * w->dv_room, w->o + n * w->dv_room,
               (size_t)w->dv_room * sizeof(float));
        w->all_most[i] = w->most[n];
        w->all_sum[i] = w->sum[n];
    }
}

/* out and lse. A query that saw no other key sees its own. */
static void lsh_store_queries(const struct attn_recurrent_part *part, const struct attn_lsh_room *w,
                              const struct lsh_queries *x)
{
    const struct attn_problem *p = part->problem;
    const struct attn_operands *operands = part->operands;
    const struct attn_tensor *out = &operands->out, *lse = &operands->lse, *v = &operands->v;
    for (int64_t n = 0; n < x->rows; n++) {
        const int64_t i = x->token[n];
        const float *q = w->x + n * w->dk_room;
        float *o = w->o + n * w->dv_room;
        if (w->most[n] == -INFINITY) {
            widen(v, attn_row_start(v, part->b, part->h, i), v->stride[3], p->dv, o);
            w->most[n] =
                dot_of(q, q, attn_round_up(p->dk, VF_LANES)) * w->by[i] * attn_lsh_factor(p);
            w->sum[n] = 1;
        }
        narrow(out, attn_row_start(out, part->b, part->h, i), out->stride[3], p->dv, o,
               1 / w->sum[n]);
        /* In double, so that the error of the logarithm does not count. */
        if (lse->dtype)
            ((float *)lse->data)[attn_row_start(lse, part->b, part->h, i)] =
                (float)(((double)w->most[n] + log2((double)w->sum[n])) * 0.69314718055994531);
    }
}

/* The queries of piece `number`. Tokens of one round are all different, so only the own piece and a
 * piece of another round may hold the own token. `before` is NULL if there is one piece only. */
static void lsh_attend(const struct attn_recurrent_part *part, const struct attn_lsh_room *w,
                       int64_t number, const struct attn_lsh_piece *own,
                       const struct attn_lsh_piece *before)
{
    const struct attn_problem *p = part->problem;
    const int64_t in_round = p->sq / w->chunk, round = number / in_round;
    const bool last = p->variant == ATTN_LSH_LAST;
    for (int64_t first = 0; first < w->chunk; first += w->rows) {
        struct lsh_queries x = {.token = w->token + number * w->chunk + first,
                                .rows = attn_clamp(w->chunk - first, 1, w->rows),
                                .causal = p->flags & ATTN_FLAG_CAUSAL};
        lsh_take_queries(part, w, &x, round == 0);
        x.last = last && number % in_round == 0 && p->rounds > 1;
        for (int64_t n = 0; before && n < w->chunk; n += w->tile)
            lsh_meet_tile(part, w, &x, before, n);
        x.last = last;
        for (int64_t n = 0; n < w->chunk; n += w->tile)
            lsh_meet_tile(part, w, &x, own, n);
        if (round == p->rounds - 1)
            lsh_store_queries(part, w, &x);
        else
            lsh_keep_queries(w, &x);
    }
}

static void run_lsh(const struct attn_recurrent_part *part)
{
    struct attn_lsh_room w;
    attn_lsh_lay_out(part->problem, FLASH_MR, FLASH_NR, part->scratch, &w);
    struct attn_lsh_piece *own = &w.piece[0], *before = &w.piece[1];
    memset(part->scratch, 0, (size_t)(w.by - part->scratch) * sizeof(float));
    lsh_sort(part, &w);
    if (w.pieces > 1)
        lsh_take_piece(part, &w, w.pieces - 1, before);
    for (int64_t n = 0; n < w.pieces; n++) {
        struct attn_lsh_piece *const previous = before;
        lsh_take_piece(part, &w, n, own);
        lsh_attend(part, &w, n, own, w.pieces > 1 ? previous : NULL);
        before = own;
        own = previous;
    }
}
