/* SPDX-License-Identifier: Apache-2.0 */
/* lsh.c - attention of Reformer as it is published: a softmax for each round, merged by their lse.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "op_mutant.h"

struct head {
    const struct attn_problem *p;
    const struct attn_operands *o;
    int64_t b, h, chunk, pieces;
    float *q, *key;       /* [S,Dk] */
    float *out, *lse;     /* [R,Dv], [R] of one query */
    float *s;             /* [2 c] logits of one round */
    int32_t *bucket;      /* [R,S] */
    int32_t *token;       /* [R S] by round and bucket */
    int32_t *place;       /* [R,S] of each token in that list */
    int32_t *seen, *mark; /* [2 c] keys of one round; [S] 1 + the last query that saw a key */
};

static float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += a[c] * b[c];
    return sum;
}

static void load(const struct head *x)
{
    const int64_t dk = x->p->dk;
    for (int64_t i = 0; i < x->p->sq; i++) {
        float *q = x->q + i * dk, *key = x->key + i * dk;
        for (int64_t c = 0; c < dk; c++)
            q[c] = op_mutant_get(&x->o->q,
                                 attn_row_start(&x->o->q, x->b, x->h, i) + c * x->o->q.stride[3]);
        const float length = sqrtf(dot(q, q, dk));
        for (int64_t c = 0; c < dk; c++) {
            key[c] = length > 0 || bug(lsh_zero_key) ? q[c] / length : 0;
            key[c] = bug(lsh_not_normalised) ? q[c] : key[c];
            key[c] = bug(lsh_keys_bf16) ? op_mutant_bf16(key[c]) : key[c];
        }
    }
}

static float product(const struct head *x, int64_t i, int64_t r, int64_t t)
{
    const struct attn_tensor *rotations = &x->o->rotations;
    const int64_t half = x->p->buckets / 2;
    const int64_t at = (bug(lsh_head_0) ? 0 : x->h) * rotations->stride[0] +
                       (bug(lsh_rotation_0) ? 0 : r) * rotations->stride[2] +
                       t % half * rotations->stride[3];
    float sum = 0;
    for (int64_t c = 0; c < x->p->dk; c++)
        sum += x->q[i * x->p->dk + c] * op_mutant_get(rotations, at + c * rotations->stride[1]);
    return (t < half) != (bool)bug(lsh_negative_first) ? sum : -sum;
}

static int32_t bucket_of(const struct head *x, int64_t i, int64_t r)
{
    int32_t best = 0;
    float top = product(x, i, r, 0);
    for (int64_t t = 1; t < x->p->buckets; t++) {
        const float now = product(x, i, r, t);
        if (now > top || (bug(lsh_tie_high) && now >= top)) {
            top = now;
            best = (int32_t)t;
        }
    }
    return bug(lsh_buckets_int8) ? (int8_t)best : best;
}

static void hash(const struct head *x)
{
    const struct attn_tensor *in = &x->o->buckets_in, *out = &x->o->buckets_out;
    for (int64_t n = 0; n < x->p->rounds * x->p->sq; n++) {
        const int64_t r = n / x->p->sq, i = n % x->p->sq;
        x->bucket[n] =
            in->dtype
                ? ((const int32_t *)in->data)[attn_row_start(in, x->b, x->h, r) + i * in->stride[3]]
                : bucket_of(x, i, r);
        if (out->dtype)
            ((int32_t *)out->data)[attn_row_start(out, x->b, x->h, r) + i * out->stride[3]] =
                x->bucket[n] + (bug(lsh_numbered_on) ? (int32_t)(r * x->p->buckets) : 0);
    }
}

static void sort(const struct head *x)
{
    const int64_t steps = x->p->sq;
    int32_t n = 0;
    for (int64_t r = 0; r < x->p->rounds; r++)
        for (int64_t t = -128; t < x->p->buckets; t++)
            for (int64_t m = 0; m < steps; m++) {
                const int64_t i = bug(lsh_unstable) ? steps - 1 - m : m;
                if (x->bucket[r * steps + i] != t)
                    continue;
                x->place[r * steps + i] = n;
                x->token[n++] = (int32_t)i;
            }
}

/* The piece that a piece looks at besides; -1: none. */
static int64_t other_piece(const struct head *x, int64_t own)
{
    const int64_t of_round = x->p->sq / x->chunk;
    if (x->pieces == 1 || bug(lsh_no_look_back) || (bug(lsh_no_wrap) && own == 0))
        return -1;
    if (bug(lsh_look_ahead))
        return (own + 1) % x->pieces;
    if (bug(lsh_round_wrap) && own % of_round == 0)
        return of_round > 1 ? own + of_round - 1 : -1;
    return (own - 1 + x->pieces) % x->pieces;
}

static bool takes_part(const struct head *x, int64_t i, int64_t r, int64_t place, int32_t j)
{
    const bool later = bug(lsh_causal_place) ? place > x->place[r * x->p->sq + i] : j > i;
    const bool met = x->mark[j] == i + 1;
    x->mark[j] = (int32_t)i + 1;
    return !(later && (x->p->flags & ATTN_FLAG_CAUSAL)) && !(met && bug(lsh_duplicates)) &&
           !(j == i && x->p->variant == ATTN_LSH_LAST && !bug(lsh_self_seen));
}

