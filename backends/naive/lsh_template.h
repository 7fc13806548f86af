/* SPDX-License-Identifier: Apache-2.0 */
/* lsh_template.h - attention of Reformer: the buckets, the order of the tokens by bucket, and three
 * passes over the keys that a query sees. A key that it sees twice is in its list twice. Include it
 * after attention_template.h. */

/* Workspace of one head; S tokens, R rounds, nb buckets, c tokens to a piece. */
struct NAME(hashed) {
    REAL *q;         /* [S,Dk] */
    REAL *keys;      /* [S,Dk] q of length 1 */
    REAL *rotations; /* [nb/2,Dk] of one round */
    int64_t *bucket; /* [R,S] */
    int64_t *token;  /* [R S] by round and bucket */
    int64_t *place;  /* [R,S] of each token in that list */
    int64_t *seen;   /* [2 R c] the keys of one query */
    REAL *s;         /* [2 R c] their logits, later their weights */
    REAL *v, *sum;   /* [Dv] */
};

static int64_t chunk_of(const struct attn_problem *p)
{
    return p->chunk > 0 ? p->chunk : p->sq;
}

static size_t lay_out_hashed(const struct attn_problem *p, char *base, struct NAME(hashed) * w)
{
    int64_t **const places[] = {&w->bucket, &w->token, &w->place};
    const int64_t looks = 2 * p->rounds;
    size_t used = 0;
    w->q = take(base, &used, p->sq, p->dk, sizeof(REAL));
    w->keys = take(base, &used, p->sq, p->dk, sizeof(REAL));
    w->rotations = take(base, &used, p->buckets / 2, p->dk, sizeof(REAL));
    for (size_t n = 0; n < sizeof(places) / sizeof(places[0]); n++)
        *places[n] = take(base, &used, p->rounds, p->sq, sizeof(int64_t));
    w->seen = take(base, &used, looks, chunk_of(p), sizeof(int64_t));
    w->s = take(base, &used, looks, chunk_of(p), sizeof(REAL));
    w->v = take(base, &used, p->dv, 1, sizeof(REAL));
    w->sum = take(base, &used, p->dv, 1, sizeof(REAL));
    return used;
}

/* Queries, and keys: a query of zeros is a key of zeros. */
static void load_hashed(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                        int64_t h, const struct NAME(hashed) * w)
{
    for (int64_t i = 0; i < p->sq; i++) {
        REAL *q = w->q + i * p->dk, *key = w->keys + i * p->dk;
        load(q, &o->q, attn_row_start(&o->q, b, h, i), o->q.stride[3], p->dk);
        const REAL square = dot(q, q, p->dk), length = (REAL)sqrt((double)square);
        for (int64_t c = 0; c < p->dk; c++)
            key[c] = length > 0 ? q[c] / length : q[c];
    }
}

/* The lowest index of the largest of [x; -x], x the products of q with the rotations. */
static int64_t bucket_of(const struct attn_problem *p, const REAL *q, const REAL *rotations)
{
    const int64_t half = p->buckets / 2;
    int64_t most = 0, least = 0;
    REAL high = 0, low = 0;
    for (int64_t t = 0; t < half; t++) {
        const REAL x = dot(q, rotations + t * p->dk, p->dk);
        if (t == 0 || x > high)
            most = t, high = x;
        if (t == 0 || x < low)
            least = t, low = x;
    }
    return -low > high ? half + least : most;
}

static int64_t offset_of_bucket(const struct attn_tensor *buckets, int64_t b, int64_t h, int64_t r,
                                int64_t i)
{
    return attn_row_start(buckets, b, h, r) + i * buckets->stride[3];
}

static void hash(const struct attn_problem *p, const struct attn_operands *o, int64_t h, int64_t r,
                 const struct NAME(hashed) * w)
{
    const struct attn_tensor *rotations = &o->rotations;
    const int64_t round = h * rotations->stride[0] + r * rotations->stride[2];
    for (int64_t t = 0; t < p->buckets / 2; t++)
        load(w->rotations + t * p->dk, rotations, round + t * rotations->stride[3],
             rotations->stride[1], p->dk);
    for (int64_t i = 0; i < p->sq; i++)
        w->bucket[r * p->sq + i] = bucket_of(p, w->q + i * p->dk, w->rotations);
}

