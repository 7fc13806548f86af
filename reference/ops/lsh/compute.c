/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - lsh in double: the buckets, the order of the tokens by bucket, and for each row one
 * softmax over the keys that it sees, each as often as it is seen. OP.md derives the bound. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/ops/lsh/lsh.h"

/* Tokens of one head by round and bucket. */
struct order {
    const struct ref_lsh_hash *hash;
    bool causal, spares_self;
    int64_t *token; /* [R S] by place */
    int64_t *place; /* [R,S] of each token */
};

struct entry {
    int64_t token;
    int32_t bucket;
};

static int by_bucket(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    if (a->bucket != b->bucket)
        return a->bucket < b->bucket ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

static void sort(const struct order *order, struct entry *entries)
{
    const int64_t steps = order->hash->steps;

    for (int64_t r = 0; r < order->hash->rounds; r++) {
        for (int64_t i = 0; i < steps; i++)
            entries[i] = (struct entry){i, order->hash->bucket[r * steps + i]};
        qsort(entries, (size_t)steps, sizeof(*entries), by_bucket);
        for (int64_t n = 0; n < steps; n++) {
            order->token[r * steps + n] = entries[n].token;
            order->place[r * steps + entries[n].token] = r * steps + n;
        }
    }
}

/* Adds up how often each key lies in a piece. */
static void see(const struct order *order, int64_t piece, double *times)
{
    const int64_t chunk = order->hash->chunk;

    for (int64_t n = piece * chunk; n < (piece + 1) * chunk; n++)
        times[order->token[n]] += 1;
}

/* The log of how often query i sees each key; -inf: never. */
static void count_keys(const void *context, int64_t i, double *times)
{
    const struct order *order = context;
    const int64_t steps = order->hash->steps;
    const int64_t pieces = order->hash->rounds * steps / order->hash->chunk;
    bool others = false;

    memset(times, 0, (size_t)steps * sizeof(*times));
    for (int64_t r = 0; r < order->hash->rounds; r++) {
        const int64_t piece = order->place[r * steps + i] / order->hash->chunk;
        see(order, piece, times);
        if (pieces > 1)
            see(order, (piece + pieces - 1) % pieces, times);
    }
    for (int64_t j = 0; j < steps; j++) {
        times[j] = order->causal && j > i ? 0 : times[j];
        others = others || (j != i && times[j] > 0);
    }
    if (order->spares_self)
        times[i] = others ? 0 : 1;
    for (int64_t j = 0; j < steps; j++)
        times[j] = times[j] == 1 ? 0 : times[j] > 0 ? log(times[j]) : -INFINITY;
}

/* One head at work. */
struct head {
    struct ref_job job; /* as the rows of a softmax see it */
    struct attn_problem problem;
    struct ref_arithmetic declared; /* of which the job's is made for each head */
    struct ref_lsh_hash hash;
    struct ref_keys keys;
    struct order order;
    struct entry *entries;
    double *q; /* of the requested rows */
};

/* Keys are the queries, normalised; a query of zeros is a key of zeros. */
static void load_keys(struct head *head, int64_t b, int64_t h)
{
    struct ref_keys *keys = &head->keys;
    const struct attn_tensor *v = head->job.operands.by_role[ATTN_V];

    keys->b = b;
    keys->g = h;
    for (int64_t j = 0; j < keys->sk; j++) {
        const double *q = head->hash.q + j * keys->dk;
        double square = 0;
        for (int64_t c = 0; c < keys->dk; c++)
            square += q[c] * q[c];
        for (int64_t c = 0; c < keys->dk; c++)
            keys->k[j * keys->dk + c] = square > 0 ? q[c] / sqrt(square) : q[c];
        ref_load_vector(v, (const int64_t[]){b, h, j, 0}, keys->dv, keys->v + j * keys->dv);
    }
    ref_keys_turn(&head->job, keys);
    for (int64_t c = 0; keys->v_most && c < keys->dv; c++) {
        keys->v_most[c] = 0;
        for (int64_t j = 0; j < keys->sk; j++)
            keys->v_most[c] = fmax(keys->v_most[c], fabs(keys->v[j * keys->dv + c]));
    }
    ref_keys_load_score(&head->job, keys, h);
}

/* A normalised key is off by this part: a sum of D squares, of which some may underflow, a root and
 * a quotient. */
static double key_error(const struct head *head)
{
    const struct ref_arithmetic *a = &head->declared;
    const int64_t width = head->keys.dk;
    double least = INFINITY;

    for (int64_t j = 0; j < head->keys.sk; j++) {
        double square = 0;
        for (int64_t c = 0; c < width; c++)
            square += head->hash.q[j * width + c] * head->hash.q[j * width + c];
        least = square > 0 ? fmin(least, square) : least;
    }
    return ref_growth(a, (double)width + 6) + (double)width * a->omega / least;
}

/* What the bound of a softmax does not know: keys that are computed, a maximum that may leave out
 * how often a key counts, and keys that are added as often as they are seen. */
static void set_arithmetic(struct head *head)
{
    struct ref_arithmetic *a = &head->job.arithmetic;
    const int64_t tile = head->job.bounds ? head->job.request->numerics->key_tile : 0;
    const double places = 2.0 * (double)(head->hash.rounds * head->hash.chunk);
    const double copies = 2.0 * (double)head->hash.rounds;

    *a = head->declared;
    if (!head->job.bounds)
        return;
    a->u_in += 0.5 * key_error(head);
    a->tau += log(copies);
    a->eta_p *= copies;
    a->tiles = tile > 0 ? fmax(1, ceil(places / (double)tile)) : 1;
    a->chain = a->chain > 0 ? a->chain : places + 2;
}

/* Rounding of the output type on top of E, in place. */
static void finish_bounds(const struct head *head, int64_t first, int64_t count)
{
    const struct ref_values *out = &head->job.result->output[REF_LSH_OUT];
    const int64_t dv = head->problem.dv;

    for (int64_t x = first * dv; x < (first + count) * dv; x++)
        out->bound[x] = ref_bound_final(&head->job.arithmetic, head->problem.dtype, out->value[x],
                                        out->bound[x]);
}

static void compute_rows(struct head *head, int64_t b, int64_t h, int64_t first, int64_t count)
{
    const struct ref_values *out = &head->job.result->output[REF_LSH_OUT];
    const int64_t dv = head->problem.dv, width = head->problem.dq;
    struct ref_block block = {.job = &head->job,
                              .keys = &head->keys,
                              .b = b,
                              .h = h,
                              .first = first,
                              .count = count,
                              .q = head->q,
                              .out_stride = dv,
                              .out = out->value ? out->value + first * dv : NULL,
                              .times = count_keys,
                              .context = &head->order,
                              .copies = 2.0 * (double)head->hash.rounds};

    block.error = head->job.bounds && out->bound ? out->bound + first * dv : NULL;
    for (int64_t r = 0; r < count; r++)
        memcpy(head->q + r * width,
               head->hash.q + ref_row_index(&head->job, first + r) % head->problem.sq * width,
               (size_t)width * sizeof(double));
    sort(&head->order, head->entries);
    load_keys(head, b, h);
    set_arithmetic(head);
    ref_block_compute(&block);
    if (block.error)
        finish_bounds(head, first, count);
}

/* Buckets are right, or they are not. */
static void store_buckets(const struct head *head, int64_t first, int64_t count)
{
    const struct ref_values *buckets = &head->job.result->output[REF_LSH_BUCKETS];
    const struct ref_units *units = &head->job.request->units[REF_LSH_BUCKETS];
    const int64_t of_head = head->hash.rounds * head->hash.steps;

    for (int64_t r = first; r < first + count; r++) {
        if (buckets->value)
            buckets->value[r] = head->hash.bucket[ref_unit_number(units, r) % of_head];
        if (buckets->bound)
            buckets->bound[r] = 0;
    }
}

/* The job as attention has it. The problem has no scores of its own. */
static int begin(const struct ref_job *job, struct head *head)
{
    const struct attn_problem *p = job->operands.problem;
    const struct ref_values lse = job->result->output[REF_LSH_LSE];
    const int64_t places = p->rounds * p->sq;

    *head = (struct head){.job = *job, .problem = *p, .declared = job->arithmetic};
    head->problem.score = ATTN_SCORE_SCALED_DOT;
    ref_operands_init(&head->job.operands, &head->problem);
    head->job.rows = (struct ref_row_results){
        .lse = lse.value, .lse_bound = lse.bound, .weights = job->result->implied, .heads = 1};
    head->job.scratch = ref_scratch_create(&head->problem, job->threads);
    if (!head->job.scratch || ref_keys_create(&head->job, &head->keys) != ATTN_OK ||
        ref_lsh_hash_create(&head->hash, &head->job.operands, job->bounds ? &head->declared : NULL,
                            job->threads) != ATTN_OK)
        return ATTN_OUT_OF_MEMORY;
    head->hash.stored = job->request->stored;
    head->order = (struct order){.hash = &head->hash,
                                 .causal = p->flags & ATTN_FLAG_CAUSAL,
                                 .spares_self = p->variant == ATTN_LSH_LAST,
                                 .token = calloc((size_t)places, sizeof(int64_t)),
                                 .place = calloc((size_t)places, sizeof(int64_t))};
    head->entries = calloc((size_t)p->sq, sizeof(*head->entries));
    head->q = ref_alloc_doubles(p->sq, p->dq);
    return head->order.token && head->order.place && head->entries && head->q ? ATTN_OK
                                                                              : ATTN_OUT_OF_MEMORY;
}

static void end(struct head *head)
{
    free(head->q);
    free(head->entries);
    free(head->order.place);
    free(head->order.token);
    ref_lsh_hash_free(&head->hash);
    ref_keys_free(&head->keys);
    ref_scratch_free(head->job.scratch, head->job.threads);
}

int ref_lsh_compute(const struct ref_job *job)
{
    const struct attn_problem *p = job->operands.problem;
    const struct ref_units *rows = &job->request->units[REF_LSH_OUT];
    const struct ref_units *hashes = &job->request->units[REF_LSH_BUCKETS];
    struct head head;
    const int status = begin(job, &head);

    for (int64_t n = 0, row = 0, hash = 0; status == ATTN_OK && n < p->b * p->hq; n++) {
        const int64_t first = row, first_hash = hash;
        const int64_t count = ref_units_take(rows, p->sq, n, &row);
        const int64_t buckets = ref_units_take(hashes, p->rounds * p->sq, n, &hash);
        if (count + buckets == 0)
            continue;
        ref_lsh_hash_head(&head.hash, n / p->hq, n % p->hq);
        if (count > 0)
            compute_rows(&head, n / p->hq, n % p->hq, first, count);
        store_buckets(&head, first_hash, buckets);
    }
    end(&head);
    return status;
}
