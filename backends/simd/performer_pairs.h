/* SPDX-License-Identifier: Apache-2.0 */
/* performer_pairs.h - performer without causal by products of pairs of bf16 (flash_pack_pairs.h),
 * after matrix_pairs.h. Features are rounded to bf16. The state is not: it is the sum of three
 * numbers of bf16.
 *
 *   products   A x [rows][dk]           B w, panels of features
 *   state^T += A v^T [dv][rows]         B features of keys [rows/2][m]
 *   out      = A features [rows][m]     B each part of the state, panels of its columns
 *
 * Products of keys are computed twice, for their largest exponent and for the features. To keep
 * them would cost more: they would go to memory and back. */
#include "performer.h"
#include "recurrent.h"

#include "performer_features.h"

/* x of `rows` rows from row `first` on, w x' to r->products, |x'|^2 / 2 to r->half. */
static void take_products(const struct attn_recurrent_part *part,
                          const struct attn_performer_pairs *r, const struct attn_tensor *t,
                          int64_t h, int64_t first, int64_t rows)
{
    const int64_t dk = part->problem->dk, depth = pairs(dk);
    const vf root = vf_set1(sqrtf((float)part->problem->scale));
    struct matrix_product x = {.a = r->x,
                               .a_row = r->x_row,
                               .a_step = 1,
                               .b_row = FLASH_NR,
                               .c_row = r->m_row,
                               .rows = rows,
                               .columns = FLASH_NR,
                               .depth = depth,
                               .fresh = true};
    for (int64_t n = 0; n < rows; n++) {
        const int64_t at = attn_row_start(t, part->b, h, first + n);
        copy_pairs((const uint16_t *)t->data + at, t->stride[3], dk, r->x + n * r->x_row);
        widen(t, at, t->stride[3], dk, r->row);
        for (int64_t c = 0; c < dk; c += VF_LANES)
            vf_store(r->row + c, vf_mul(vf_load(r->row + c), root));
        r->half[n] = dot_of(r->row, r->row, attn_round_up(dk, VF_LANES)) / 2;
    }
    for (int64_t c = 0; c < r->m; c += FLASH_NR) {
        x.b = r->w + c * depth;
        x.c = r->products + c;
        matrix_multiply_vectors(&x);
    }
    for (int64_t n = 0; n < rows; n++) {
        float *products = r->products + n * r->m_row;
        for (int64_t c = 0; c < r->m; c += VF_LANES)
            vf_store(products + c, vf_mul(vf_load(products + c), root));
        for (int64_t c = r->m; c < r->m_room; c++)
            products[c] = -INFINITY;
    }
}

/* What is taken out of the features of the first `keys` keys. */
static vf largest_of_keys(const struct attn_recurrent_part *part,
                          const struct attn_performer_pairs *r, int64_t g, int64_t keys)
{
    vf most = vf_set1(-INFINITY);
    for (int64_t j = 0; j < keys; j += ATTN_PERFORMER_PAIR_ROWS) {
        const int64_t rows = attn_clamp(keys - j, 0, ATTN_PERFORMER_PAIR_ROWS);
        take_products(part, r, &part->operands->k, g, j, rows);
        for (int64_t n = 0; n < rows; n++)
            most = raise_largest(r->m_room, part->problem->eps, r->products + n * r->m_row,
                                 r->half[n], most);
    }
    return most;
}

/* Features of a row, in the place of its products. They are rounded to bf16 here: numerator and
 * denominator must have the same, so that their errors cancel. */
static void take_row(const struct attn_performer_pairs *r, double eps, int64_t n, vf most)
{
    float *row = r->products + n * r->m_row;
    take_features(r->m, r->m_room, eps, row, r->half[n], most, row);
    for (int64_t c = 0; c < r->m_room; c += VF_LANES)
        vf_store(row + c, vf_nearest(vf_load(row + c)));
}

/* v of keys [first, first + rows), transposed. Zeros take the place of keys up to all. */
static void take_values(const struct attn_recurrent_part *part,
                        const struct attn_performer_pairs *r, int64_t g, int64_t first,
                        int64_t rows, int64_t all)
{
    const struct attn_tensor *v = &part->operands->v;
    for (int64_t n = 0; n < rows; n++)
        copy_pairs((const uint16_t *)v->data + attn_row_start(v, part->b, g, first + n),
                   v->stride[3], part->problem->dv, r->v + n * r->v_row);
    memset(r->v + rows * r->v_row, 0, (size_t)((all - rows) * r->v_row) * sizeof(float));
    turn_pairs(r->v, all, r->v_row, r->v_t, ATTN_PERFORMER_PAIR_ROW);
}