/* The buckets as they are given, or computed and stored if they are asked for. */
static void set_buckets(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                        int64_t h, const struct NAME(hashed) * w)
{
    const struct attn_tensor *in = &o->buckets_in, *out = &o->buckets_out;
    for (int64_t r = 0; r < p->rounds; r++) {
        int64_t *bucket = w->bucket + r * p->sq;
        if (!in->dtype)
            hash(p, o, h, r, w);
        for (int64_t i = 0; i < p->sq; i++) {
            if (in->dtype)
                bucket[i] = ((const int32_t *)in->data)[offset_of_bucket(in, b, h, r, i)];
            if (out->dtype)
                ((int32_t *)out->data)[offset_of_bucket(out, b, h, r, i)] = (int32_t)bucket[i];
        }
    }
}

/* Tokens by round, bucket and position. */
static void order_tokens(const struct attn_problem *p, const struct NAME(hashed) * w)
{
    int64_t n = 0;
    for (int64_t r = 0; r < p->rounds; r++)
        for (int64_t t = 0; t < p->buckets; t++)
            for (int64_t i = 0; i < p->sq; i++) {
                if (w->bucket[r * p->sq + i] != t)
                    continue;
                w->place[r * p->sq + i] = n;
                w->token[n++] = i;
            }
}

/* The keys that query i sees: in each round those of its piece and of the one before, and its own
 * only if it may, or if there is no other. */
static int64_t look(const struct attn_problem *p, int64_t i, const struct NAME(hashed) * w)
{
    const int64_t chunk = chunk_of(p), pieces = p->rounds * p->sq / chunk;
    const int causal = (p->flags & ATTN_FLAG_CAUSAL) != 0, last = p->variant == ATTN_LSH_LAST;
    int64_t n = 0;
    for (int64_t r = 0; r < p->rounds; r++) {
        const int64_t own = w->place[r * p->sq + i] / chunk;
        for (int64_t back = 0; back < (pieces > 1 ? 2 : 1); back++) {
            const int64_t piece = (own - back + pieces) % pieces;
            for (int64_t m = piece * chunk; m < (piece + 1) * chunk; m++) {
                const int64_t j = w->token[m];
                if (!(causal && j > i) && !(last && j == i))
                    w->seen[n++] = j;
            }
        }
    }
    if (n == 0)
        w->seen[n++] = i;
    return n;
}

static void run_query(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                      int64_t h, int64_t i, const struct NAME(hashed) * w)
{
    const struct attn_tensor *out = &o->out, *lse = &o->lse;
    const int64_t n = look(p, i, w);
    for (int64_t t = 0; t < n; t++)
        w->s[t] = (REAL)p->scale * dot(w->q + i * p->dk, w->keys + w->seen[t] * p->dk, p->dk);
    const REAL log_sum = softmax(w->s, n, &o->sink, h);
    memset(w->sum, 0, (size_t)p->dv * sizeof(REAL));
    for (int64_t t = 0; t < n; t++)
        add_scaled(w->sum, w->s[t], head_row(&o->v, b, h, w->seen[t], p->dv, w->v), p->dv);
    store(out, attn_row_start(out, b, h, i), out->stride[3], p->dv, w->sum);
    if (lse->dtype)
        store(lse, attn_row_start(lse, b, h, i), 1, 1, &log_sum);
}

static void run_hashed(const struct attn_problem *p, const struct attn_operands *o,
                       const struct NAME(hashed) * w)
{
    for (int64_t head = 0; head < p->b * p->hq; head++) {
        const int64_t b = head / p->hq, h = head % p->hq;
        load_hashed(p, o, b, h, w);
        set_buckets(p, o, b, h, w);
        order_tokens(p, w);
        for (int64_t i = 0; i < p->sq; i++)
            run_query(p, o, b, h, i, w);
    }
}
