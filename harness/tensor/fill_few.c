/* SPDX-License-Identifier: Apache-2.0 */
/* fill_few.c - fill=few_queries.
 *
 * A key/value head has a few distinct queries. Each row of its query heads has one of them, by a
 * seed that no plugin knows; neighbours differ. Keys are random; scores of a row spread by
 * SPREAD. One key in each tile is close to one of the queries, in turn, and weighs as much for that
 * query as all random keys together. So each row looks at keys all over the sequence, and a lost
 * tile, a wrong scale or another row's answer show. Values are random signs.
 *
 * Where rows with the same query have the same answer, whatever keys and values are (linformer,
 * performer, nystrom), only q is made so; the other operands are those of fill=normal. */
#include "tensor/fill_few.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "case/operator.h"
#include "reference/every.h"
#include "tensor/operand.h"

/* Streams of random numbers of this fill. */
enum {
    STREAM_QUERY = ATTN_ROLE_USER + 32,
    STREAM_STEP,
    STREAM_KEY,
    STREAM_SIGN,
    STREAM_PLACE,
    STREAM_HEIGHT,
    STREAM_CYCLE
};

enum { MOST_QUERIES = 32, LEAST_QUERIES = 8, TILE = 64, KEYS_OF_A_QUERY = 4 };

/* Multiply-adds that all rows together should cost. */
#define COST 2e9
/* Standard deviation of the scores of random keys, in a dot product. */
#define SPREAD 2.0
/* Close keys are below the weight of all random keys by up to LOW, or above by up to HIGH, as
 * logarithms. */
#define LOW  2.0
#define HIGH 1.0

_Static_assert((int)MOST_QUERIES <= (int)REF_EVERY_QUERIES, "every row must be judged");

/* A key close to a query. */
struct close_key {
    int64_t place; /* in its tile */
    int64_t query;
    double low; /* by how much its score is below the highest */
};

struct few {
    const struct attn_case *c;
    const struct ref_score *score;
    uint64_t seed;
    int64_t group;                /* query heads that share a key/value head */
    int64_t heads, queries, tile; /* heads: of k, as stored; the queries of each; keys in a tile */
    int64_t tiles, columns;
    int64_t width;           /* of the tensor at work */
    double unit;             /* standard deviation of an element of q */
    double noise;            /* the same of k */
    double *query;           /* [heads, queries, Dq] */
    unsigned char *row;      /* [B, Hq, Sq] the row's query */
    struct close_key *close; /* [heads, tiles] */
};

static bool rows_alike(const struct attn_case *c)
{
    return ref_op_is(c->op, REF_ROWS_ALIKE);
}

bool attn_fill_few_writes(const struct attn_case *c, uint32_t role)
{
    const bool query = role == ATTN_Q, pair = role == ATTN_K || role == ATTN_V;
    return c->fill == ATTN_FILL_FEW_QUERIES && (query || (pair && !rows_alike(c)));
}

int64_t attn_fill_few_count(const struct attn_problem *problem)
{
    int64_t count = MOST_QUERIES;
    while (count > LEAST_QUERIES && ref_every_cost(problem, count) > COST)
        count /= 2;
    return count;
}

static double uniform(const struct few *f, uint32_t stream, int64_t index)
{
    return attn_random_uniform(f->seed, stream, (uint64_t)index);
}

/* A number in 0 .. count-1. */
static int64_t below(const struct few *f, uint32_t stream, int64_t index, int64_t count)
{
    const int64_t n = (int64_t)(uniform(f, stream, index) * (double)count);
    return n < count ? n : count - 1;
}

static bool by_distance(const struct few *f)
{
    return f->score->traits & REF_SCORE_DISTANCE;
}

static bool by_product(const struct few *f)
{
    return f->score->traits & REF_SCORE_PRODUCT;
}

/* Sizes of q and k, which share what a scale far from the usual asks for. */
static void choose_units(struct few *f)
{
    const double scale = fabs(f->c->scale), columns = (double)f->columns;
    f->unit = f->noise = 1;
    if (rows_alike(f->c))
        return;
    if (by_product(f)) {
        f->unit = 1 / sqrt(scale * sqrt(columns));
        f->noise = SPREAD * f->unit;
    } else if (by_distance(f)) {
        f->unit = f->noise = sqrt(SPREAD / (scale * sqrt(2 * columns)));
    }
}

static void choose_queries(struct few *f)
{
    const int64_t dq = f->c->dq;
    for (int64_t x = 0; x < f->heads * f->queries * dq; x++)
        f->query[x] = f->unit * attn_random_normal(f->seed, STREAM_QUERY, (uint64_t)x);
}

/* Each row's query is some steps after that of the row before. */
static void choose_rows(struct few *f)
{
    const int64_t sq = f->c->sq, rows = f->c->b * f->c->hq * sq;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t step = r % sq ? 1 + below(f, STREAM_STEP, r, f->queries - 1)
                                    : below(f, STREAM_STEP, r, f->queries);
        f->row[r] = (unsigned char)((step + (r % sq ? f->row[r - 1] : 0)) % f->queries);
    }
}

/* Close keys go through the queries in cycles, each in another order. */
static void choose_close_keys(struct few *f)
{
    for (int64_t n = 0; n < f->heads * f->tiles; n++) {
        const int64_t cycle = n / f->queries;
        const int64_t odd = 2 * below(f, STREAM_CYCLE, 2 * cycle, f->queries / 2) + 1;
        const int64_t first = below(f, STREAM_CYCLE, 2 * cycle + 1, f->queries);
        f->close[n] = (struct close_key){.place = below(f, STREAM_PLACE, n, f->tile),
                                         .query = (n % f->queries * odd + first) % f->queries,
                                         .low = (LOW + HIGH) * uniform(f, STREAM_HEIGHT, n)};
    }
}

