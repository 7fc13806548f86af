/* SPDX-License-Identifier: Apache-2.0 */
/* performer_template.h - the kernel of performer, after flash_template.h: features of all keys of a
 * head, a state that is their sum with the values, and queries that read it. With causal a block of
 * queries reads the state of the blocks before it, and the keys of its own block by scores. */
#include "performer.h"
#include "recurrent.h"

#include "performer_features.h"

/* w x' of `rows` rows from row `first` on to `products`, -inf beyond m; |x'|^2 / 2 to `half`. */
static void take_products(const struct attn_recurrent_part *part,
                          const struct attn_performer_room *r, const struct attn_tensor *t,
                          int64_t h, int64_t first, int64_t rows, float *products, float *half)
{
    const vf root = vf_set1(sqrtf((float)part->problem->scale));
    for (int64_t n = 0; n < rows; n++) {
        float *x = r->x + n * r->dk_room;
        widen(t, attn_row_start(t, part->b, h, first + n), t->stride[3], part->problem->dk, x);
        for (int64_t c = 0; c < r->dk_room; c += VF_LANES)
            vf_store(x + c, vf_mul(vf_load(x + c), root));
        half[n] = dot_of(x, x, r->dk_room) / 2;
    }
    matrix_multiply(&(struct matrix_product){.a = r->x,
                                             .a_row = r->dk_room,
                                             .a_step = 1,
                                             .b = r->w,
                                             .b_row = r->m_row,
                                             .c = products,
                                             .c_row = r->m_row,
                                             .rows = rows,
                                             .columns = r->m_room,
                                             .depth = part->problem->dk,
                                             .fresh = true});
    for (int64_t n = 0; n < rows; n++)
        for (int64_t c = r->m; c < r->m_room; c++)
            products[n * r->m_row + c] = -INFINITY;
}

static void take_w(const struct attn_recurrent_part *part, const struct attn_performer_room *r)
{
    const struct attn_tensor *w = &part->operands->features;
    for (int64_t n = 0; n < r->m; n++) {
        widen(w, part->h * w->stride[0] + n * w->stride[1], w->stride[2], part->problem->dk, r->x);
        for (int64_t c = 0; c < part->problem->dk; c++)
            r->w[c * r->m_row + n] = r->x[c];
    }
}

/* w k' of the first `keys` keys. Returns what is taken out of their features. */
static vf take_key_products(const struct attn_recurrent_part *part,
                            const struct attn_performer_room *r, int64_t g, int64_t keys)
{
    const double eps = part->problem->eps;
    vf most = vf_set1(-INFINITY);
    for (int64_t j = 0; j < keys; j += ATTN_PERFORMER_ROWS) {
        const int64_t rows = attn_clamp(keys - j, 0, ATTN_PERFORMER_ROWS);
        take_products(part, r, &part->operands->k, g, j, rows, r->products + j * r->m_row,
                      r->half + j);
        for (int64_t n = j; n < j + rows; n++)
            most = raise_largest(r->m_room, eps, r->products + n * r->m_row, r->half[n], most);
    }
    return most;
}

/* Features of keys [first, first + rows) to r->phi, and their values to r->v. The products stay as
 * they are: features that took their place would go to memory once more. */
static void take_keys_of(const struct attn_recurrent_part *part,
                         const struct attn_performer_room *r, int64_t g, int64_t first,
                         int64_t rows, vf most)
{
    const struct attn_tensor *v = &part->operands->v;
    for (int64_t n = 0; n < rows; n++) {
        widen(v, attn_row_start(v, part->b, g, first + n), v->stride[3], part->problem->dv,
              r->v + n * r->dv_row);
        take_features(r->m, r->m_room, part->problem->eps, r->products + (first + n) * r->m_row,
                      r->half[first + n], most, r->phi + n * r->m_row);
    }
}

