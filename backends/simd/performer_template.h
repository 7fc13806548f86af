/* SPDX-License-Identifier: Apache-2.0 */
/* performer_template.h - the kernel of performer, after flash_template.h: features of all keys of a
 * head, a state that is their sum with the values, and queries that read it. With causal a block of
 * queries reads the state of the blocks before it, and the keys of its own block one by one. */
#include "performer.h"
#include "recurrent.h"

/* c[i][..] = (c[i][..] +) sum over k < n of a[i a_row + k a_step] b[k b_step ..], i < MR, for NR
 * columns. */
FLASH_INLINE void multiply_tile(const int add, int64_t n, const float *a, int64_t a_row,
                                int64_t a_step, const float *b, int64_t b_step, float *c,
                                int64_t c_row)
{
    vf sum[FLASH_MR][FLASH_NV];
#pragma GCC unroll 8
    for (int i = 0; i < FLASH_MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < FLASH_NV; v++)
            sum[i][v] = add ? vf_load(c + i * c_row + v * VF_LANES) : vf_set1(0);
    for (int64_t k = 0; k < n; k++) {
        vf row[FLASH_NV];
#pragma GCC unroll 4
        for (int v = 0; v < FLASH_NV; v++)
            row[v] = vf_load(b + k * b_step + v * VF_LANES);
#pragma GCC unroll 8
        for (int i = 0; i < FLASH_MR; i++) {
            const vf x = vf_set1(a[i * a_row + k * a_step]);
#pragma GCC unroll 4
            for (int v = 0; v < FLASH_NV; v++)
                sum[i][v] = vf_fma(x, row[v], sum[i][v]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < FLASH_MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < FLASH_NV; v++)
            vf_store(c + i * c_row + v * VF_LANES, sum[i][v]);
}

/* c [rows][columns] = a b; rows of a are contiguous. */
FLASH_APART void multiply(int64_t rows, int64_t columns, int64_t n, const float *a, int64_t a_row,
                          const float *b, int64_t b_step, float *c)
{
    for (int64_t i = 0; i < rows; i += FLASH_MR)
        for (int64_t d = 0; d < columns; d += FLASH_NR)
            multiply_tile(0, n, a + i * a_row, a_row, 1, b + d, b_step, c + i * columns + d,
                          columns);
}

/* c [rows][columns] += a^T b; the n rows of a are a_step apart. */
FLASH_APART void multiply_add(int64_t rows, int64_t columns, int64_t n, const float *a,
                              int64_t a_step, const float *b, float *c)
{
    for (int64_t i = 0; i < rows; i += FLASH_MR)
        for (int64_t d = 0; d < columns; d += FLASH_NR)
            multiply_tile(1, n, a + i, 1, a_step, b + d, columns, c + i * columns + d, columns);
}

static float dot_of(const float *a, const float *b, int64_t n)
{
    vf sum = vf_set1(0);
    for (int64_t c = 0; c < n; c += VF_LANES)
        sum = vf_fma(vf_load(a + c), vf_load(b + c), sum);
    return vf_sum(sum);
}

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
    multiply(rows, r->m_room, part->problem->dk, r->x, r->dk_room, r->w, r->m_room, products);
    for (int64_t n = 0; n < rows; n++)
        for (int64_t c = r->m; c < r->m_room; c++)
            products[n * r->m_room + c] = -INFINITY;
}

/* The larger of `most` and of what is taken out of the features of a row: with eps w x', else the
 * whole exponent. NaN is left to the sums. */
FLASH_INLINE vf raise_most(const struct attn_performer_room *r, const int with_eps,
                           const float *products, float half, vf most)
{
    const vf less = vf_set1(half);
    for (int64_t c = 0; c < r->m_room; c += VF_LANES) {
        const vf x = vf_load(products + c);
        most = vf_max(with_eps ? x : vf_sub(x, less), most);
    }
    return most;
}

static vf raise_largest(const struct attn_performer_room *r, double eps, const float *products,
                        float half, vf most)
{
    return eps > 0 ? raise_most(r, 1, products, half, most)
                   : raise_most(r, 0, products, half, most);
}

/* From w x' to features; 0 beyond m. */
static void take_features(const struct attn_performer_room *r, double eps, float *products,
                          float half, vf largest)
{
    const float found = vf_largest(largest);
    const vf most = vf_set1(isfinite(found) ? found : 0), less = vf_set1(half);
    const vf log2_e = vf_set1(LOG2_E), more = vf_set1((float)eps);
    for (int64_t c = 0; c < r->m_room; c += VF_LANES) {
        const vf x = vf_sub(vf_sub(vf_load(products + c), less), most);
        vf_store(products + c, vf_add(exp2_negative(vf_mul(x, log2_e)), more));
    }
    for (int64_t c = r->m; c < r->m_room; c++)
        products[c] = 0;
}

static void take_w(const struct attn_recurrent_part *part, const struct attn_performer_room *r)
{
    const struct attn_tensor *w = &part->operands->features;
    for (int64_t n = 0; n < r->m; n++) {
        widen(w, part->h * w->stride[0] + n * w->stride[1], w->stride[2], part->problem->dk, r->x);
        for (int64_t c = 0; c < part->problem->dk; c++)
            r->w[c * r->m_room + n] = r->x[c];
    }
}

/* Features of the first `keys` keys. */
static void take_key_features(const struct attn_recurrent_part *part,
                              const struct attn_performer_room *r, int64_t g, int64_t keys)
{
    const double eps = part->problem->eps;
    vf most = vf_set1(-INFINITY);
    for (int64_t j = 0; j < keys; j += ATTN_PERFORMER_ROWS) {
        const int64_t rows = attn_clamp(keys - j, 0, ATTN_PERFORMER_ROWS);
        take_products(part, r, &part->operands->k, g, j, rows, r->phi + j * r->m_room, r->half + j);
        for (int64_t n = j; n < j + rows; n++)
            most = raise_largest(r, eps, r->phi + n * r->m_room, r->half[n], most);
    }
    for (int64_t j = 0; j < keys; j++)
        take_features(r, eps, r->phi + j * r->m_room, r->half[j], most);
}

/* Keys [first, first + rows) join the state; their values are in r->v then. */
static void take_values(const struct attn_recurrent_part *part, const struct attn_performer_room *r,
                        int64_t g, int64_t first, int64_t rows)
{
    const struct attn_tensor *v = &part->operands->v;
    for (int64_t n = 0; n < rows; n++)
        widen(v, attn_row_start(v, part->b, g, first + n), v->stride[3], part->problem->dv,
              r->v + n * r->dv_room);
}

static void add_keys(const struct attn_performer_room *r, int64_t first, int64_t rows)
{
    const float *phi = r->phi + first * r->m_room;
    multiply_add(r->m, r->dv_room, rows, phi, r->m_room, r->v, r->state);
    for (int64_t n = 0; n < rows; n++)
        for (int64_t c = 0; c < r->m_room; c += VF_LANES)
            vf_store(r->sum + c, vf_add(vf_load(r->sum + c), vf_load(phi + n * r->m_room + c)));
}

/* Row n of a block of queries meets keys [first, end), whose values are in r->v. Returns what they
 * add to the denominator. */
static float meet_keys(const struct attn_performer_room *r, int64_t n, int64_t first, int64_t end)
{
    float *out = r->out + n * r->dv_room, below = 0;
    for (int64_t j = first; j < end; j++) {
        const float s = dot_of(r->phi_q + n * r->m_room, r->phi + j * r->m_room, r->m_room);
        const float *v = r->v + (j - first) * r->dv_room;
        for (int64_t d = 0; d < r->dv_room; d += VF_LANES)
            vf_store(out + d, vf_fma(vf_set1(s), vf_load(v + d), vf_load(out + d)));
        below += s;
    }
    return below;
}

/* Queries [i, i + rows): they read the state, and with causal the keys from i on. */
static void give_rows(const struct attn_recurrent_part *part, const struct attn_performer_room *r,
                      int64_t i, int64_t rows)
{
    const struct attn_problem *p = part->problem;
    const struct attn_tensor *out = &part->operands->out;
    float half[ATTN_PERFORMER_ROWS];
    take_products(part, r, &part->operands->q, part->h, i, rows, r->phi_q, half);
    for (int64_t n = 0; n < rows; n++) {
        float *phi = r->phi_q + n * r->m_room;
        take_features(r, p->eps, phi, half[n],
                      raise_largest(r, p->eps, phi, half[n], vf_set1(-INFINITY)));
    }
    multiply(rows, r->dv_room, r->m, r->phi_q, r->m_room, r->state, r->dv_room, r->out);
    for (int64_t n = 0; n < rows; n++) {
        const int64_t end = attn_keys_seen(p, &part->operands->len, part->b, i + n).end;
        float below = dot_of(r->phi_q + n * r->m_room, r->sum, r->m_room);
        if (p->flags & ATTN_FLAG_CAUSAL)
            below += meet_keys(r, n, i, end);
        if (end == 0)
            memset(r->out + n * r->dv_room, 0, (size_t)p->dv * sizeof(float));
        narrow(out, attn_row_start(out, part->b, part->h, i + n), out->stride[3], p->dv,
               r->out + n * r->dv_room, end == 0 ? 1 : 1 / below);
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
    memset(r.w, 0, (size_t)(p->dk * r.m_room) * sizeof(float));
    memset(r.x, 0, (size_t)(ATTN_PERFORMER_ROWS * r.dk_room) * sizeof(float));
    memset(r.v, 0, (size_t)(ATTN_PERFORMER_ROWS * r.dv_room) * sizeof(float));
    memset(r.state, 0, (size_t)(r.m_room * r.dv_room) * sizeof(float));
    memset(r.sum, 0, (size_t)r.m_room * sizeof(float));
    take_w(part, &r);
    take_key_features(part, &r, g, keys);
    for (int64_t j = 0; j < keys && !causal; j += step) {
        const int64_t rows = attn_clamp(keys - j, 0, step);
        take_values(part, &r, g, j, rows);
        add_keys(&r, j, rows);
    }
    for (int64_t i = 0; i < p->sq; i += step) {
        const int64_t more = causal ? attn_clamp(keys - i, 0, step) : 0;
        take_values(part, &r, g, i, more);
        give_rows(part, &r, i, attn_clamp(p->sq - i, 0, step));
        add_keys(&r, i, more);
    }
}