/* Keys [first, first + rows) join the state and the sum of features. */
static void add_keys(const struct attn_recurrent_part *part, const struct attn_performer_pairs *r,
                     int64_t g, int64_t first, int64_t rows, vf most)
{
    const int64_t all = attn_round_up(rows, 2 * VF_LANES);
    take_products(part, r, &part->operands->k, g, first, rows);
    for (int64_t n = 0; n < rows; n++) {
        take_row(r, part->problem->eps, n, most);
        for (int64_t c = 0; c < r->m_room; c += VF_LANES)
            vf_store(r->sum + c,
                     vf_add(vf_load(r->sum + c), vf_load(r->products + n * r->m_row + c)));
    }
    memset(r->products + rows * r->m_row, 0, (size_t)((all - rows) * r->m_row) * sizeof(float));
    for (int64_t n = 0; n < all; n += 2)
        for (int64_t c = 0; c < r->m_room; c += VF_LANES) {
            const float *even = r->products + n * r->m_row + c;
            vf_store(r->phi + n / 2 * r->m_row + c,
                     vf_pairs_of_rows(vf_load(even), vf_load(even + r->m_row)));
        }
    take_values(part, r, g, first, rows, all);
    matrix_multiply_vectors(&(struct matrix_product){.a = r->v_t,
                                                     .a_row = ATTN_PERFORMER_PAIR_ROW,
                                                     .a_step = 1,
                                                     .b = r->phi,
                                                     .b_row = r->m_row,
                                                     .c = r->state,
                                                     .c_row = r->m_row,
                                                     .rows = part->problem->dv,
                                                     .columns = r->m_room,
                                                     .depth = pairs(rows)});
}

/* The state becomes parts: its first 8 digits, the next 8, and the rest. */
static void split_state(const struct attn_performer_pairs *r, int64_t dv)
{
    uint16_t *narrow = (uint16_t *)(void *)r->phi;
    for (int n = ATTN_STATE_PARTS - 1; n >= 0; n--)
        for (int64_t d = 0; d < dv; d += VF_LANES) {
            for (int64_t i = d; i < d + VF_LANES && i < dv; i++)
                for (int64_t c = 0; c < r->m_room; c += 2 * VF_LANES) {
                    float *x = r->state + i * r->m_row + c;
                    const vf low = vf_load(x), high = vf_load(x + VF_LANES);
                    const vf a = vf_first_digits(low), b = vf_first_digits(high);
                    vf_store_pairs(narrow + (i - d) * 2 * r->m_row + c, a, b);
                    vf_store(x, rest_of_digits(low, a));
                    vf_store(x + VF_LANES, rest_of_digits(high, b));
                }
            pack_k_columns(narrow, 2 * r->m_row, 0, dv - d, r->m,
                           r->parts[n] + d / FLASH_NR * FLASH_NR * pairs(r->m) + d % FLASH_NR);
        }
}

/* Queries [i, i + rows). */
static void give_rows(const struct attn_recurrent_part *part, const struct attn_performer_pairs *r,
                      int64_t i, int64_t rows)
{
    const struct attn_problem *p = part->problem;
    const struct attn_tensor *out = &part->operands->out;
    struct matrix_product x = {.a = r->phi,
                               .a_row = r->m_row,
                               .a_step = 1,
                               .b_row = FLASH_NR,
                               .c_row = r->dv_room,
                               .rows = rows,
                               .columns = FLASH_NR,
                               .depth = pairs(r->m)};
    take_products(part, r, &part->operands->q, part->h, i, rows);
    for (int64_t n = 0; n < rows; n++) {
        const float *row = r->products + n * r->m_row;
        take_row(r, p->eps, n,
                 raise_largest(r->m_room, p->eps, row, r->half[n], vf_set1(-INFINITY)));
        for (int64_t c = 0; c < r->m_room; c += 2 * VF_LANES)
            vf_store_pairs((uint16_t *)(void *)(r->phi + n * r->m_row) + c, vf_load(row + c),
                           vf_load(row + c + VF_LANES));
    }
    for (int64_t c = 0; c < p->dv; c += FLASH_NR)
        for (int n = 0; n < ATTN_STATE_PARTS; n++) {
            x.fresh = n == 0;
            x.b = r->parts[n] + c * x.depth;
            x.c = r->out + c;
            matrix_multiply_vectors(&x);
        }
    for (int64_t n = 0; n < rows; n++) {
        const int64_t end = attn_keys_seen(p, &part->operands->len, part->b, i + n).end;
        const float below = dot_of(r->products + n * r->m_row, r->sum, r->m_room);
        if (end == 0)
            memset(r->out + n * r->dv_room, 0, (size_t)p->dv * sizeof(float));
        narrow(out, attn_row_start(out, part->b, part->h, i + n), out->stride[3], p->dv,
               r->out + n * r->dv_room, end == 0 ? 1 : 1 / below);
    }
}

static void run_performer(const struct attn_recurrent_part *part)
{
    const struct attn_problem *p = part->problem;
    const struct attn_tensor *w = &part->operands->features;
    const int64_t g = part->h / (p->hq / p->hkv), step = ATTN_PERFORMER_PAIR_ROWS;
    const int64_t keys = attn_keys_seen(p, &part->operands->len, part->b, p->sq - 1).end;
    const struct attn_tensor rows = {.data = w->data,
                                     .shape = {1, 1, w->shape[1], w->shape[2]},
                                     .stride = {0, 0, w->stride[1], w->stride[2]}};
    struct attn_performer_pairs r;
    attn_performer_pairs_lay_out(p, part->scratch, &r);
    memset(r.state, 0, (size_t)(2 * r.v_row * r.m_row) * sizeof(float));
    memset(r.sum, 0, (size_t)r.m_room * sizeof(float));
    pack_panels(&rows, part->h * w->stride[0], r.m, r.w);
    const vf most = largest_of_keys(part, &r, g, keys);
    for (int64_t j = 0; j < keys; j += step)
        add_keys(part, &r, g, j, attn_clamp(keys - j, 0, step), most);
    split_state(&r, p->dv);
    for (int64_t i = 0; i < p->sq; i += step)
        give_rows(part, &r, i, attn_clamp(p->sq - i, 0, step));
}