/* They join the state. */
static void add_keys(const struct attn_performer_room *r, int64_t rows)
{
    matrix_multiply(&(struct matrix_product){.a = r->phi,
                                             .a_row = 1,
                                             .a_step = r->m_row,
                                             .b = r->v,
                                             .b_row = r->dv_row,
                                             .c = r->state,
                                             .c_row = r->dv_row,
                                             .rows = r->m,
                                             .columns = r->dv_room,
                                             .depth = rows});
    for (int64_t c = 0; c < r->m_room; c += VF_LANES) {
        vf sum = vf_load(r->sum + c);
        for (int64_t n = 0; n < rows; n++)
            sum = vf_add(sum, vf_load(r->phi + n * r->m_row + c));
        vf_store(r->sum + c, sum);
    }
}

/* Scores of four keys, for as many queries as make a vector of them. */
enum { SCORE_KEYS = 4, SCORE_QUERIES = VF_LANES / SCORE_KEYS };

FLASH_INLINE void feature_scores(const struct attn_performer_room *r, const float *queries,
                                 const float *keys, float *s)
{
    _Alignas(64) float scores[VF_LANES];
    vf sum[VF_LANES];
#pragma GCC unroll 16
    for (int n = 0; n < VF_LANES; n++)
        sum[n] = vf_set1(0);
    for (int64_t c = 0; c < r->m_room; c += VF_LANES) {
        vf key[SCORE_KEYS];
#pragma GCC unroll 4
        for (int j = 0; j < SCORE_KEYS; j++)
            key[j] = vf_load(keys + j * r->m_row + c);
#pragma GCC unroll 4
        for (int i = 0; i < SCORE_QUERIES; i++) {
            const vf query = vf_load(queries + i * r->m_row + c);
#pragma GCC unroll 4
            for (int j = 0; j < SCORE_KEYS; j++)
                sum[i * SCORE_KEYS + j] = vf_fma(query, key[j], sum[i * SCORE_KEYS + j]);
        }
    }
    vf_store(scores, vf_sums(sum));
    for (int i = 0; i < SCORE_QUERIES; i++)
        memcpy(s + i * ATTN_PERFORMER_CAUSAL, scores + i * SCORE_KEYS, SCORE_KEYS * sizeof *s);
}

/* Scores of a block of queries with those keys of the block that they may see. */
FLASH_APART void block_scores(const struct attn_performer_room *r, const float *phi_q, int64_t rows)
{
    for (int64_t i = 0; i < rows; i += SCORE_QUERIES)
        for (int64_t j = 0; j < i + SCORE_QUERIES; j += SCORE_KEYS)
            feature_scores(r, phi_q + i * r->m_row, r->phi + j * r->m_row,
                           r->s + i * ATTN_PERFORMER_CAUSAL + j);
}

/* A block of queries meets the keys of the block, which are not in the state yet. */
static void meet_keys(const struct attn_performer_room *r, const float *phi_q, int64_t rows,
                      int64_t keys)
{
    const struct matrix_product x = {.a = r->s,
                                     .a_row = ATTN_PERFORMER_CAUSAL,
                                     .a_step = 1,
                                     .b = r->v,
                                     .b_row = r->dv_row,
                                     .c = r->out,
                                     .c_row = r->dv_row,
                                     .rows = rows,
                                     .columns = r->dv_room,
                                     .depth = keys,
                                     .causal = finite_floats(r->v, keys * r->dv_row)};
    block_scores(r, phi_q, rows);
    for (int64_t i = 0; i < rows; i++)
        memset(r->s + i * ATTN_PERFORMER_CAUSAL + i + 1, 0,
               (size_t)(ATTN_PERFORMER_CAUSAL - i - 1) * sizeof *r->s);
    if (x.causal)
        matrix_multiply(&x);
    else
        matrix_multiply_causal(&x, 0);
}

/* The denominator of row n of a block: the state, and the first `keys` keys of the block. */
static float denominator_of(const struct attn_performer_room *r, const float *phi_q, int64_t n,
                            int64_t keys)
{
    float sum = dot_of(phi_q + n * r->m_row, r->sum, r->m_room);
    for (int64_t j = 0; j < keys; j++)
        sum += r->s[n * ATTN_PERFORMER_CAUSAL + j];
    return sum;
}

