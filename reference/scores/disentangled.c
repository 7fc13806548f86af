/* SPDX-License-Identifier: Apache-2.0 */
/* disentangled.c - q.k, and products of q and of k with tables of positions (DeBERTa). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/clones.h"
#include "reference/scores/products.h"
#include "reference/sums.h"

/* Keys whose sums stay in the first-level cache while all columns pass. */
#define KEYS 512

/* A table of positions of one query head, transposed, and the sums of magnitudes of its rows. */
struct table {
    double *rows; /* [Dk, 2 span] */
    double *size; /* [2 span] */
};

struct own {
    int64_t rows; /* 2 span */
    struct table kr, qr;
};

/* Which products a score has. */
static bool has_c2p(const struct attn_problem *p)
{
    return p->parts != ATTN_PARTS_P2C;
}

static bool has_p2c(const struct attn_problem *p)
{
    return p->parts != ATTN_PARTS_C2P;
}

/* ---- the arrays of a head ---- */

static void destroy(struct ref_keys *keys)
{
    struct own *own = keys->own;

    if (own) {
        free(own->kr.rows);
        free(own->kr.size);
        free(own->qr.rows);
        free(own->qr.size);
    }
    free(own);
    keys->own = NULL;
}

static bool allocate(struct table *table, int64_t rows, int64_t width)
{
    table->rows = ref_alloc_doubles(width, rows);
    table->size = ref_alloc_doubles(rows, 1);
    return table->rows && table->size;
}

static int create(const struct ref_job *job, struct ref_keys *keys)
{
    struct own *own = keys->own = calloc(1, sizeof(*own));

    if (!own)
        return -1;
    own->rows = job->operands.by_role[ATTN_SCORE_KR]->shape[1];
    return allocate(&own->kr, own->rows, keys->dk) && allocate(&own->qr, own->rows, keys->dk) ? 0
                                                                                              : -1;
}

static void load_table(const struct attn_tensor *from, int64_t h, int64_t rows, int64_t width,
                       const struct table *table)
{
    for (int64_t r = 0; r < rows; r++) {
        table->size[r] = 0.0;
        for (int64_t c = 0; c < width; c++) {
            const double value = ref_load(from, (const int64_t[]){h, r, c});
            table->rows[c * rows + r] = value;
            table->size[r] += fabs(value);
        }
    }
}

static void load(const struct ref_job *job, struct ref_keys *keys, int64_t h)
{
    const struct attn_tensor *const *t = job->operands.by_role;
    const struct own *own = keys->own;

    load_table(t[ATTN_SCORE_KR], h, own->rows, keys->dk, &own->kr);
    load_table(t[ATTN_SCORE_QR], h, own->rows, keys->dk, &own->qr);
}

/* ---- which rows a query and a key read ---- */

static int64_t clip(int64_t x, int64_t rows)
{
    return x < 0 ? 0 : x < rows ? x : rows - 1;
}

/* The rows of KR and of QR for query i and keys [begin, begin + n). */
static void find_rows(const struct ref_block *block, int64_t i, int64_t begin, int64_t n,
                      int32_t kr[KEYS], int32_t qr[KEYS])
{
    const struct ref_operands *operands = &block->job->operands;
    const struct attn_tensor *table = operands->by_role[ATTN_REL_POS];
    const int64_t rows = ((const struct own *)block->keys->own)->rows, span = rows / 2;
    const int64_t diagonal = i + ref_offset(operands, block->b);
    const bool paper = operands->problem->variant == ATTN_POSITIONS_PAPER;

    for (int64_t t = 0; t < n; t++) {
        const int64_t j = begin + t, entry = i - j + block->keys->sk - 1;
        const int64_t d =
            table ? (int64_t)ref_load(table, &entry) : clip(diagonal - j + span, rows);
        const int64_t turned = table ? clip(rows - d, rows) : clip(j - diagonal + span, rows);
        kr[t] = (int32_t)d;
        qr[t] = (int32_t)(paper ? turned : d);
    }
}

/* ---- sums over columns ---- */

/* part_t = sum_c q_c row[r_t]_c for n keys, and magnitude_t += sum of the same with |.| */
ATTN_CLONES("avx2", "avx512f")
static void meet_query(const double *q, const struct ref_keys *keys, const double *rows,
                       int64_t stride, const int32_t *r, int64_t n, double *restrict part,
                       double *restrict magnitude)
{
    for (int64_t t = 0; t < n; t++)
        part[t] = 0.0;
    for (int64_t c = 0; c < keys->dk; c++)
        for (int64_t t = 0; t < n; t++) {
            const double product = q[c] * rows[c * stride + r[t]];
            part[t] += product;
            magnitude[t] += fabs(product);
        }
}

