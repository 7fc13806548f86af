/* SPDX-License-Identifier: Apache-2.0 */
/* lsh_hash_template.h - part of lsh_template.h: the buckets of all tokens of a head, and the order
 * of the tokens by bucket. */

/* All rounds beside each other, so that a few buckets in each still fill a micro-kernel. */
static void lsh_take_rotations(const struct attn_recurrent_part *part,
                               const struct attn_lsh_room *w)
{
    const struct attn_tensor *from = &part->operands->rotations;
    const struct attn_problem *p = part->problem;
    const int64_t half = p->buckets / 2;
    for (int64_t n = 0; n < p->dk * p->rounds; n++) {
        const int64_t c = n / p->rounds, round = n % p->rounds;
        const int64_t at =
            part->h * from->stride[0] + c * from->stride[1] + round * from->stride[2];
        float *to = w->rotations + c * w->columns + round * half;
        for (int64_t t = 0; t < half; t += ATTN_LSH_PRODUCTS) {
            const int64_t count = attn_clamp(half - t, 1, ATTN_LSH_PRODUCTS);
            widen(from, at + t * from->stride[3], from->stride[3], count, w->products);
            memcpy(to + t, w->products, (size_t)count * sizeof(float));
        }
    }
}

/* Of products x[t], x[t + 1], .. of a round the largest of [x; -x], and the lowest place that has
 * it, if that is better than what was found before. The zeros that fill the last vector do no harm:
 * no largest is below 0, and their places are higher than that of another 0. */
static void lsh_choose(const float *x, int64_t t, int64_t count, int64_t half, float *high,
                       float *place)
{
    const vf none = vf_set1((float)ATTN_LSH_MOST_TOKENS), opposite = vf_set1((float)half);
    vf most = vf_set1(0), lowest = none;
    for (int64_t n = 0; n < count; n += VF_LANES)
        most = vf_max(vf_abs(vf_load_first(x + n, count - n)), most);
    const float best = vf_largest(most);
    if (best < *high)
        return;
    for (int64_t n = 0; n < count; n += VF_LANES) {
        const vf product = vf_load_first(x + n, count - n);
        const vf at = vf_add(vf_set1((float)(t + n)), vf_lane_numbers());
        const vf above = vf_select_equal(product, vf_set1(best), at, none);
        const vf below = vf_select_equal(product, vf_set1(-best), vf_add(at, opposite), none);
        lowest = vf_min(lowest, vf_min(above, below));
    }
    const float found = -vf_largest(vf_sub(vf_set1(0), lowest));
    *place = best > *high || found < *place ? found : *place;
    *high = best;
}

/* The buckets of `rows` tokens, whose queries are in w->x. */
static void lsh_hash(const struct attn_problem *p, const struct attn_lsh_room *w, int64_t rows)
{
    const int64_t half = p->buckets / 2, all = p->rounds * half;
    for (int64_t n = 0; n < rows * p->rounds; n++)
        w->high[n] = -1;
    for (int64_t first = 0; first < all; first += ATTN_LSH_PRODUCTS) {
        const int64_t end = attn_clamp(first + ATTN_LSH_PRODUCTS, 0, all);
        const int64_t wide = attn_round_up(end - first, FLASH_NR);
        matrix_multiply(&(struct matrix_product){.a = w->x,
                                                 .a_row = w->dk_room,
                                                 .a_step = 1,
                                                 .b = w->rotations + first,
                                                 .b_row = w->columns,
                                                 .c = w->products,
                                                 .c_row = wide,
                                                 .rows = rows,
                                                 .columns = wide,
                                                 .depth = p->dk,
                                                 .fresh = true});
        for (int64_t n = 0; n < rows; n++)
            for (int64_t r = first / half; r * half < end; r++) {
                const int64_t from = attn_clamp(r * half, first, end);
                const int64_t to = attn_clamp((r + 1) * half, first, end), at = n * p->rounds + r;
                lsh_choose(w->products + n * wide + from - first, from - r * half, to - from, half,
                           w->high + at, w->place + at);
            }
    }
}

/* Queries of tokens [first, first + rows) to w->x, and what makes them keys. A query whose square
 * is 0 is a key as it is. */
static void lsh_take_tokens(const struct attn_recurrent_part *part, const struct attn_lsh_room *w,
                            int64_t first, int64_t rows)
{
    const struct attn_tensor *q = &part->operands->q;
    for (int64_t n = 0; n < rows; n++) {
        float *x = w->x + n * w->dk_room;
        widen(q, attn_row_start(q, part->b, part->h, first + n), q->stride[3], part->problem->dk,
              x);
        const float square = dot_of(x, x, attn_round_up(part->problem->dk, VF_LANES));
        w->by[first + n] = square > 0 ? 1 / sqrtf(square) : 1;
    }
}

static int64_t lsh_bucket_at(const struct attn_recurrent_part *part, const struct attn_tensor *t,
                             int64_t round, int64_t i)
{
    return attn_row_start(t, part->b, part->h, round) + i * t->stride[3];
}

/* The buckets of tokens [first, first + rows): as they are given, or hashed, and stored if they are
 * asked for. A product of NaN has no place. */
static void lsh_set_buckets(const struct attn_recurrent_part *part, const struct attn_lsh_room *w,
                            int64_t first, int64_t rows)
{
    const struct attn_problem *p = part->problem;
    const struct attn_tensor *in = &part->operands->buckets_in, *out = &part->operands->buckets_out;
    if (!in->dtype)
        lsh_hash(p, w, rows);
    for (int64_t r = 0; r < p->rounds; r++)
        for (int64_t n = 0; n < rows; n++) {
            int32_t *bucket = w->bucket + r * p->sq + first + n;
            if (in->dtype)
                *bucket = ((const int32_t *)in->data)[lsh_bucket_at(part, in, r, first + n)];
            else
                *bucket = (int32_t)w->place[n * p->rounds + r];
            if (*bucket < 0 || *bucket >= p->buckets)
                *bucket = 0;
            if (out->dtype)
                ((int32_t *)out->data)[lsh_bucket_at(part, out, r, first + n)] = *bucket;
        }
}

/* Tokens by round, bucket and position: in each round those of a bucket follow each other. */
static void lsh_order(const struct attn_problem *p, const struct attn_lsh_room *w)
{
    for (int64_t r = 0; r < p->rounds; r++) {
        const int32_t *bucket = w->bucket + r * p->sq;
        int32_t *token = w->token + r * p->sq;
        memset(w->count, 0, (size_t)(p->buckets + 1) * sizeof *w->count);
        for (int64_t i = 0; i < p->sq; i++)
            w->count[bucket[i] + 1]++;
        for (int64_t t = 0; t < p->buckets; t++)
            w->count[t + 1] += w->count[t];
        for (int64_t i = 0; i < p->sq; i++)
            token[w->count[bucket[i]]++] = (int32_t)i;
    }
}

/* Buckets and order of all tokens of the part's head. */
static void lsh_sort(const struct attn_recurrent_part *part, const struct attn_lsh_room *w)
{
    if (!part->operands->buckets_in.dtype)
        lsh_take_rotations(part, w);
    for (int64_t i = 0; i < part->problem->sq; i += ATTN_LSH_ROWS) {
        const int64_t rows = attn_clamp(part->problem->sq - i, 1, ATTN_LSH_ROWS);
        lsh_take_tokens(part, w, i, rows);
        lsh_set_buckets(part, w, i, rows);
    }
    lsh_order(part->problem, w);
}