/* The keys that query i sees in round r, and their logits. */
static int64_t look(const struct head *x, int64_t i, int64_t r)
{
    const int64_t own = x->place[r * x->p->sq + i] / x->chunk;
    const int64_t pieces[] = {own, other_piece(x, own)};
    const float scale = (float)x->p->scale / (bug(lsh_scale_twice) ? sqrtf((float)x->p->dk) : 1);
    int64_t n = 0;
    for (int k = 0; k < 2 && pieces[k] >= 0; k++)
        for (int64_t m = 0; m < x->chunk - (bug(lsh_last_piece) ? 1 : 0); m++) {
            const int64_t place = pieces[k] * x->chunk + m;
            const int32_t j = x->token[place];
            if (!takes_part(x, i, r, place, j))
                continue;
            x->seen[n] = j;
            x->s[n++] = scale * dot(x->q + i * x->p->dk, x->key + j * x->p->dk, x->p->dk);
        }
    return n;
}

static void add_value(const struct head *x, float weight, int64_t j, float *out)
{
    const struct attn_tensor *v = &x->o->v;
    for (int64_t d = 0; d < x->p->dv; d++)
        out[d] += weight * op_mutant_get(v, attn_row_start(v, x->b, x->h, j) + d * v->stride[3]);
}

/* Out and lse of one round; lse -inf: no key is seen. */
static void attend(const struct head *x, int64_t i, int64_t r)
{
    const int64_t n = look(x, i, r);
    float *out = x->out + r * x->p->dv, top = -INFINITY, sum = 0;
    memset(out, 0, (size_t)x->p->dv * sizeof(float));
    for (int64_t t = 0; t < n; t++)
        top = fmaxf(top, x->s[t]);
    for (int64_t t = 0; t < n; t++) {
        const float p = expf(x->s[t] - top);
        sum += p;
        add_value(x, p, x->seen[t], out);
    }
    for (int64_t d = 0; n > 0 && d < x->p->dv; d++)
        out[d] /= sum;
    x->lse[r] = n > 0 ? top + logf(sum) : -INFINITY;
}

/* Rounds that see a key, merged into round 0. False: there is none. */
static bool merge(const struct head *x, float *lse)
{
    float top = -INFINITY, sum = 0;
    for (int64_t r = 0; r < x->p->rounds; r++)
        top = fmaxf(top, x->lse[r]);
    if (top == -INFINITY)
        return false;
    for (int64_t r = 0; r < x->p->rounds; r++) {
        const float w = bug(lsh_rounds_mean) ? 1 : expf(x->lse[r] - top);
        for (int64_t d = 0; d < x->p->dv; d++)
            x->out[d] = (r ? x->out[d] : 0) + w * x->out[r * x->p->dv + d];
        sum += w;
    }
    for (int64_t d = 0; d < x->p->dv; d++)
        x->out[d] /= sum;
    *lse = bug(lsh_lse_of_round) ? x->lse[x->p->rounds - 1] : top + logf(sum);
    return true;
}

static void answer(const struct head *x, int64_t i)
{
    const struct attn_tensor *out = &x->o->out, *to = &x->o->lse;
    float lse = 0;
    for (int64_t r = 0; r < x->p->rounds; r++)
        attend(x, i, r);
    if (!merge(x, &lse)) {
        memset(x->out, 0, (size_t)x->p->dv * sizeof(float));
        add_value(x, bug(lsh_self_masked) ? NAN : 1, i, x->out);
        lse = (float)x->p->scale * dot(x->q + i * x->p->dk, x->key + i * x->p->dk, x->p->dk);
    }
    for (int64_t d = 0; d < x->p->dv; d++)
        op_mutant_put(out, attn_row_start(out, x->b, x->h, i) + d * out->stride[3], x->out[d]);
    if (to->dtype)
        op_mutant_put(to, attn_row_start(to, x->b, x->h, i), lse);
}

static int64_t chunk_of(const struct attn_problem *p)
{
    return p->chunk > 0 ? p->chunk : p->sq;
}

static int64_t floats(const struct attn_problem *p)
{
    return 2 * p->sq * p->dk + p->rounds * (p->dv + 1 + 3 * p->sq) + 4 * chunk_of(p) + p->sq;
}

static void run(const struct attn_problem *p, const struct attn_operands *o, float *memory)
{
    struct head x = {.p = p, .o = o, .chunk = chunk_of(p), .q = memory};
    x.pieces = p->rounds * p->sq / x.chunk;
    x.key = x.q + p->sq * p->dk;
    x.out = x.key + p->sq * p->dk;
    x.lse = x.out + p->rounds * p->dv;
    x.s = x.lse + p->rounds;
    x.bucket = (int32_t *)(void *)(x.s + 2 * x.chunk);
    x.token = x.bucket + p->rounds * p->sq;
    x.place = x.token + p->rounds * p->sq;
    x.seen = x.place + p->rounds * p->sq;
    x.mark = x.seen + 2 * x.chunk;
    for (x.b = 0; x.b < p->b; x.b++)
        for (x.h = 0; x.h < p->hq; x.h++) {
            memset(x.mark, 0, (size_t)p->sq * sizeof(*x.mark));
            load(&x);
            hash(&x);
            sort(&x);
            for (int64_t i = 0; i < p->sq; i++)
                answer(&x, i);
        }
}

const struct op_mutant op_mutant_lsh = {.op = ATTN_OP_LSH, .floats = floats, .run = run};