/* The same with key begin + t instead of q. */
ATTN_CLONES("avx2", "avx512f")
static void meet_keys(int64_t begin, const struct ref_keys *keys, const double *rows,
                      int64_t stride, const int32_t *r, int64_t n, double *restrict part,
                      double *restrict magnitude)
{
    for (int64_t t = 0; t < n; t++)
        part[t] = 0.0;
    for (int64_t c = 0; c < keys->dk; c++) {
        const double *k = keys->kt + c * keys->sk + begin;
        for (int64_t t = 0; t < n; t++) {
            const double product = k[t] * rows[c * stride + r[t]];
            part[t] += product;
            magnitude[t] += fabs(product);
        }
    }
}

/* One part more of the scores of n keys: `sum` of |part| is what stores may round alone. */
static void add_part(const double *part, int64_t n, double *restrict s, double *restrict sum)
{
    for (int64_t t = 0; t < n; t++) {
        s[t] += part[t];
        sum[t] += fabs(part[t]);
    }
}

/* Scores of keys [begin, begin + n), their magnitudes, sums of their parts (in spread), and what
 * underflows in their products (in flush). */
static void score_keys(const struct ref_block *block, int64_t i, const double *q, double q_size,
                       int64_t begin, int64_t n, struct ref_scratch *scratch)
{
    const struct attn_problem *problem = block->job->operands.problem;
    const struct ref_keys *keys = block->keys;
    const struct own *own = keys->own;
    const double steps = 2.0 * (double)keys->dk + 1.0;
    double *s = scratch->score[0] + begin, *magnitude = scratch->magnitude + begin;
    double *sum = scratch->spread + begin, *flush = scratch->flush + begin, part[KEYS];
    int32_t kr[KEYS], qr[KEYS];

    find_rows(block, i, begin, n, kr, qr);
    memset(magnitude, 0, (size_t)n * sizeof(*magnitude));
    ref_add_magnitudes(q, keys->kt + begin, keys->sk, NULL, keys->dk, n, magnitude);
    for (int64_t t = 0; t < n; t++) {
        sum[t] = fabs(s[t]);
        flush[t] = steps + q_size + (keys->k_size ? keys->k_size[begin + t] : 0.0);
    }
    if (has_c2p(problem)) {
        meet_query(q, keys, own->kr.rows, own->rows, kr, n, part, magnitude);
        add_part(part, n, s, sum);
        for (int64_t t = 0; t < n; t++)
            flush[t] += steps + q_size + own->kr.size[kr[t]];
    }
    if (has_p2c(problem)) {
        meet_keys(begin, keys, own->qr.rows, own->rows, qr, n, part, magnitude);
        add_part(part, n, s, sum);
        for (int64_t t = 0; keys->k_size && t < n; t++)
            flush[t] += steps + keys->k_size[begin + t] + own->qr.size[qr[t]];
    }
}

/* ---- errors ---- */

/* The products of one score: of q and k, and of each part. */
static double sums_of(const struct attn_problem *p)
{
    return 1.0 + (has_c2p(p) ? 1.0 : 0.0) + (has_p2c(p) ? 1.0 : 0.0);
}

/* The error of stores of each part by itself, where scores are stored narrower than they are summed
 * up: relative to the parts, and absolute. */
static double stores(const struct attn_problem *p, const struct ref_arithmetic *a, double *lost)
{
    const double grown = expm1(a->score_stores * log1p(a->u_s));

    *lost = a->u_s > 0.0 ? sums_of(p) * a->score_stores * (1.0 + grown) * a->eta_s : 0.0;
    return grown;
}

static void add_errors(const struct ref_block *block, const double *q, int64_t begin, int64_t end,
                       struct ref_scratch *scratch)
{
    const struct attn_problem *problem = block->job->operands.problem;
    const struct ref_arithmetic *a = &block->job->arithmetic;
    const struct ref_score_span span = {
        .keys = block->keys, .a = a, .scratch = scratch, .q = q, .begin = begin, .end = end};
    const double products = sums_of(problem) * (double)problem->dk;
    const double g = ref_growth_partial(a, ref_growth_rounded(a, products + 3.0));
    double lost, stored = stores(problem, a, &lost);

    for (int64_t j = begin; j < end; j++)
        scratch->ds[j] = g * scratch->magnitude[j] + stored * scratch->spread[j] + lost;
    ref_score_flush_partial(&span, products, g);
}