/* Features of queries [i, i + rows). */
static void take_query_features(const struct attn_recurrent_part *part,
                                const struct attn_performer_room *r, int64_t i, int64_t rows)
{
    const double eps = part->problem->eps;
    float half[ATTN_PERFORMER_ROWS];
    take_products(part, r, &part->operands->q, part->h, i, rows, r->phi_q, half);
    for (int64_t n = 0; n < rows; n++) {
        float *phi = r->phi_q + n * r->m_row;
        take_features(r->m, r->m_room, eps, phi, half[n],
                      raise_largest(r->m_room, eps, phi, half[n], vf_set1(-INFINITY)), phi);
    }
}

/* Queries [i, i + rows), with features phi_q: they read the state, and with causal the first `keys`
 * keys from i on. */
static void give_rows(const struct attn_recurrent_part *part, const struct attn_performer_room *r,
                      const float *phi_q, int64_t i, int64_t rows, int64_t keys)
{
    const struct attn_problem *p = part->problem;
    const struct attn_tensor *out = &part->operands->out;
    matrix_multiply(&(struct matrix_product){.a = phi_q,
                                             .a_row = r->m_row,
                                             .a_step = 1,
                                             .b = r->state,
                                             .b_row = r->dv_row,
                                             .c = r->out,
                                             .c_row = r->dv_row,
                                             .rows = rows,
                                             .columns = r->dv_room,
                                             .depth = r->m,
                                             .fresh = true});
    if (keys > 0)
        meet_keys(r, phi_q, rows, keys);
    for (int64_t n = 0; n < rows; n++) {
        const int64_t end = attn_keys_seen(p, &part->operands->len, part->b, i + n).end;
        const float below = denominator_of(r, phi_q, n, attn_clamp(n + 1, 0, keys));
        if (end == 0)
            memset(r->out + n * r->dv_row, 0, (size_t)p->dv * sizeof(float));
        narrow(out, attn_row_start(out, part->b, part->h, i + n), out->stride[3], p->dv,
               r->out + n * r->dv_row, end == 0 ? 1 : 1 / below);
    }
}

static void run_performer(const struct attn_recurrent_part *part)
{
    const struct attn_problem *p = part->problem;
    const bool causal = p->flags & ATTN_FLAG_CAUSAL;
    const int64_t g = part->h / (p->hq / p->hkv);
    const int64_t keys = attn_keys_seen(p, &part->operands->len, part->b, p->sq - 1).end;
    const int64_t step = causal ? ATTN_PERFORMER_CAUSAL : ATTN_PERFORMER_ROWS;
    struct attn_performer_room r;
    attn_performer_lay_out(p, FLASH_NR, part->scratch, &r);
    memset(r.w, 0, (size_t)(p->dk * r.m_row) * sizeof(float));
    memset(r.x, 0, (size_t)(ATTN_PERFORMER_ROWS * r.dk_room) * sizeof(float));
    memset(r.v, 0, (size_t)(ATTN_PERFORMER_ROWS * r.dv_row) * sizeof(float));
    memset(r.state, 0, (size_t)(r.m * r.dv_row) * sizeof(float));
    memset(r.sum, 0, (size_t)r.m_room * sizeof(float));
    take_w(part, &r);
    const vf most = take_key_products(part, &r, g, keys);
    for (int64_t j = 0; j < keys && !causal; j += step) {
        const int64_t rows = attn_clamp(keys - j, 0, step);
        take_keys_of(part, &r, g, j, rows, most);
        add_keys(&r, rows);
    }
    for (int64_t i = 0; i < p->sq; i += step) {
        const int64_t more = causal ? attn_clamp(keys - i, 0, step) : 0;
        const int64_t place = i % ATTN_PERFORMER_ROWS; /* whole steps */
        if (place == 0)
            take_query_features(part, &r, i, attn_clamp(p->sq - i, 0, ATTN_PERFORMER_ROWS));
        take_keys_of(part, &r, g, i, more, most);
        give_rows(part, &r, r.phi_q + place * r.m_row, i, attn_clamp(p->sq - i, 0, step), more);
        add_keys(&r, more);
    }
}