static double few_q(const void *context, uint64_t index)
{
    const struct few *f = context;
    const struct attn_case *c = f->c;
    const int64_t row = (int64_t)index / f->width, head = row / c->sq;
    const int64_t b = head / c->hq, g = head % c->hq / f->group;
    const int64_t stored = (b * c->hkv + g) % f->heads;
    return f->query[(stored * f->queries + f->row[row]) * f->width + (int64_t)index % f->width];
}

/* How far k goes along the query to have a score, as a multiple of the query. */
static double along(const struct few *f, const double *query, double score)
{
    double square = 0;
    if (f->c->softcap > 0)
        score = f->c->softcap * atanh(fmin(score / f->c->softcap, 0.95));
    for (int64_t c = 0; c < f->columns; c++)
        square += query[c] * query[c];
    return score / (f->c->scale * square);
}

/* One close key: the whole vector, from its noise. */
static double close_element(const struct few *f, int64_t head, const struct close_key *key,
                            int64_t column, double noise)
{
    const double highest = log((double)f->c->sk) + SPREAD * SPREAD / 2 + HIGH;
    const double *query = f->query + (head * f->queries + key->query) * f->c->dq;
    if (by_distance(f))
        return query[column] +
               noise * sqrt(2 * key->low / (fabs(f->c->scale) * (double)f->columns));
    return f->noise * noise +
           (column < f->columns ? along(f, query, highest - key->low) * query[column] : 0);
}

static void few_k(const void *context, uint64_t first, double values[ATTN_RANDOM_RUN])
{
    const struct few *f = context;
    attn_random_normals(f->seed, STREAM_KEY, first, values);
    for (int n = 0; n < ATTN_RANDOM_RUN; n++) {
        const int64_t index = (int64_t)first + n, row = index / f->width;
        const int64_t head = row / f->c->sk, j = row % f->c->sk;
        const struct close_key *key = &f->close[head * f->tiles + j / f->tile];
        if (head < f->heads && j % f->tile == key->place && (by_product(f) || by_distance(f)))
            values[n] = close_element(f, head, key, index % f->width, values[n]);
        else
            values[n] *= f->noise;
    }
}

static void few_v(const void *context, uint64_t first, double values[ATTN_RANDOM_RUN])
{
    const struct few *f = context;
    attn_random_uniforms(f->seed, STREAM_SIGN, first, values);
    for (int n = 0; n < ATTN_RANDOM_RUN; n++)
        values[n] = values[n] < 0.5 ? -1 : 1;
}

static double few_m(const void *context, uint64_t index)
{
    const struct few *f = context;
    const uint64_t cell = index % (uint64_t)(f->c->dq * f->c->dk);
    return cell / (uint64_t)f->c->dk == cell % (uint64_t)f->c->dk;
}

static void write_operands(struct few *f, struct attn_instance *instance, int threads)
{
    for (uint32_t t = 0; t < instance->problem.n_tensors; t++) {
        const struct attn_tensor *tensor = &instance->tensors[t];
        if (rows_alike(f->c) && tensor->role != ATTN_Q)
            continue;
        f->width = tensor->shape[tensor->rank - 1];
        switch (tensor->role) {
        case ATTN_Q:
            attn_operand_fill(tensor, threads, few_q, f);
            break;
        case ATTN_K:
            attn_operand_fill_runs(tensor, threads, few_k, f);
            break;
        case ATTN_V:
            attn_operand_fill_runs(tensor, threads, few_v, f);
            break;
        case ATTN_SCORE_M:
            attn_operand_fill(tensor, threads, few_m, f);
            break;
        default:
            break;
        }
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int attn_fill_few_queries(struct attn_instance *instance, int threads, char *why, size_t size)
{
    const struct attn_case *c = &instance->c;
    const struct attn_tensor *k = attn_tensor_find(&instance->problem, ATTN_K);
    struct few f = {.c = c,
                    .score = attn_case_score(c),
                    .seed = c->seed + c->sample_seed * UINT64_C(0x9e3779b97f4a7c15),
                    .group = c->hq / c->hkv,
                    .heads = (k->stride[0] == 0 ? 1 : c->b) * c->hkv,
                    .queries = attn_fill_few_count(&instance->problem),
                    .columns = smaller(c->dq, c->dk)};
    f.tile = smaller(TILE, c->sk / (KEYS_OF_A_QUERY * f.queries));
    f.tile = f.tile > 0 ? f.tile : 1;
    f.tiles = (c->sk + f.tile - 1) / f.tile;
    f.query = calloc((size_t)(f.heads * f.queries), (size_t)c->dq * sizeof *f.query);
    f.row = calloc((size_t)(c->b * c->hq), (size_t)c->sq);
    /* One more head: the last run may go beyond the operand. */
    f.close = calloc((size_t)((f.heads + ATTN_RANDOM_RUN) * f.tiles), sizeof *f.close);
    const bool ok = f.query && f.row && f.close;
    if (ok) {
        choose_units(&f);
        choose_queries(&f);
        choose_rows(&f);
        choose_close_keys(&f);
        write_operands(&f, instance, threads);
    } else {
        snprintf(why, size, "no memory for fill=%s", attn_fill_name(c->fill));
    }
    free(f.query);
    free(f.row);
    free(f.close);
    return ok ? 0 : -1;
}