static void scores(const struct ref_block *block, int64_t i, const double *q, const double *q_error,
                   int64_t begin, int64_t end, struct ref_scratch *scratch)
{
    double q_size = 0.0;

    (void)q_error; /* the operators that have this score project nothing */
    ref_score_dot(block->keys, q, begin, end, scratch->score[0]);
    for (int64_t c = 0; c < block->keys->dk; c++)
        q_size += fabs(q[c]);
    for (int64_t from = begin; from < end; from += KEYS)
        score_keys(block, i, q, q_size, from, end - from < KEYS ? end - from : KEYS, scratch);
    if (block->job->bounds)
        add_errors(block, q, begin, end, scratch);
}

/* ---- from norms ---- */

/* part[0], part[1]: the longest row of KR and of QR, 0 if it is not read. */
static void measure(const struct ref_operands *operands, int64_t h, double part[REF_SCORE_PARTS])
{
    const struct attn_problem *p = operands->problem;
    const struct attn_tensor *kr = operands->by_role[ATTN_SCORE_KR];
    const struct attn_tensor *qr = operands->by_role[ATTN_SCORE_QR];

    for (int64_t r = 0; r < kr->shape[1]; r++) {
        const int64_t at[ATTN_MAX_RANK] = {h, r};
        if (has_c2p(p))
            part[0] = ref_larger(part[0], ref_score_length(kr, at, p->dk));
        if (has_p2c(p))
            part[1] = ref_larger(part[1], ref_score_length(qr, at, p->dk));
    }
}

static void norm(const struct attn_problem *p, const struct ref_arithmetic *x, const double *part,
                 double q, double k, struct ref_score_norm *s)
{
    const double dk = (double)p->dk, sums = sums_of(p);
    double lost, stored = stores(p, x, &lost);

    s->most = q * k + q * part[0] + k * part[1];
    s->lost = sums * (2 * dk + 1) + sqrt(dk) * (2 * q + 2 * k + part[0] + part[1]);
    ref_score_norm_partial(x, ref_growth_rounded(x, sums * dk + 3), sums * dk, s);
    s->ds += stored * s->most + lost;
    s->size = 2 * s->most;
}

/* Two sums with look-ups, and their magnitudes: some eight times the sum of products itself. */
static double cost(const struct attn_problem *problem)
{
    return 8.0 * (double)problem->sk * (double)problem->dk;
}

/* ---- the problem ---- */

static int refuse(char *why, size_t size, const char *reason)
{
    snprintf(why, size, "%s", reason);
    return ATTN_INVALID;
}

static int check(const struct ref_operands *operands, char *why, size_t size)
{
    const struct attn_problem *p = operands->problem;
    const int64_t rows = operands->by_role[ATTN_SCORE_KR]->shape[1];
    const struct attn_tensor *table = operands->by_role[ATTN_REL_POS];

    if (p->parts < ATTN_PARTS_BOTH || p->parts > ATTN_PARTS_P2C)
        return refuse(why, size, "parts of the disentangled score are not known");
    if (p->variant < ATTN_POSITIONS_CODE || p->variant > ATTN_POSITIONS_PAPER)
        return refuse(why, size, "this variant of the disentangled score is not known");
    if (rows < 2 || rows % 2 || rows > INT32_MAX)
        return refuse(why, size, "a table of positions has 2 span rows");
    for (int64_t d = 0; table && table->data && d < table->shape[0]; d++) {
        const double row = ref_load(table, &d);
        if (row < 0.0 || row >= (double)rows) {
            snprintf(why, size, "entry %lld of rel_buckets is %.0f, outside 0..%lld", (long long)d,
                     row, (long long)rows - 1);
            return ATTN_INVALID;
        }
    }
    return ATTN_OK;
}

static const uint32_t params[] = {ATTN_SCORE_KR, ATTN_SCORE_QR, 0};
static const uint32_t options[] = {ATTN_REL_POS, 0};
static const char *const keys[] = {"parts", "rel_buckets", "span", "variant", NULL};

const struct ref_score ref_score_disentangled = {
    .score = ATTN_SCORE_DISENTANGLED,
    .name = "disentangled",
    .meaning = "q.k + q.KR[i-j] + k.QR[i-j], scaled by 1/sqrt(3 dk) unless told otherwise",
    .traits = REF_SCORE_PRODUCT | REF_SCORE_PARTIAL | REF_SCORE_PLACES,
    .by_width = true,
    .by_parts = true,
    .params = params,
    .options = options,
    .keys = keys,
    .rule = "tables of positions and the disentangled score go together",
    .check = check,
    .cost = cost,
    .create = create,
    .load = load,
    .destroy = destroy,
    .scores = scores,
    .measure = measure,
    .norm = norm,
};
